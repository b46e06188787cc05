"""Where each lane draws its tasks, they are recorded, and switches that keep the task count nowhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from remanence.experiments import get
from remanence.experiments.prediction import CURRENT
from remanence.results.continual import of_run
from remanence.results.directory import Directory
from remanence.results.store import Results, load
from remanence.results.summary import at_switches
from remanence.runs.jobs import metrics_of
from remanence.runs.plan import Plan
from remanence.runs.run import execute
from remanence.streams import RandomOrder

SEEDS, SEGMENTS, LENGTH = 6, 8, 2


def drawn_plan() -> Plan:
    plan = get("figure2/tabular").plan("paper").select(["TD", "TD-reset"])
    stream = dataclasses.replace(plan.stream, order=RandomOrder(SEGMENTS))
    return dataclasses.replace(plan, stream=stream).shortened(segment_length=LENGTH)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    out = tmp_path_factory.mktemp("runs")
    return execute("figure2/tabular", "paper", drawn_plan(), SEEDS, out, Console(quiet=True))


def test_tasks_of_every_window_are_recorded(results: Results) -> None:
    by_window = results.matrix("TD", "task")
    assert by_window.shape == (SEEDS, SEGMENTS * LENGTH)
    np.testing.assert_array_equal(by_window, np.repeat(results.tasks("TD"), LENGTH, axis=1))
    assert set(np.unique(by_window)) == {0, 1, 2, 3}
    np.testing.assert_array_equal(results.tasks("TD"), results.tasks("TD-reset"))  # of equal seed
    assert len({tuple(order) for order in results.tasks("TD").tolist()}) > 1


def test_switches_that_keep_the_task_are_left_out(results: Results) -> None:
    tasks, switched = results.tasks("TD"), results.switched("TD")
    assert not switched[:, 1:].all()  # some keep it
    first = results.matrix("TD", CURRENT)[:, ::LENGTH]
    by_hand = [
        np.mean([first[seed, n] for n in range(1, SEGMENTS) if tasks[seed, n] != tasks[seed, n - 1]])
        for seed in range(SEEDS)
    ]
    np.testing.assert_allclose(at_switches(results, "TD", CURRENT)[1], by_hand)
    measured = of_run(results, CURRENT)["TD"]
    np.testing.assert_allclose(measured.jumpstart, by_hand)
    assert measured.estimates()["forgetting"] is not None  # undefined for drawn orders before


def test_an_old_run_without_tasks_is_still_read(results: Results, tmp_path: Path) -> None:
    for file in results.path.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    old = load(tmp_path)
    Directory(tmp_path).replace("curves.parquet", old.curves.filter(old.curves["metric"] != "task"))
    measured = of_run(load(tmp_path), CURRENT)["TD"]
    first = results.matrix("TD", CURRENT)[:, ::LENGTH].astype(np.float64)
    np.testing.assert_allclose(measured.jumpstart, first[:, 1:].mean(axis=1))  # every switch counts
    assert measured.estimates()["forgetting"] is None


def test_only_drawn_orders_need_a_record() -> None:
    assert metrics_of(drawn_plan())[-1] == "task"
    assert "task" not in metrics_of(get("figure2/tabular").plan("paper"))
    assert "task" not in metrics_of(get("figure5/minatar").plan("paper"))  # it is called game there
