"""Runs that are killed, stopped, starved of disk or damaged go on, and end as if nothing had happened."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import crash
from crash import NAME, command, plan, the_run, torment
from remanence import __version__, backend
from remanence.checkpoints import Checkpoints, _own_checksum
from remanence.cli import main
from remanence.errors import Stopped, UserError, of_disk
from remanence.execution import Execution
from remanence.experiments import get
from remanence.experiments.groups import Group, cut, lanes_of_run, lanes_that_fit, make_driver
from remanence.experiments.work import Work, live
from remanence.lanes import Driver
from remanence.results import load
from remanence.results.directory import Directory, GroupDirectory, RunDirectory, groups_under_way

EPISODES = 120
PLAN = plan(EPISODES)


@cache
def driver() -> Driver:
    """PT-DQN, looked at after every few rounds."""
    made = make_driver(PLAN, PLAN.contenders["PT-DQN"].agent)
    made.rounds_per_chunk = 40
    return made


def work(path: Path, tensorboard: bool = False) -> Work:
    """The two lanes of PT-DQN, with a checkpoint after every chunk."""
    ((agent, lanes),) = lanes_of_run(PLAN, [0, 1])
    return Work(PLAN, Group(0, agent, tuple(lanes), 2), "run", path / "groups" / "0000", None, 1e-9, tensorboard)


def after(chunks: int) -> Callable[[], int]:
    """Asks to stop after so many looks."""
    looks = itertools.count(1)
    return lambda: signal.SIGTERM if next(looks) >= chunks else 0


def go(one: Work, asked_to_stop: Callable[[], int] = lambda: 0) -> list[str]:
    """Lives the work; gives the warnings."""
    warnings: list[str] = []
    live(one, driver(), asked_to_stop, lambda *_: None, warnings.append)
    return warnings


@cache
def undisturbed() -> dict[str, pl.DataFrame]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        go(work(Path(folder)))
        return work(Path(folder)).directory.tables()


def assert_as_undisturbed(one: Work) -> None:
    found = one.directory.tables()
    assert found.keys() == undisturbed().keys() == {"lanes", "curves"}
    for name, table in undisturbed().items():
        assert found[name].equals(table), name


def events(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]


def stopped(tmp_path: Path, chunks: int = 3) -> Work:
    one = work(tmp_path)
    with pytest.raises(Stopped):
        go(one, after(chunks))
    return one


def test_killed_at_any_instant_it_ends_bit_identical(tmp_path: Path) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    subprocess.run(command(calm, 4000, every=60.0), check=True, stderr=subprocess.DEVNULL)
    done = torment(rough, 4000, kills=10, seed=1)
    assert done.kills == 10
    assert done.while_writing == 5
    assert crash.same(load(the_run(calm)), load(the_run(rough)))
    assert not any((the_run(rough) / "groups").glob("*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_keeps_all_and_says_so(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(command(tmp_path, 20_000, every=60.0), stderr=subprocess.DEVNULL)
    while process.poll() is None and not any(tmp_path.glob("*/*/groups/*/progress.json")):
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    group = groups_under_way(the_run(tmp_path))[0]
    last = events(group.path)[-1]
    assert (last["event"], last["signal"]) == ("stopped", number)
    assert any(group.checkpoints.iterdir())


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
    assert [line["event"] for line in log if line["event"] in ("begun", "resumed")] == ["begun", *["resumed"] * 3]
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


def newest(one: Work) -> Path:
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
    with pytest.raises(UserError, match="begin anew with --restart"):
        go(one)


@pytest.mark.parametrize("name", ["jax", "remanence"])
def test_checkpoint_of_another_version_is_refused(tmp_path: Path, name: str) -> None:
    one = stopped(tmp_path)
    for place in one.directory.checkpoints.iterdir():
        manifest = json.loads((place / "manifest.json").read_text())
        del manifest["checksum"]
        manifest["versions"][name] = "0.0.1"
        manifest["checksum"] = _own_checksum(manifest)
        (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=rf"written with {name} 0\.0\.1"):
        go(one)


def test_checkpoint_of_other_lanes_is_refused(tmp_path: Path) -> None:
    one = stopped(tmp_path)
    other = Checkpoints(one.directory.checkpoints, {**one.belongs_to, "run": "another"})
    with pytest.raises(UserError, match="belongs to other lanes"):
        other.newest(lambda _: None)


def test_nothing_in_a_checkpoint_can_run_code(tmp_path: Path) -> None:
    """No file in it is a pickle, whatever its name."""
    one = stopped(tmp_path)
    files = [file for file in one.directory.checkpoints.rglob("*") if file.is_file()]
    assert files
    assert not any(file.read_bytes()[:1] == b"\x80" for file in files)


def test_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    process = subprocess.Popen(command(tmp_path, 20_000), stderr=subprocess.DEVNULL)
    while process.poll() is None and not any(tmp_path.glob("*/*/groups/*")):
        time.sleep(0.05)
    second = subprocess.run(command(tmp_path, 20_000), check=False, stderr=subprocess.PIPE, text=True)
    assert second.returncode == 1
    assert f"is being written by process {process.pid} on " in second.stderr.replace("\n", " ")
    process.kill()
    process.wait()
    third = subprocess.Popen(command(tmp_path, 20_000), stderr=subprocess.PIPE, text=True)
    assert third.stderr is not None
    assert f"process {process.pid} on " in (said := third.stderr.readline()), said  # a stale lock is recognised
    third.kill()
    third.wait()
    third.stderr.close()


needs_mounts = pytest.mark.skipif(
    subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode != 0,
    reason="this machine does not let a test mount a small disk",
)


@needs_mounts
def test_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    """A disk that fills up while the run goes on, one that is too small, and one that is read-only."""
    small = tmp_path / "small"
    small.mkdir()
    run, kept = " ".join(command(small, 3000)), f"{small}/{NAME}/*/groups/0000/so-far.parquet"
    script = f"""
        mount -t tmpfs -o size=100k tmpfs {small}
        {run} 2> {tmp_path}/too-small; echo $? > {tmp_path}/too-small.code
        mount -o remount,size=3m {small}
        (until ls -d {kept}; do sleep 0.05; done; dd if=/dev/zero of={small}/filler bs=1k) > {tmp_path}/dd 2>&1 &
        {run} 2> {tmp_path}/full; echo $? > {tmp_path}/full.code
        wait
        rm {small}/filler
        mount -o remount,ro {small}
        {run} 2> {tmp_path}/read-only; echo $? > {tmp_path}/read-only.code
        mount -o remount,rw,size=50m {small}
        {run} 2> {tmp_path}/again; echo $? > {tmp_path}/again.code
        cp -r {small} {tmp_path}/result
    """
    subprocess.run(["unshare", "-rm", "bash", "-c", textwrap.dedent(script)], check=True)
    said = {
        name: " ".join((tmp_path / name).read_text().split()) for name in ("too-small", "full", "read-only", "again")
    }
    code = {name: int((tmp_path / f"{name}.code").read_text()) for name in said}
    assert code == {"too-small": 1, "full": 1, "read-only": 1, "again": 0}, said
    assert "too full" in said["too-small"]
    assert "the disk is full" in said["full"]
    assert "same command goes on" in said["full"]
    assert "read-only" in said["read-only"].lower()
    assert all("Traceback" not in text for text in said.values())
    log = events(the_run(tmp_path / "result"))
    assert "resumed" in [line["event"] for line in log]
    subprocess.run(command(tmp_path / "calm", 3000, every=60.0), check=True, stderr=subprocess.DEVNULL)
    assert crash.same(load(the_run(tmp_path / "result")), load(the_run(tmp_path / "calm")))


def test_errors_of_the_disk_are_recognised_in_any_dress() -> None:
    for error, words in (
        (OSError(28, "No space left on device"), "the disk is full"),
        (ValueError("RESOURCE_EXHAUSTED: write failed: No space left on device"), "the disk is full"),
        (OSError(122, "Disk quota exceeded"), "the quota is used up"),
        (OSError(30, "Read-only file system"), "read-only"),
    ):
        assert words in str(of_disk(error, Path("runs")))
    assert of_disk(ValueError("something else"), Path("runs")) is None


def test_groups_are_cut_by_number_and_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = lanes_of_run(PLAN, range(5))
    cuts = list(cut(programs, 2, at_once=100))
    assert [[lane.seed for lane in group.lanes] for group in cuts] == [[0, 1], [2, 3], [4]]
    assert [group.number for group in cuts] == [0, 1, 2]
    assert lanes_that_fit(PLAN, programs) > 1000
    per_lane = driver().bytes_per_lane(PLAN.contenders["PT-DQN"].hypers)
    state = driver().begin([PLAN.contenders["PT-DQN"].hypers] * 2, [0, 1])
    state.advance()
    held = sum(array.nbytes for name, array in state.state().items() if name.startswith("life"))
    assert per_lane == pytest.approx(held / 2, rel=0.01)
    monkeypatch.setattr(backend, "memory", lambda: 20 * per_lane)
    assert lanes_that_fit(PLAN, programs) == 4  # 70 % of 20 lanes, three copies of each
    with pytest.raises(UserError, match="at least one lane"):
        list(cut(programs, 0, at_once=1))


def test_finished_groups_are_never_redone_and_others_need_the_same_cut(tmp_path: Path) -> None:
    """Cut off in the second of four groups: the first is not lived again, and another cut would lose a checkpoint."""
    process = subprocess.Popen([*command(tmp_path, 2000), "--groups-of", "1"], stderr=subprocess.DEVNULL)
    while process.poll() is None and not any(tmp_path.glob("*/*/groups/0001/so-far.parquet")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    with pytest.raises(UserError, match=r"begun with lanes per group 1, now asked for lanes per group 3"):
        crash.live(tmp_path, 2000, 0.05, groups_of=3)
    crash.live(tmp_path, 2000, 60.0)  # goes on with the cut it was begun with
    log = events(the_run(tmp_path))
    began = [line["group"] for line in log if line["event"] == "begun"]
    assert sorted(began) == [0, 1, 2, 3]
    assert [line["group"] for line in log if line["event"] == "resumed"] == [1]
    assert not (the_run(tmp_path) / "layout.json").exists()


def test_restart_begins_anew(tmp_path: Path) -> None:
    options = ("run", "figure2/tabular", "--preset", "smoke", "--contenders", "TD", "--out", str(tmp_path))
    assert main([*options]) == 0
    path = next((tmp_path / "figure2/tabular").iterdir())
    first = load(path)
    (path / "description.json").write_text("{nonsense")
    assert main([*options]) == 2
    assert main([*options, "--restart"]) == 0
    assert load(path).curves.equals(first.curves)


def test_show_tells_of_a_run_under_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Progress, and the curve up to the last checkpoint; a half-written group does not disturb it."""
    options = ("run", "figure2/tabular", "--preset", "smoke", "--contenders", "TD", "--out", str(tmp_path))
    assert main([*options]) == 0
    path = next((tmp_path / "figure2/tabular").iterdir())
    (path / "lanes.parquet").unlink()
    smoke = get("figure2/tabular").plan("smoke").select(["TD"])
    ((agent, lanes),) = lanes_of_run(smoke, range(3))
    one = Work(smoke, Group(0, agent, tuple(lanes), 3), "run", path / "groups" / "0000", None, 1e-9)
    looked = make_driver(smoke, agent)
    looked.rounds_per_chunk = 10
    with pytest.raises(Stopped):
        live(one, looked, after(4), lambda *_: None, pytest.fail)
    GroupDirectory(path / "groups" / "0001").make()
    capsys.readouterr()
    assert main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "TD (group 0)" in shown
    assert "rmsve_current" in shown
    assert "not begun" in shown
    assert main(["show", str(path), "--json"]) == 0
    under_way = json.loads(capsys.readouterr().out)["under_way"]
    assert 0 < under_way[0]["pages"] < under_way[0]["of"] == 90


def spawned(parent: int) -> list[int]:
    """The processes that do the work of `--jobs`."""
    children = [one for task in Path(f"/proc/{parent}/task").glob("*/children") for one in task.read_text().split()]
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_jobs_give_the_same_tables(tmp_path: Path) -> None:
    """Groups in processes of their own, one of which is killed on the way."""
    alone = [*command(tmp_path / "alone", 2000, every=60.0), "--groups-of", "2"]
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1"}  # as many devices as a process of its own has
    subprocess.run(alone, check=True, env=environment, stderr=subprocess.DEVNULL)
    together = subprocess.Popen(
        [*command(tmp_path / "jobs", 2000), "--groups-of", "2", "--jobs", "2"], stderr=subprocess.PIPE, text=True
    )
    while together.poll() is None and not any((tmp_path / "jobs").glob("*/*/groups/*/so-far.parquet")):
        time.sleep(0.02)
    children = [
        one for task in Path(f"/proc/{together.pid}/task").glob("*/children") for one in task.read_text().split()
    ]
    workers = [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    assert workers
    os.kill(int(workers[0]), signal.SIGKILL)
    _, said = together.communicate(timeout=120)
    assert together.returncode == 0, said
    assert crash.same(load(the_run(tmp_path / "alone")), load(the_run(tmp_path / "jobs")))


def test_a_worker_that_is_stopped_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    """SIGTERM reaches the processes of `--jobs`, not their parent: all is kept, and the same command goes on."""
    call = [*command(tmp_path, 12_000, every=60.0), "--groups-of", "2", "--jobs", "2"]
    process = subprocess.Popen(call, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list(tmp_path.glob("*/*/groups/*/progress.json"))) < 2:
        time.sleep(0.02)
    for worker in spawned(process.pid):
        os.kill(worker, signal.SIGTERM)
    assert process.wait(120) == 128 + signal.SIGTERM
    assert all(any(group.checkpoints.iterdir()) for group in groups_under_way(the_run(tmp_path)))
    subprocess.run(call, check=True, stderr=subprocess.DEVNULL)
    assert [line["event"] for line in events(the_run(tmp_path))].count("resumed") == 2


def test_another_number_of_cores_is_refused(tmp_path: Path) -> None:
    one = stopped(tmp_path)
    checkpoints = Checkpoints(one.directory.checkpoints, one.belongs_to)
    state = checkpoints.newest(pytest.fail)
    assert state is not None
    checkpoints.save({**state, "devices": state["devices"] + 1})
    with pytest.raises(UserError, match="give --cores-per-group"):
        go(one)


def test_a_lost_layout_does_not_lose_checkpoints(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, {"experiment": "x", "versions": {"remanence": __version__}})
    with directory.opened():
        directory.settle({"lanes_per_group": 2})
        stopped(directory.path)
        (directory.path / "layout.json").unlink()
        with pytest.raises(UserError, match="begin anew with --restart"):
            directory.settle({"lanes_per_group": 2})


def test_tables_do_not_depend_on_who_finishes_first(tmp_path: Path) -> None:
    base = {"seed": 0, "steps": 1, "samples_lost": 0, "diverged": False, "version": "1"}
    one = pl.DataFrame([{"lane": 0, "contender": "TD", "lr": 0.1, **base}])
    other = pl.DataFrame([{"lane": 1, "contender": "PT-TD", "transient_lr": 0.1, "decay": 0.0, **base}])
    for name, order in (("a", (one, other)), ("b", (other, one))):
        directory = Directory(tmp_path / name)
        directory.make()
        for table in order:
            directory.add({"lanes": table})
    assert Directory(tmp_path / "a").tables()["lanes"].equals(Directory(tmp_path / "b").tables()["lanes"])


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
    mean = undisturbed()["curves"].filter(pl.col("metric") == "return").group_by("tick").agg(pl.col("value").mean())
    assert seen == pytest.approx(dict(mean.iter_rows()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jobs": 0}, "--jobs must be at least 1"),
        ({"lanes_per_group": 0}, "--lanes-per-group must be at least 1"),
        ({"checkpoint_every": 0.0}, "above 0 seconds"),
        ({"on": "rai"}, "did you mean 'ray'"),
        ({"on": "ray", "jobs": 2}, "--jobs is for this machine alone"),
        ({"address": "auto"}, "--address needs --on ray"),
    ],
)
def test_impossible_executions_are_refused(options: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Execution(**options)
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["run", "figure2/tabular", *flags]) == 2  # one line, no stack trace
