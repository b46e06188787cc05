"""The learner of a run: chosen by the program or the user, recorded, kept when the run is resumed, shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest

import crash
from remanence.agents import learners
from remanence.agents.base import hypers_of
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.composition import separate_networks
from remanence.agents.configs import DQN
from remanence.agents.dqn import deep_agent
from remanence.agents.learners import choose_learner
from remanence.agents.networks import mlp
from remanence.agents.td import CONTROL
from remanence.agents.training import Consolidation, Training
from remanence.cli import main
from remanence.core import hostcall
from remanence.core.errors import UserError
from remanence.core.learners import AUTO, NATIVE, XLA
from remanence.core.types import EnvSpec, ObsSpec
from remanence.engine.lanes import Batch
from remanence.experiments import get
from remanence.results.directory import Directory
from remanence.runs.jobs import cut, lanes_of_run, make_driver
from remanence.runs.run import _learners

BITS = EnvSpec(ObsSpec((12,), "bool"), num_actions=2, num_tasks=1, discount=0.9)
SMALL = ["run", "figure5/jellybean", "--preset", "smoke", "--seeds", "1", "--contenders", "PT-DQN", "Random"]


def run(out: Path, *options: str) -> int:
    return main([*SMALL, "--out", str(out), *options])


def description(out: Path) -> dict[str, Any]:
    (path,) = out.glob("**/description.json")
    return json.loads(path.read_text())


def test_a_run_records_its_learners_and_show_tells_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    recorded = description(tmp_path)["learners"]
    assert {name: one["learner"] for name, one in recorded.items()} == {"PT-DQN": NATIVE, "Random": XLA}
    capsys.readouterr()
    assert main(["show", "figure5/jellybean", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "PT-DQN learns by native: its observations are bits" in shown
    assert "Random learns by xla: it has no deep network" in shown


def test_a_resumed_run_keeps_its_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner is recorded, but not part of the hash: a run can go on with another one if it is asked to."""

    def resume(learner: str) -> dict[str, str]:
        (lanes,) = tmp_path.glob(f"{crash.NAME}/*/lanes.parquet")
        Directory(lanes.parent).replace(lanes.name, pl.read_parquet(lanes).head(0))  # as if it had not finished
        crash.live(tmp_path, 8, 60.0, learner=learner)
        return description(tmp_path)["learners"]["PT-DQN"]

    crash.live(tmp_path, 8, 60.0, learner=XLA)
    assert resume(AUTO) == {"learner": XLA, "why": "asked for"}
    assert resume(NATIVE)["learner"] == NATIVE
    assert resume(AUTO)["learner"] == NATIVE
    monkeypatch.setattr(hostcall, "interface_supported", lambda: False)
    with pytest.raises(
        UserError, match=r"PT-DQN was started with the native learner.*--learner xla goes on without it"
    ):
        resume(AUTO)
    crash.live(tmp_path, 8, 60.0, learner=XLA)
    assert description(tmp_path)["learners"]["PT-DQN"] == {"learner": XLA, "why": "asked for"}


def test_native_is_for_deep_agents_and_they_run_one_lane_per_core() -> None:
    """The random agent beside them has no learner to choose."""
    plan = get("figure5/jellybean").plan("smoke").select(["PT-DQN", "Random"])
    programs = lanes_of_run(plan, [0, 1, 2])
    chosen = {name: one["learner"] for name, one in _learners({}, plan, programs, NATIVE).items()}
    assert chosen == {"PT-DQN": NATIVE, "Random": XLA}
    assert [group.at_once for group in cut(programs, 3, 60, chosen)] == [1, 3]
    assert [group.at_once for group in cut(programs, 3, 60)] == [3, 3]


def test_a_native_life_is_saved_and_restored_bit_by_bit_and_goes_on_by_the_other_learner() -> None:
    plan = crash.plan(160)
    config = plan.contenders["PT-DQN"].config
    lanes: tuple[list[Any], list[int]] = ([hypers_of(config)] * 2, [0, 1])

    def program(learner: str) -> Any:
        driver = make_driver(plan, config, learner)
        driver.rounds_per_chunk = 1
        return driver

    native = program(NATIVE)
    whole = Batch(native, *lanes, keep_agents=False)
    half = Batch(native, *lanes, keep_agents=False)
    for _ in range(20):
        half.advance()
    assert not half.done
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


def test_networks_that_differ_have_no_native_learner() -> None:
    networks = (mlp((12,), (units,), 2) for units in (8, 16))
    agent = deep_agent(
        CONTROL,
        separate_networks(*networks),
        epsilon_greedy(0.1),
        np.zeros(12, bool),
        Training(),
        consolidation=Consolidation(cache=True),
    )
    assert agent.native == "its two networks differ"


def test_another_device_has_no_native_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    chosen = choose_learner(DQN().build(BITS))
    assert (chosen.learner, chosen.why) == (XLA, "it runs on gpu, not on the CPU")


def test_kernels_that_cannot_be_compiled_are_done_without() -> None:
    def broken() -> Any:
        raise RuntimeError("no compiler")

    agent = DQN().build(BITS)._replace(native=broken)
    with pytest.warns(UserWarning, match=r"learns without the native learner: .*no compiler"):
        assert choose_learner(agent).learner == XLA
    with pytest.raises(UserError, match="cannot be compiled"):
        choose_learner(agent, NATIVE)


@pytest.mark.long
def test_a_processor_without_wide_vectors_learns_the_same(tmp_path: Path) -> None:
    """Kernels compiled for any x86 processor, in a process of their own, against XLA."""
    script = tmp_path / "generic.py"
    script.write_text(GENERIC)
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_OPT": "0",  # compiles faster
        "REMANENCE_CACHE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1] / "parity",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["8", "False", "same"]


GENERIC = """
import sys
sys.path[:0] = [".", ".."]
from remanence.agents.native import tiles
from test_native import WARM_UP, difference, lives

xla, native = lives("odd widths, frames")
start = xla.run(xla.begin([1]), 0, WARM_UP)
(by_xla, _), (by_native, _) = (life.run(start, WARM_UP, 1) for life in (xla, native))
same = difference(by_native.transient, by_xla.transient, start[0].transient) < 1e-5
print(tiles.WIDTH, tiles.HAS_FMA, "same" if same else "different")
"""


def test_tables_have_no_native_learner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "figure2/tabular", "--preset", "smoke", "--learner", "native", "--out", str(tmp_path)]) == 2
    assert "TD has no native learner: it has no deep network" in " ".join(capsys.readouterr().err.split())
    assert main(["run", "figure2/tabular", "--preset", "smoke", "--learner", "fast", "--out", str(tmp_path)]) == 2
    assert "unknown learner" in capsys.readouterr().err
    assert learners.LEARNERS == (AUTO, XLA, NATIVE)
