"""Runs that are killed, stopped, starved of disk or damaged go on, and end as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import polars as pl
import pytest

import crash
import crash_events
from crash import CHECKPOINT, NAME, command, the_run, torment
from one_group import after, events, needs_mounts, stopped
from remanence import __version__
from remanence.cli import main
from remanence.core.errors import Stopped, UserError, of_disk
from remanence.core.learners import NATIVE, XLA
from remanence.experiments import get
from remanence.results import load
from remanence.results.aside import move_aside
from remanence.results.directory import Directory, GroupDirectory, RunDirectory, groups_under_way
from remanence.runs.execution import Execution
from remanence.runs.jobs import Group, lanes_of_run, make_driver
from remanence.runs.worker import GroupJob, live


@pytest.mark.parametrize("learner", [pytest.param(XLA, marks=pytest.mark.long), NATIVE])
def test_killed_at_any_instant_it_ends_bit_identical(learner: str, tmp_path: Path) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    kills = 2 if learner == NATIVE else 4
    subprocess.run(command(calm, 4000, every=60.0, learner=learner), check=True, stderr=subprocess.DEVNULL)
    done = torment(rough, 4000, kills, seed=1, learner=learner)
    assert done.kills == kills
    assert done.while_writing == kills // 2
    assert crash.same(load(the_run(calm)), load(the_run(rough)))
    assert not any((the_run(rough) / "groups").glob("*"))


def test_killed_at_file_system_events_it_ends_bit_identical(tmp_path: Path) -> None:
    """At some of them, from the first to the last; `make crash-test` tries all."""
    total, kills, different = crash_events.torment(tmp_path, lambda total: range(1, total + 1, -(-total // 7)))
    assert total >= 70
    assert kills >= 6
    assert different == 0


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


@pytest.mark.long
@needs_mounts
def test_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    """A disk that fills up while the run goes on, one that is too small, and one that is read-only."""
    small = tmp_path / "small"
    small.mkdir()
    run, kept = " ".join(command(small, 3000)), f"{small}/{NAME}/*/groups/0000/{CHECKPOINT}"
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
    assert "same command resumes" in said["full"]
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


@pytest.mark.long
def test_finished_groups_are_never_redone_and_others_need_the_same_cut(tmp_path: Path) -> None:
    """Cut off in the second of four groups: the first is not lived again, and another cut would lose a checkpoint."""
    process = subprocess.Popen([*command(tmp_path, 2000), "--groups-of", "1"], stderr=subprocess.DEVNULL)
    while process.poll() is None and not any(tmp_path.glob(f"*/*/groups/0001/{CHECKPOINT}")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    with pytest.raises(UserError, match=r"started with lanes per group 1, not with lanes per group 3"):
        crash.live(tmp_path, 2000, 0.05, groups_of=3)
    crash.live(tmp_path, 2000, 60.0)  # goes on with the cut it was begun with
    log = events(the_run(tmp_path))
    began = [line["group"] for line in log if line["event"] == "started"]
    assert sorted(began) == [0, 1, 2, 3]
    assert [line["group"] for line in log if line["event"] == "resumed"] == [1]
    assert not (the_run(tmp_path) / "layout.json").exists()


def test_restart_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("run", "figure2/tabular", "--preset", "smoke", "--contenders", "TD", "--out", str(tmp_path))
    assert main([*options]) == 0
    path = next((tmp_path / "figure2/tabular").iterdir())
    first = load(path)
    (path / "description.json").write_text("{nonsense")
    assert main([*options]) == 2
    (path / "notes.txt").write_text("mine")
    assert main([*options, "--restart"]) == 0
    assert "earlier results are now in" in "".join(capsys.readouterr().err.splitlines())
    assert load(path).curves.equals(first.curves)
    assert (path / "old" / "1" / "description.json").read_text() == "{nonsense"
    assert (path / "notes.txt").read_text() == "mine"
    assert main(["clean", str(path)]) == 0
    assert not (path / "old").exists()
    assert main(["check", str(path)]) == 0


def test_show_tells_of_a_run_under_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Progress, and the curve up to the last checkpoint; a half-written group does not disturb it."""
    options = ("run", "figure2/tabular", "--preset", "smoke", "--contenders", "TD", "--out", str(tmp_path))
    assert main([*options]) == 0
    path = next((tmp_path / "figure2/tabular").iterdir())
    description = load(path).description
    move_aside(path)
    RunDirectory(tmp_path, description).open()
    smoke = get("figure2/tabular").plan("smoke").select(["TD"])
    (lanes,) = lanes_of_run(smoke, range(3))
    one = GroupJob(smoke, Group(0, tuple(lanes), 3), "run", path / "groups" / "0000", None, 1e-9)
    looked = make_driver(smoke, lanes[0].config)
    looked.rounds_per_chunk = 10
    with pytest.raises(Stopped):
        live(one, looked, after(4), lambda *_, **__: None, pytest.fail)
    GroupDirectory(path / "groups" / "0001").make()
    capsys.readouterr()
    assert main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "TD (group 0)" in shown
    assert "rmsve_current" in shown
    assert "not started" in shown
    assert main(["show", str(path), "--json"]) == 0
    under_way = json.loads(capsys.readouterr().out)["under_way"]
    assert 0 < under_way[0]["windows"] < under_way[0]["of"] == 90


def spawned(parent: int) -> list[int]:
    """The processes that do the work of `--jobs`."""
    children = [one for task in Path(f"/proc/{parent}/task").glob("*/children") for one in task.read_text().split()]
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.long
def test_jobs_give_the_same_tables(tmp_path: Path) -> None:
    """Groups in processes of their own, one of which is killed on the way."""
    alone = [*command(tmp_path / "single", 2000, every=60.0), "--groups-of", "2"]
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1"}  # as many devices as a process of its own has
    subprocess.run(alone, check=True, env=environment, stderr=subprocess.DEVNULL)
    together = subprocess.Popen(
        [*command(tmp_path / "jobs", 2000), "--groups-of", "2", "--jobs", "2"], stderr=subprocess.PIPE, text=True
    )
    while together.poll() is None and not any((tmp_path / "jobs").glob(f"*/*/groups/*/{CHECKPOINT}")):
        time.sleep(0.02)
    workers = spawned(together.pid)
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    _, said = together.communicate(timeout=120)
    assert together.returncode == 0, said
    assert crash.same(load(the_run(tmp_path / "single")), load(the_run(tmp_path / "jobs")))


@pytest.mark.long
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


def test_a_lost_layout_does_not_lose_checkpoints(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, {"experiment": "x", "versions": {"remanence": __version__}})
    with directory.opened():
        directory.set_layout({"lanes_per_group": 2})
        stopped(directory.path)
        (directory.path / "layout.json").unlink()
        with pytest.raises(UserError, match="start over with --restart"):
            directory.set_layout({"lanes_per_group": 2})


def test_tables_do_not_depend_on_who_finishes_first(tmp_path: Path) -> None:
    base = {"seed": 0, "steps": 1, "samples_dropped": 0, "diverged": False, "version": "1"}
    one = pl.DataFrame([{"lane": 0, "contender": "TD", "lr": 0.1, **base}])
    other = pl.DataFrame([{"lane": 1, "contender": "PT-TD", "transient_lr": 0.1, "decay": 0.0, **base}])
    for name, order in (("a", (one, other)), ("b", (other, one))):
        directory = Directory(tmp_path / name)
        directory.make()
        for table in order:
            directory.add({"lanes": table})
    assert Directory(tmp_path / "a").tables()["lanes"].equals(Directory(tmp_path / "b").tables()["lanes"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jobs": 0}, "--jobs must be at least 1"),
        ({"lanes_per_group": 0}, "--lanes-per-group must be at least 1"),
        ({"checkpoint_every": 0.0}, "above 0 seconds"),
        ({"on": "rai"}, "did you mean 'ray'"),
        ({"on": "ray", "jobs": 2}, "--jobs is for this machine only"),
        ({"address": "auto"}, "--address needs --on ray"),
    ],
)
def test_impossible_executions_are_refused(options: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Execution(**options)
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["run", "figure2/tabular", *flags]) == 2  # one line, no stack trace
