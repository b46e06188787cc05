"""What is kept of lanes under way: all of it, checked before it is trusted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from one_group import PLAN, after, assert_as_undisturbed, driver, events, go, stopped, undisturbed, work
from remanence.agents.base import hypers_of
from remanence.core import backend
from remanence.core.errors import Stopped, UserError
from remanence.engine.lanes import Batch
from remanence.experiments import get
from remanence.runs.checkpoints import Checkpoints, _manifest_checksum
from remanence.runs.jobs import Group, cut, lanes_of_run, lanes_that_fit
from remanence.runs.worker import GroupJob


def test_stopped_and_resumed_is_bit_identical(tmp_path: Path) -> None:
    one = work(tmp_path)
    for chunks in (1, 2, 5):
        with pytest.raises(Stopped) as stop:
            go(one, after(chunks))
        assert stop.value.signal == signal.SIGTERM
    assert sorted(int(entry.name) for entry in one.directory.checkpoints.iterdir()) == [7, 8]  # the last two
    assert go(one) == []
    assert_as_undisturbed(one)
    log = events(one.path)
    assert [line["event"] for line in log if line["event"] in ("started", "resumed")] == ["started", *["resumed"] * 3]
    kept = [line for line in log if line["event"] == "checkpoint"]
    assert all(
        {"time", "step", "steps_per_second", "memory_mib", "seconds", "bytes", "share_of_time"} <= set(line)
        for line in kept
    )


def test_no_state_means_no_difference(tmp_path: Path) -> None:
    """Finished work is not done again."""
    one = work(tmp_path)
    go(one)
    before = (one.path / "lanes.parquet").stat().st_mtime_ns
    go(one, lambda: pytest.fail("it lives again"))
    assert (one.path / "lanes.parquet").stat().st_mtime_ns == before


def newest(one: GroupJob) -> Path:
    return max(one.directory.checkpoints.iterdir(), key=lambda entry: int(entry.name))


def truncate(place: Path) -> None:
    largest = max(
        (file for file in (place / "state").rglob("*") if file.is_file()), key=lambda file: file.stat().st_size
    )
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size // 2)


def flip_a_bit(place: Path) -> None:
    largest = max(
        (file for file in (place / "state").rglob("*") if file.is_file()), key=lambda file: file.stat().st_size
    )
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)


def lose_the_manifest(place: Path) -> None:
    (place / "manifest.json").unlink()


def change_the_manifest(place: Path) -> None:
    text = (place / "manifest.json").read_text()
    (place / "manifest.json").write_text(text.replace('"run": "run"', '"run": "ruin"'))


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, lose_the_manifest, change_the_manifest])
def test_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    one = stopped(tmp_path)
    damage(newest(one))
    warnings = go(one)
    assert len(warnings) == 1
    assert "is damaged" in warnings[0]
    assert_as_undisturbed(one)


def test_all_checkpoints_damaged_is_an_error_not_a_new_beginning(tmp_path: Path) -> None:
    one = stopped(tmp_path)
    for place in one.directory.checkpoints.iterdir():
        truncate(place)
    with pytest.raises(UserError, match="start over with --restart"):
        go(one)


@pytest.mark.parametrize("name", ["jax", "remanence"])
def test_checkpoint_of_another_version_is_refused(tmp_path: Path, name: str) -> None:
    one = stopped(tmp_path)
    for place in one.directory.checkpoints.iterdir():
        manifest = json.loads((place / "manifest.json").read_text())
        del manifest["checksum"]
        manifest["versions"][name] = "0.0.1"
        manifest["checksum"] = _manifest_checksum(manifest)
        (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=rf"written with {name} 0\.0\.1"):
        go(one)


def test_checkpoint_of_other_lanes_is_refused(tmp_path: Path) -> None:
    one = stopped(tmp_path)
    other = Checkpoints(one.directory.checkpoints, {**one.belongs_to, "run": "another"})
    with pytest.raises(UserError, match="belongs to another run or other lanes"):
        other.newest(lambda _: None)


def test_nothing_in_a_checkpoint_can_run_code(tmp_path: Path) -> None:
    """No file in it is a pickle, whatever its name."""
    one = stopped(tmp_path)
    files = [file for file in one.directory.checkpoints.rglob("*") if file.is_file()]
    assert files
    assert not any(file.read_bytes()[:1] == b"\x80" for file in files)


def test_another_number_of_cores_is_refused(tmp_path: Path) -> None:
    one = stopped(tmp_path)
    checkpoints = Checkpoints(one.directory.checkpoints, one.belongs_to)
    state = checkpoints.newest(pytest.fail)
    assert state is not None
    checkpoints.save({**state, "devices": state["devices"] + 1})
    with pytest.raises(UserError, match="give --cores-per-group"):
        go(one)


def test_tensorboard_gets_the_mean_curve(tmp_path: Path) -> None:
    from tensorboardX.proto import event_pb2

    one = work(tmp_path, tensorboard=True)
    with pytest.raises(Stopped):
        go(one, after(4))
    go(one)
    seen: dict[int, float] = {}
    for file in sorted((tmp_path / "tensorboard").rglob("events*")):
        content = file.read_bytes()
        while content:  # records: length, its checksum, the event, its checksum
            size = int.from_bytes(content[:8], "little")
            event = event_pb2.Event.FromString(content[12 : 12 + size])  # type: ignore[attr-defined]
            seen.update((event.step, value.simple_value) for value in event.summary.value if value.tag == "return")
            content = content[16 + size :]
    mean = undisturbed()["curves"].filter(pl.col("metric") == "return").group_by("window").agg(pl.col("value").mean())
    assert seen == pytest.approx(dict(mean.iter_rows()))


def test_groups_are_cut_by_number_and_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = lanes_of_run(PLAN, range(5))
    groups = list(cut(programs, 2, at_once=100))
    assert [[lane.seed for lane in group.lanes] for group in groups] == [[0, 1], [2, 3], [4]]
    assert [group.number for group in groups] == [0, 1, 2]
    assert lanes_that_fit(PLAN, programs) > 1000
    per_lane = driver().bytes_per_lane(hypers_of(PLAN.contenders["PT-DQN"].config))
    state = Batch(driver(), [hypers_of(PLAN.contenders["PT-DQN"].config)] * 2, [0, 1])
    state.advance()
    held = sum(array.nbytes for name, array in state.state().items() if name.startswith("life"))
    assert per_lane == pytest.approx(held / 2, rel=0.01)
    monkeypatch.setattr(backend, "memory", lambda: 20 * per_lane)
    assert lanes_that_fit(PLAN, programs) == 4  # 70 % of 20 lanes, three copies of each
    with pytest.raises(UserError, match="at least one lane"):
        list(cut(programs, 0, at_once=1))


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, np.nan], [-0.0, np.inf]], np.float32),
        np.array([True, False, True]),
        np.zeros((3, 0, 2), np.int32),
        np.uint32(7),
        np.arange(24, dtype=np.int8).reshape(2, 3, 4)[:, ::2],
        np.arange(6, dtype=np.uint8).reshape(2, 3).T,
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_every_bit_of_every_array_comes_back(array: np.ndarray, tmp_path: Path) -> None:
    """Negative zero, arrays without elements or axes, and ones that are not contiguous."""
    checkpoints = Checkpoints(tmp_path, {})
    checkpoints.save({"one/a b": np.asarray(array), "two": np.array([3], np.float32)})
    found = checkpoints.newest(pytest.fail)
    assert found is not None
    assert found.keys() == {"one/a b", "two"}
    assert (found["one/a b"].shape, found["one/a b"].dtype) == (array.shape, array.dtype)
    assert found["one/a b"].tobytes() == array.tobytes()


def test_a_checkpoint_of_another_form_is_refused(tmp_path: Path) -> None:
    """As earlier versions wrote them, by another library."""
    Checkpoints(tmp_path, {}).save({"a": np.array([1.0, 2.0], np.float32)})
    manifest = json.loads((tmp_path / "1" / "manifest.json").read_text())
    del manifest["arrays"], manifest["checksum"]
    manifest["checksum"] = _manifest_checksum(manifest)
    (tmp_path / "1" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"of an older version: start over with --restart"):
        Checkpoints(tmp_path, {}).newest(pytest.fail)


def test_a_disk_that_fills_up_in_the_middle_of_a_write_is_told_once(tmp_path: Path) -> None:
    """Past the look at the free space that comes before a write."""
    program = """
        import sys, pathlib, numpy as np
        from remanence.runs.checkpoints import _write_arrays
        try:
            _write_arrays(pathlib.Path(sys.argv[1]) / "state", {f"a{i}": np.random.rand(40_000) for i in range(60)})
        except Exception as error:
            print("told:", error)
    """
    (tmp_path / "write.py").write_text(textwrap.dedent(program))
    (tmp_path / "disk").mkdir()
    script = f"mount -t tmpfs -o size=3m tmpfs {tmp_path}/disk && {sys.executable} {tmp_path}/write.py {tmp_path}/disk"
    done = subprocess.run(["unshare", "-rm", "bash", "-c", script], check=True, capture_output=True, text=True)
    assert "told: [Errno 28] No space left on device" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("experiment", "unit"),
    [("figure2/tabular", "episodes"), ("figure5/jellybean", "steps")],
)
def test_progress_counts_steps_or_episodes(experiment: str, unit: str) -> None:
    plan = get(experiment).plan("paper")
    assert GroupJob(plan, Group(0, (), 1), "run", Path()).unit == unit
