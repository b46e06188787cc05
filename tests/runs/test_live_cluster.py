"""A run of `live` on two Ray nodes: the same bits as in processes here."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import pytest

import remanence

pytest.importorskip("ray", reason="the cluster extra is not installed")
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.long


def test_two_nodes_give_the_bits_of_two_processes(tmp_path: Path) -> None:
    def lake() -> gymnasium.Env:
        return gymnasium.make(
            "FrozenLake-v1", max_episode_steps=limit
        )  # closes over a number, and no node can import it

    limit = 60
    agent = remanence.Q(lr=0.5)
    options = {"seeds": 4, "window": 100, "lanes_per_group": 2, "cores_per_group": 1, "progress": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        there = remanence.live(agent, lake, 600, out=tmp_path / "ray", on="ray", address=cluster.address, **options)
    finally:
        cluster.shutdown()
    here = remanence.live(agent, lake, 600, out=tmp_path / "here", jobs=2, **options)
    assert there.curves.equals(here.curves)
    assert there.lanes.equals(here.lanes)
    assert there.path.name == here.path.name
    events = [json.loads(line) for line in (there.path / "log.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events].count("started") == 2
