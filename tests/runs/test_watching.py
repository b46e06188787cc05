"""Looking at runs while they run: callbacks, logs, progress, and the page that follows them."""

from __future__ import annotations

import csv
import json
import sys
import threading
import types
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import remanence
from remanence.cli import main
from remanence.core.errors import UserError
from remanence.live_env import LiveResults
from remanence.report import serve as serve_module
from remanence.report.serve import POLICY, server
from remanence.runs import progress
from remanence.runs.loggers import CSV, MLflow, WeightsAndBiases
from remanence.runs.watching import Window
from scripted import Corridor

STEPS, WINDOW = 120, 20


def run(out: Path | None = None, **options: Any) -> LiveResults:
    options = {"seeds": 2, "window": WINDOW, "progress": False, **options}
    return remanence.live({"a Q": remanence.Q()}, Corridor, STEPS, out=out, **options)


@pytest.fixture(scope="module")
def curves() -> dict[tuple[int, int], float]:
    """The return of each seed and window, without anybody looking."""
    found = run()
    rows = found.curves.filter(found.curves["metric"] == "return").iter_rows(named=True)
    return {(row["lane"], row["window"]): row["value"] for row in rows}


def test_a_callback_sees_every_window_once(curves: dict[tuple[int, int], float]) -> None:
    seen: list[Window] = []
    run(callback=seen.append)
    assert {(one.seed, one.window): one.metrics["return"] for one in seen} == curves
    assert len(seen) == len(curves) == 2 * STEPS // WINDOW
    assert {(one.agent, one.windows, one.time) for one in seen} == {
        ("a Q", STEPS // WINDOW, WINDOW * n) for n in range(1, STEPS // WINDOW + 1)
    }
    assert "largest_value" not in seen[0].metrics, "what is not kept is not shown"


def test_a_callback_stops_a_run_which_can_go_on(tmp_path: Path, curves: dict[tuple[int, int], float]) -> None:
    seen: list[int] = []

    def stop(window: Window) -> bool:
        seen.append(window.window)
        return window.window == 2

    with pytest.warns(
        UserWarning,
        match=r"^stopped by the callback: a Q after . of 6 windows; 0 of 2 lives .*; the same call goes on$",
    ):
        stopped = run(tmp_path, callback=stop)
    assert not stopped.finished
    assert all(2 <= windows < STEPS // WINDOW for windows in stopped.stopped.values())
    assert len(stopped.stopped) == 2
    assert max(seen) < STEPS // WINDOW
    before = len(seen)
    finished = run(tmp_path, callback=lambda window: seen.append(window.window))
    assert finished.finished
    assert sorted(seen) == sorted(window for _, window in curves), "none is seen twice"
    assert len(seen) > before
    rows = finished.curves.filter(finished.curves["metric"] == "return").iter_rows(named=True)
    assert {(row["lane"], row["window"]): row["value"] for row in rows} == curves


def test_logs_in_files_are_the_curves(tmp_path: Path, curves: dict[tuple[int, int], float]) -> None:
    found = run(tmp_path, log=["csv", "jsonl", CSV(tmp_path / "elsewhere")])
    for file in (found.path / "logs" / "a-Q-0000.csv", tmp_path / "elsewhere" / "a-Q-0000.csv"):
        rows = list(csv.DictReader(file.open()))
        assert {(int(row["seed"]), int(row["window"])): float(row["return"]) for row in rows} == curves
    lines = [json.loads(line) for line in (found.path / "logs" / "a-Q-0000.jsonl").read_text().splitlines()]
    assert {(row["seed"], row["window"]): row["return"] for row in lines} == curves
    assert {row["time"] for row in lines} == set(range(WINDOW, STEPS + 1, WINDOW))


def test_tensorboard_has_every_seed(tmp_path: Path, curves: dict[tuple[int, int], float]) -> None:
    pytest.importorskip("tensorboardX")
    found = run(tmp_path, log="tensorboard")
    files = sorted((found.path / "logs" / "a-Q-0000").glob("seed-*/events*"))
    assert [file.parent.name for file in files] == ["seed-0", "seed-1"]
    assert all(file.stat().st_size > 40 * len(curves) for file in files)


def test_a_log_after_an_interruption_is_whole(tmp_path: Path, curves: dict[tuple[int, int], float]) -> None:
    with pytest.warns(UserWarning, match="stopped by the callback"):
        run(tmp_path, log="csv", callback=lambda window: window.window == 2)
    found = run(tmp_path, log="csv")
    rows = list(csv.DictReader((found.path / "logs" / "a-Q-0000.csv").open()))
    assert len(rows) == len(curves)
    assert {(int(row["seed"]), int(row["window"])): float(row["return"]) for row in rows} == curves


def test_weights_and_biases_gets_every_window(
    monkeypatch: pytest.MonkeyPatch, curves: dict[tuple[int, int], float]
) -> None:
    """The interface of wandb as it is documented: `init` returns a run with `log` and `finish`."""
    logged: list[dict[str, float]] = []
    events: list[Any] = []

    class Run:
        def log(self, data: dict[str, float]) -> None:
            logged.append(data)

        def finish(self) -> None:
            events.append("finished")

    def init(**arguments: Any) -> Run:
        events.append(arguments)
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    run(log=WeightsAndBiases("mine", {"mode": "offline"}))
    assert events[0]["project"] == "mine"
    assert events[0]["mode"] == "offline"
    assert events[0]["config"]["lr"] == remanence.Q().lr
    assert events[1:] == ["finished"]
    returns = {
        (seed, int(row["time"]) // WINDOW): row[f"return/{seed}"]
        for row in logged
        for seed in (0, 1)
        if f"return/{seed}" in row
    }
    assert returns == curves


def test_mlflow_gets_every_window(monkeypatch: pytest.MonkeyPatch, curves: dict[tuple[int, int], float]) -> None:
    logged: dict[tuple[int, int], float] = {}
    events: list[Any] = []

    class MlflowClient:
        def __init__(self, tracking_uri: str | None) -> None:
            events.append(tracking_uri)

        def get_experiment_by_name(self, _: str) -> None:
            return None

        def create_experiment(self, name: str) -> str:
            events.append(name)
            return "7"

        def create_run(self, experiment: str, tags: dict[str, str], run_name: str) -> Any:
            events.append((experiment, tags["agent"], run_name))
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id="9"))

        def log_param(self, run_id: str, key: str, value: Any) -> None:
            events.append((run_id, key, value)) if key == "lr" else None

        def log_metric(self, run_id: str, key: str, value: float, step: int) -> None:
            assert run_id == "9"
            name, seed = key.split("/")
            if name == "return":
                logged[int(seed), step // WINDOW] = value

        def set_terminated(self, run_id: str) -> None:
            events.append(run_id)

    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(MlflowClient=MlflowClient))
    run(log=MLflow("mine", "file:here"))
    assert events == ["file:here", "mine", ("7", "a Q", "a Q-0000"), ("9", "lr", remanence.Q().lr), "9"]
    assert logged == curves


def test_a_log_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="this log needs wandb: pip install wandb"):
        run(log="wandb")


class Clock:
    """A clock that stands still unless it is told."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


def test_the_time_left_does_not_count_compilation(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A minute of compilation, then 100 steps per second: after 11 s of them, 1900 of 3000 steps are left."""
    with progress.track(Console(stderr=True, width=200), "DQN", 3000, "steps") as advance:
        clock.now += 60.0
        advance(0, 0.0)
        for _ in range(11):
            clock.now += 1.0
            advance(int(100 * (clock.now - 1060.0)), 100.0, "return 12.5")
        assert capsys.readouterr().err == "DQN: 1000 of 3000 steps, 100 steps/s, return 12.5, about 20 s left\n"
        clock.now += 19.0
        advance(3000, 100.0, "return 99")
    assert capsys.readouterr().err == "DQN: 3000 of 3000 steps, 100 steps/s, return 99, done in 90 s\n"


def test_the_time_left_waits_until_groups_advance(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """They restore 100 steps at different times. Then 100 steps per second are done: 1900 of 3000 are left after 10 s."""
    with progress.track(Console(stderr=True, width=200), "2 groups", 3000, "steps") as advance:
        for _ in range(3):
            clock.now += 6.0
            advance(100, 0.0, waiting="restoring and compiling")
        assert capsys.readouterr().err == "2 groups: 100 of 3000 steps, restoring and compiling\n"
        advance(100, 0.0)
        clock.now += 10.0
        advance(1100, 100.0)
        assert capsys.readouterr().err == "2 groups: 1100 of 3000 steps, 100 steps/s, about 19 s left\n"


def test_the_speed_of_groups_is_known_once_each_has_advanced() -> None:
    found = progress.UnderWay(at_once=2)
    before, now = found.started - 100, found.started + 1
    a, b, queued = Path("a"), Path("b"), Path("c")
    assert found.rate(queued, {}) == 0
    assert found.waiting(3) == "compiling"
    assert found.rate(a, {"time": before, "done": 900, "steps_per_second": 50.0}) == 0, "of an earlier process"
    assert found.waiting(3) == "restoring and compiling"
    assert found.rate(a, {"time": now, "done": 500, "steps_per_second": 10.0}) == 10
    found.rate(a, {"time": now, "done": 600, "steps_per_second": 10.0})
    found.rate(b, {"time": now, "done": 20, "steps_per_second": 10.0})
    assert found.waiting(3), "b has not advanced since it was first seen"
    found.rate(b, {"time": now, "done": 30, "steps_per_second": 10.0})
    assert not found.waiting(3)
    assert not found.waiting(1)


def test_an_error_in_a_callback_of_another_process_has_its_file_and_line(tmp_path: Path) -> None:
    def broken(window: Window) -> None:
        raise ValueError(f"no window {window.window}")

    line = broken.__code__.co_firstlineno + 1
    where = rf"callback failed: ValueError: no window 1 \(.*test_watching.py, line {line}, in broken\)"
    with pytest.raises(UserError, match=where):
        run(tmp_path, callback=broken, jobs=2, lanes_per_group=1)


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.21, "3.2 s"), (42.0, "42 s"), (1307.0, "22 min"), (90_000.0, "25.0 h")]
)
def test_durations_have_the_unit_that_fits(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "runs").mkdir()
    with server(tmp_path / "runs", 0) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/"
        listening.shutdown()


def fetched(address: str, host: str | None = None) -> tuple[str, Any]:
    asked = urllib.request.Request(address, headers={"Host": host} if host else {})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return answer.read().decode(), answer.headers


def test_the_page_follows_a_run_that_is_under_way(tmp_path: Path, address: str) -> None:
    assert "no run yet" in fetched(address)[0]
    with pytest.warns(UserWarning, match="stopped by the callback"):
        run(tmp_path / "runs", callback=lambda window: window.window == 3)
    page, headers = fetched(address)
    assert headers["Content-Security-Policy"] == POLICY
    assert "<script" not in page
    assert "not finished" in page
    assert "a Q<td>" in page
    assert page.count("<polyline") == 1
    run(tmp_path / "runs")
    page, _ = fetched(address)
    assert "2 lives done, finished" in page
    assert "<th>running" not in page


def test_the_page_waits_for_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look(listening: Any) -> None:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        seen.append(fetched(f"http://127.0.0.1:{listening.server_port}/")[0])
        listening.shutdown()
        listening.server_close()

    usual = serve_module.server
    monkeypatch.setattr(serve_module, "serve", lambda out, port, _: look(usual(out, port)))
    assert main(["serve", str(tmp_path / "later"), "--port", "0"]) == 0
    assert "the page waits for the first run" in " ".join(capsys.readouterr().err.split())
    assert "no run yet" in seen[0]
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is not a directory"):
        server(tmp_path / "file", 0)


def test_the_page_is_for_this_machine_only(tmp_path: Path, address: str) -> None:
    for path, host, code in (("other", None, 404), ("", "evil.example", 403), ("../description.json", None, 404)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetched(address + path, host)
        assert refused.value.code == code
    port = address.rpartition(":")[2].strip("/")
    assert main(["serve", str(tmp_path / "runs"), "--port", port]) == 2
