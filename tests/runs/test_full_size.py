"""The queue of long runs: each is run once, archived, and grows from what the archive has."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from remanence.experiments import get
from remanence.results.store import find_runs, load

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import full_size
from full_size import QUEUE, Item

NAME = "figure3/tabular"
SMALL = (
    Item(NAME, "smoke", 1, ("Q",)),
    Item(NAME, "smoke", 2, ("Q", "PT-Q")),
    Item("appendix/sensitivity-control", "smoke", 1, ("PT-Q",), ("--one-at-a-time",)),
)


def test_what_is_archived_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "archive"
    to.mkdir()
    monkeypatch.setattr(full_size, "QUEUE", SMALL)
    monkeypatch.setattr(sys, "argv", ["full_size.py", "--out", str(tmp_path / "runs"), "--archive", str(to)])
    with pytest.raises(SystemExit) as ended:
        full_size.main()
    assert ended.value.code == 0
    (archived,) = find_runs(to, NAME)  # the first one is a part of the second one
    assert len(load(*find_runs(to / "sweep", NAME)).lanes) == 13  # of 8 × 6 settings
    assert (load(archived).contenders, load(archived).seeds) == (["Q", "PT-Q"], [0, 1])

    def not_again(command: list[str]) -> int:
        raise AssertionError(command)

    monkeypatch.setattr(full_size, "run", not_again)
    assert full_size.full_size(SMALL, tmp_path / "others", to) == 0
    monkeypatch.setattr(full_size, "run", lambda _: 143)
    assert full_size.full_size([*SMALL, Item(NAME, "smoke", 3)], tmp_path / "runs", to) == 143


def test_sigterm_reaches_the_run(tmp_path: Path) -> None:
    """A run that is asked to stop ends with 143, and the queue with it."""
    out = tmp_path / "runs"
    script = f"""
import sys; sys.path.insert(0, {str(Path(full_size.__file__).parent)!r})
import full_size
sys.exit(full_size.run(["remanence", "run", "figure2/linear", "--seeds", "30", "--out", {str(out)!r}]))
"""
    queue = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(out.rglob("log.jsonl")) and queue.poll() is None:
        time.sleep(0.05)
    queue.terminate()
    assert queue.wait(120) == 143


@pytest.mark.parametrize(
    "item", dict.fromkeys(QUEUE), ids=lambda item: f"{item.experiment} {item.seeds} {len(item.agents)}"
)
def test_the_queue_names_what_there_is(item: Item) -> None:
    plan = get(item.experiment).plan(item.preset)
    assert set(item.agents) <= set(plan.contenders)
    assert item.seeds <= plan.seeds
