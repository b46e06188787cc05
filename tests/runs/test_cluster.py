"""A real Ray cluster of two nodes, one of which dies on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import crash
from crash import CHECKPOINT, command, the_run
from remanence.results import load
from remanence.results.directory import groups_under_way

pytest.importorskip("ray", reason="the cluster extra is not installed")
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.long

EPISODES = 8_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A node with one core, beside a head that only leads; a test may add another."""
    soon = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}  # a dead node is missed within seconds
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": soon}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def ray_command(out: Path, cluster: Cluster, every: float = 0.5) -> list[str]:
    return [*command(out, EPISODES, every), "--groups-of", "2", "--on", "ray", "--address", str(cluster.address)]


def wait_for(what: str, out: Path, process: subprocess.Popen) -> Path:
    until = time.monotonic() + 240
    while not (found := list(out.glob(what))):
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < until, f"no {what}"
        time.sleep(0.05)
    return found[0]


def node_of(group: Path, cluster: Cluster) -> Any:
    """The node whose worker lives this group."""
    worker = re.search(r"process (\d+)", (group / "lock").read_text())
    assert worker
    parent = int(Path(f"/proc/{worker[1]}/stat").read_text().rpartition(")")[2].split()[1])
    return next(node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid == parent)


def test_a_node_dies_and_the_tables_are_those_of_a_local_run(tmp_path: Path, cluster: Cluster) -> None:
    cluster.add_node(num_cpus=1)
    out = tmp_path / "ray"
    process = subprocess.Popen(ray_command(out, cluster), stderr=subprocess.PIPE, text=True)
    kept = wait_for(f"*/*/groups/*/{CHECKPOINT}", out, process)
    cluster.remove_node(node_of(kept.parents[2], cluster), allow_graceful=False)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    log = [json.loads(line) for line in (the_run(out) / "log.jsonl").read_text().splitlines()]
    assert "resumed" in [line["event"] for line in log]

    local = [*command(tmp_path / "local", EPISODES, every=60.0), "--groups-of", "2"]
    subprocess.run(local, check=True, env={**os.environ, "JAX_NUM_CPU_DEVICES": "1"}, stderr=subprocess.DEVNULL)
    assert crash.same(load(the_run(tmp_path / "local")), load(the_run(out)))


def test_ctrl_c_keeps_all_and_leaves_the_cluster_clean(tmp_path: Path, cluster: Cluster) -> None:
    import ray

    process = subprocess.Popen(ray_command(tmp_path, cluster, every=60.0), stderr=subprocess.PIPE, text=True)
    wait_for("*/*/groups/*/progress.json", tmp_path, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT, said
    group = groups_under_way(the_run(tmp_path))[0]
    assert any(group.checkpoints.iterdir())
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        until = time.monotonic() + 30
        while ray.available_resources().get("CPU") != ray.cluster_resources()["CPU"] and time.monotonic() < until:
            time.sleep(0.2)
        assert ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"]
    finally:
        ray.shutdown()
