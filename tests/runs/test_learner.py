"""The learner of a run: chosen by the program or the user, recorded, kept when the run is resumed, shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from remanence.agents import learners
from remanence.agents.base import hypers_of
from remanence.agents.configs import DQN
from remanence.agents.learners import AUTO, NATIVE, XLA, choose_learner
from remanence.cli import main
from remanence.core import hostcall
from remanence.core.errors import UserError
from remanence.core.types import EnvSpec, ObsSpec
from remanence.engine.lanes import Batch
from remanence.experiments.registry import get
from remanence.runs.jobs import make_driver

BITS = EnvSpec(ObsSpec((12,), "bool"), num_actions=2, num_tasks=1, discount=0.9)
SMALL = ["run", "figure5/jellybean", "--preset", "smoke", "--seeds", "1", "--contenders", "PT-DQN", "Random"]


def run(out: Path, *options: str) -> int:
    return main([*SMALL, "--out", str(out), *options])


def description(out: Path) -> dict[str, Any]:
    (path,) = out.glob("figure5/jellybean/*/description.json")
    return json.loads(path.read_text())


def curves(out: Path) -> pl.DataFrame:
    (path,) = out.glob("figure5/jellybean/*/curves.parquet")
    return pl.read_parquet(path)


def test_a_run_records_its_learners_and_show_tells_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    recorded = description(tmp_path)["learners"]
    assert {name: one["learner"] for name, one in recorded.items()} == {"PT-DQN": NATIVE, "Random": XLA}
    capsys.readouterr()
    assert main(["show", "figure5/jellybean", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "PT-DQN learns by native: its observations are bits" in shown
    assert "Random learns by xla: it has no deep network" in shown


def test_the_learner_is_no_part_of_the_hash_and_the_curves_agree(tmp_path: Path) -> None:
    for learner in (XLA, NATIVE):
        assert run(tmp_path / learner, "--learner", learner, "--contenders", "PT-DQN") == 0
    (one,), (other,) = ((tmp_path / learner / "figure5" / "jellybean").iterdir() for learner in (XLA, NATIVE))
    assert one.name == other.name
    by_xla, by_native = curves(tmp_path / XLA), curves(tmp_path / NATIVE)
    assert by_xla["metric"].equals(by_native["metric"])
    np.testing.assert_allclose(
        by_native["value"], by_xla["value"], atol=0.2
    )  # a different action may follow from a last digit


def test_a_resumed_run_keeps_its_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run(tmp_path, "--learner", XLA, "--contenders", "PT-DQN") == 0
    (lanes,) = tmp_path.glob("figure5/jellybean/*/lanes.parquet")
    lanes.unlink()  # as if it had not finished
    assert run(tmp_path, "--contenders", "PT-DQN") == 0
    assert description(tmp_path)["learners"]["PT-DQN"] == {"learner": XLA, "why": "asked for"}
    lanes.unlink()
    assert run(tmp_path, "--learner", NATIVE, "--contenders", "PT-DQN") == 0
    assert description(tmp_path)["learners"]["PT-DQN"]["learner"] == NATIVE
    lanes.unlink()
    monkeypatch.setattr(hostcall, "interface_supported", lambda: False)
    capsys.readouterr()
    assert run(tmp_path, "--contenders", "PT-DQN") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "PT-DQN was started with the native learner" in said
    assert "--learner xla goes on without it" in said
    assert run(tmp_path, "--learner", XLA, "--contenders", "PT-DQN") == 0
    assert description(tmp_path)["learners"]["PT-DQN"]["learner"] == XLA


def test_a_native_life_is_saved_and_restored_bit_by_bit_and_goes_on_by_the_other_learner() -> None:
    plan = get("figure5/jellybean").plan("smoke")
    config = plan.contenders["PT-DQN"].config
    lanes: tuple[list[Any], list[int]] = ([hypers_of(config)] * 2, [0, 1])

    def program(learner: str) -> Any:
        driver = make_driver(plan, config, learner)
        driver.rounds_per_chunk = 1
        return driver

    native = program(NATIVE)
    whole = Batch(native, *lanes, keep_agents=False)
    half = Batch(native, *lanes, keep_agents=False)
    half.advance()
    half.advance()
    saved = half.state()
    outcomes = []
    for batch, start in (
        (whole, None),
        (Batch(native, *lanes, keep_agents=False), saved),
        (Batch(program(XLA), *lanes, keep_agents=False), saved),
    ):
        if start is not None:
            batch.restore(start)
        finished: dict[int, Any] = {}
        while not batch.done:
            finished |= batch.advance()
        outcomes.append(finished)
    for lane in (0, 1):
        one, again, other = (outcome[lane].record["curves"] for outcome in outcomes)
        for name in one:
            assert np.array_equal(one[name], again[name])
            assert np.isfinite(other[name]).all()


@pytest.mark.parametrize(
    ("spec", "fields", "reason"),
    [
        (EnvSpec(ObsSpec((12,), "float32"), 2), {}, "its observations are not arrays of bits"),
        (BITS, {"optimizer": "rmsprop"}, "its optimizer is none of sgd, adam"),
        (BITS, {"penalty": lambda *_: 0.0}, "it has a penalty or a renewal of weights"),
        (BITS, {"hidden": ()}, "its network is not a stack of dense layers"),
    ],
)
def test_what_has_no_native_learner_says_why(spec: EnvSpec, fields: dict[str, Any], reason: str) -> None:
    agent = DQN(**fields).build(spec)
    with pytest.raises(UserError, match=f"DQN has no native learner: {reason}"):
        choose_learner(agent, NATIVE, "DQN")
    chosen = choose_learner(agent, AUTO)
    assert (chosen.learner, chosen.agent) == (XLA, agent)
    assert chosen.why.startswith(reason)


def test_kernels_that_cannot_be_compiled_are_done_without() -> None:
    def broken() -> Any:
        raise RuntimeError("no compiler")

    agent = DQN().build(BITS)._replace(native=broken)
    with pytest.warns(UserWarning, match=r"learns without the native learner: .*no compiler"):
        assert choose_learner(agent).learner == XLA
    with pytest.raises(UserError, match="cannot be compiled"):
        choose_learner(agent, NATIVE)


def test_tables_have_no_native_learner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "figure2/tabular", "--preset", "smoke", "--learner", "native", "--out", str(tmp_path)]) == 2
    assert "TD has no native learner: it has no deep network" in " ".join(capsys.readouterr().err.split())
    assert main(["run", "figure2/tabular", "--preset", "smoke", "--learner", "fast", "--out", str(tmp_path)]) == 2
    assert "unknown learner" in capsys.readouterr().err
    assert learners.LEARNERS == (AUTO, XLA, NATIVE)
