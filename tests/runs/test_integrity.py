"""Files that change, vanish or stay half written are noticed; older results stay readable; nothing unknown is deleted."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from one_group import stopped
from remanence import __version__, load_results
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.core.files import replacing
from remanence.results import manifest
from remanence.results.aside import move_aside, remove_aside
from remanence.results.description import FORMAT
from remanence.results.directory import Directory
from remanence.results.store import find_runs, load

SAMPLES = Path(__file__).parents[1] / "data" / "runs"
OLD = ("format1/run", "format1/sweep", "format1/live", "version-0.1.0")
NEW = ("format2/run", "format2/sweep", "format2/live")
RUN = (
    "run",
    "figure2/tabular",
    "--preset",
    "smoke",
    "--seeds",
    "2",
    "--segment-length",
    "3",
    "--contenders",
    "TD",
    "PT-TD",
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process writes here."""
    monkeypatch.setattr(manifest, "TRIES", 1)


def copied(sample: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / sample, tmp_path / "run"))


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def files_of(run: Path) -> list[str]:
    return sorted(str(file.relative_to(run)) for file in run.rglob("*") if file.is_file() and file.name != "lock")


@pytest.mark.parametrize("table", ["curves.parquet", "lanes.parquet", "description.json"])
def test_every_flipped_bit_is_named(table: str, tmp_path: Path) -> None:
    run = copied("format2/live", tmp_path)
    rng = random.Random(0)
    content = (run / table).read_bytes()
    for _ in range(100):
        flip(run / table, rng.randrange(8 * len(content)))
        with pytest.raises(UserError, match=rf"damaged \({table} has changed"):
            load(run)
        (run / table).write_bytes(content)
    load(run)


@pytest.mark.parametrize("sample", NEW)
def test_check_names_every_file_that_changed_or_is_lost(
    sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(sample, tmp_path)
    names = files_of(run)
    assert main(["check", str(run)]) == 0
    assert f"{len(names) - 1} files as they were written" in "".join(capsys.readouterr().out.splitlines())
    for name in names:
        content = (run / name).read_bytes()
        flip(run / name, 8 * (len(content) // 2))
        assert main(["check", str(run), "--json"]) == 2
        (found,) = json.loads(capsys.readouterr().out)
        assert found["problems"] == [f"{name} has changed since it was written"]
        (run / name).unlink()
        assert main(["check", str(run), "--json"]) == 2
        (found,) = json.loads(capsys.readouterr().out)
        assert found["problems"] == [f"{name} is missing"]
        (run / name).write_bytes(content)
    assert main(["check", str(run)]) == 0


def test_a_changed_policy_is_named_when_it_is_read(tmp_path: Path) -> None:
    run = copied("format2/live", tmp_path)
    assert load_results(run).policy("a DQN", 1).name == "a DQN"
    flip(run / "policies" / "1.npz", 4000)
    with pytest.raises(UserError, match=r"policies/1\.npz has changed"):
        load_results(run).policy("a DQN", 1)


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda curves: curves.slice(1), r"curves.parquet has 35 instead of 36 rows of 'TD' with seed 0\)"),
        (lambda curves: curves.filter(pl.col("lane") != 2), r"has 0 instead of 36 rows of 'PT-TD' with seed 0\)"),
        (
            lambda curves: curves.filter(pl.col("window") < 9),
            "instead of 36 rows of 'TD' with seed 0, and 3 other lanes",
        ),
    ],
)
def test_missing_rows_are_named_without_checksums_too(
    loss: Callable[[pl.DataFrame], pl.DataFrame], says: str, tmp_path: Path
) -> None:
    run = copied("format1/run", tmp_path)
    loss(load(run).curves).write_parquet(run / "curves.parquet")
    with pytest.raises(UserError, match=says):
        load(run)
    (run / "curves.parquet").unlink()
    with pytest.raises(UserError, match=r"curves\.parquet is missing"):
        load(run)


def test_a_changed_table_is_not_given_a_new_checksum(tmp_path: Path) -> None:
    """Rows that are added later must not hide that earlier ones have changed."""
    one = pl.DataFrame({"lane": [0], "value": [1.0]})
    directory = Directory(tmp_path)
    directory.add({"lanes": one})
    flip(tmp_path / "lanes.parquet", 100)
    with pytest.raises(UserError, match=r"lanes\.parquet has changed"):
        directory.add({"lanes": one.with_columns(lane=pl.lit(1))})


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_while_a_table_is_replaced_leaves_what_fits(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = pl.DataFrame({"lane": [0], "value": [1.0]})
    directory = Directory(tmp_path)
    directory.add({"lanes": one})

    def crash(source: Path, target: Path) -> None:
        if Path(target).name == "lanes.parquet":
            if moment == "after":
                os.rename(source, target)
            raise KeyboardInterrupt
        os.rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            directory.add({"lanes": one.with_columns(lane=pl.lit(1))})
    assert directory.lanes() == ([0] if moment == "before" else [0, 1])
    directory.add({"lanes": one.with_columns(lane=pl.lit(2))})
    assert directory.lanes() == ([0, 2] if moment == "before" else [0, 1, 2])


def test_check_reads_the_checkpoints_of_unfinished_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copied("format1/run", tmp_path)
    stopped(run)
    assert main(["check", str(run), "--json"]) == 0
    capsys.readouterr()
    file = next(one for one in sorted(run.glob("groups/*/checkpoint/*/state/**/*")) if one.is_file())
    flip(file, 0)
    assert main(["check", str(run), "--json"]) == 2
    (found,) = json.loads(capsys.readouterr().out)
    assert "has changed" in found["problems"][0]
    assert "the checkpoint groups/" in found["problems"][0]


@pytest.mark.parametrize("sample", [*OLD, *NEW])
def test_results_of_each_format_are_read(sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kept as they were written: a later program must read them all."""
    run = copied(sample, tmp_path)
    results = load_results(run)
    assert results.finished
    assert results.description.get("format", 1) == (1 if sample in OLD else 2)
    if sample.endswith("live"):
        assert results.policy("a DQN").act(np.zeros(4, np.float32)) in (0, 1)
    assert main(["show", str(run)]) == 0
    assert main(["report", str(run), "--to", str(tmp_path / "page")]) == 0
    assert main(["check", str(run)]) == 0
    assert ("before there were checksums" in capsys.readouterr().out) == (sample in OLD)


def without_checksums(out: Path) -> tuple[Path, dict[str, Any]]:
    """A finished run in the format that has none, and its description."""
    assert main([*RUN, "--out", str(out)]) == 0
    (run,) = find_runs(out, "figure2/tabular")
    (run / manifest.MANIFEST).unlink()
    description = json.loads((run / "description.json").read_text())
    del description["format"]
    return run, description


def test_a_finished_run_of_another_version_is_done_and_an_unfinished_one_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, description = without_checksums(tmp_path)
    description["versions"] = {**description["versions"], "remanence": "0.0.1", "jax": "0.0.2"}
    (run / "description.json").write_text(json.dumps(description))
    capsys.readouterr()
    assert main([*RUN, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().err.count("already done") == 2
    rows = load(run).lanes
    rows.head(3).write_parquet(run / "lanes.parquet")
    assert main([*RUN, "--out", str(tmp_path)]) == 2
    assert "was written by remanence 0.0.1" in capsys.readouterr().err
    assert load(run).lanes.equals(rows.head(3))


def test_a_description_of_another_run_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but its hash protects a description that has no checksum."""
    run, description = without_checksums(tmp_path)
    description["contenders"]["TD"]["hypers"]["lr"] *= 2
    (run / "description.json").write_text(json.dumps(description))
    assert main([*RUN, "--out", str(tmp_path)]) == 2
    assert "description.json is that of another run" in " ".join(capsys.readouterr().err.split())


def test_a_newer_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    run = copied("format1/run", tmp_path)
    description = json.loads((run / "description.json").read_text())
    (run / "description.json").write_text(json.dumps({**description, "format": FORMAT + 1}))
    with pytest.raises(
        UserError, match=rf"has format {FORMAT + 1}, written by remanence {__version__}; .* install a newer"
    ):
        load(run)


def test_restart_moves_aside_and_clean_removes_only_what_a_run_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, outside = copied("format2/live", tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (run / "notes.txt").write_text("mine")
    (run / "policies" / "notes.txt").write_text("mine too")
    (run / "link").symlink_to(outside)
    (run / "groups").symlink_to(outside)
    (run / "policies" / "2.npz").symlink_to(outside / "precious")
    names = files_of(SAMPLES / "format2/live")
    assert move_aside(run) == run / "old" / "1"
    assert set(names) <= set(files_of(run / "old" / "1"))
    assert sorted(path.name for path in run.iterdir()) == ["link", "notes.txt", "old"]
    shutil.copy(SAMPLES / "format2/live/description.json", run)
    assert move_aside(run) == run / "old" / "2"  # earlier results are never overwritten
    assert move_aside(run) is None
    assert main(["clean", "--out", str(tmp_path)]) == 0
    said = "".join(capsys.readouterr().out.split())
    assert f"{len(names) + 1}filesremoved" in said
    assert said.count("leftalone") == 3
    left = sorted(str(path.relative_to(run / "old")) for path in (run / "old").rglob("*"))
    assert left == ["1", "1/groups", "1/policies", "1/policies/2.npz", "1/policies/notes.txt"]
    assert (outside / "precious").read_text() == "kept"
    assert (run / "notes.txt").read_text() == "mine"


def test_clean_follows_no_link(tmp_path: Path) -> None:
    run, other = tmp_path / "run", copied("format2/live", tmp_path / "other")
    run.mkdir()
    move_aside(other)
    (run / "old").symlink_to(other / "old")
    assert remove_aside(run).files == 0
    assert (other / "old" / "1" / "description.json").exists()


def test_half_written_files_are_removed_by_the_next_writer(tmp_path: Path) -> None:
    half, notes, link = (tmp_path / name for name in ("curves.parquet.123.tmp", "notes.tmp", "lanes.parquet.4.tmp"))
    half.write_text("half")
    notes.write_text("mine")
    link.symlink_to(notes)
    with Directory(tmp_path).writing():
        assert not half.exists()
        assert notes.exists()
        assert link.is_symlink()


def test_a_planted_lock_or_pipe_does_no_harm(tmp_path: Path) -> None:
    run, precious = copied("format1/run", tmp_path), tmp_path / "precious"
    precious.write_text("kept")
    (run / "lock").symlink_to(precious)
    with pytest.raises(UserError, match="is a symbolic link"), Directory(run).writing():
        pass
    assert precious.read_text() == "kept"
    (run / "lock").unlink()
    for name in ("lanes.parquet", f"lanes.parquet.{os.getpid()}.tmp"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(precious)
    Directory(run).replace("lanes.parquet", pl.DataFrame({"lane": [0]}))
    assert precious.read_text() == "kept"
    assert not (run / "lanes.parquet").is_symlink()
    shutil.copy(SAMPLES / "format1/run/lanes.parquet", run)
    (run / "manifest.json").unlink()
    (run / "curves.parquet").unlink()
    os.mkfifo(run / "curves.parquet")
    with pytest.raises(UserError, match=r"curves\.parquet is not a file"):
        load(run)


def test_pages_and_pictures_are_replaced_as_a_whole(tmp_path: Path) -> None:
    """Someone who has the old page open keeps it, and a page that cannot be written leaves the old one."""
    page = tmp_path / "page"
    report = ["report", str(SAMPLES / "format2/live"), "--to", str(page)]
    assert main(report) == 0
    names = ("index.html", "own-curve-0.svg", "own-curve-0.png", "own-curve-0.pdf")
    held = [(page / name).open("rb") for name in names]
    before = [file.read() for file in held]
    (page / "index.html.1.tmp").write_text("half")
    os.utime(page / "index.html.1.tmp", (time.time() - 7200, time.time() - 7200))
    (page / "index.html.2.tmp").write_text("of a process that is writing")
    assert main(report) == 0
    for file, content, name in zip(held, before, names, strict=True):
        file.seek(0)
        assert file.read() == content
        assert os.fstat(file.fileno()).st_ino != (page / name).stat().st_ino
        file.close()
    assert sorted(path.name for path in page.glob("*.tmp")) == ["index.html.2.tmp"]

    def interrupted() -> None:
        with replacing(page / "index.html") as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (page / "index.html").read_text().startswith("<!doctype html>")
