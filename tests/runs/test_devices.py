"""The engine takes what `jax.devices()` gives: the same curves with one device and with two, up to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import json, jax, numpy as np
from remanence.agents.base import hypers_of
from remanence.agents.configs import PTQ
from remanence.core.types import EnvSpec, Episodes
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.engine.probes import episode_return
from remanence.streams import Stream, cyclic
from remanence.worlds import CornerGrid
from remanence.worlds.grids.corner import CORNER_TASKS

world, config = CornerGrid(size=3), PTQ(consolidate_every=None, decay=0.0)
agent = config.build(EnvSpec(world.observation, world.num_actions))
stream = Stream(CORNER_TASKS, cyclic(4, 2), Episodes(4), boundaries_known=True)
driver = Driver(LifeConfig(agent, world, stream, episode_return()))
outcome = driver.run([hypers_of(config)] * 3, range(3))
rows = {name: leaf.tolist() for name, leaf in outcome.record.items()}
print(json.dumps({"devices": len(jax.devices()), "mesh": driver.mesh.size, "record": rows}))
"""


def run_with(devices: int) -> dict:
    """A tiny run in a process with this many devices."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu"}
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_curves_do_not_depend_on_the_number_of_devices() -> None:
    """Three lanes: with two devices a row stays empty."""
    one, two = run_with(1), run_with(2)
    assert [(found["devices"], found["mesh"]) for found in (one, two)] == [(1, 1), (2, 2)]
    assert one["record"].keys() == two["record"].keys()
    for name, curves in one["record"].items():
        assert np.shape(curves) == (3, 8)
        assert two["record"][name] == [pytest.approx(curve, rel=1e-5, abs=1e-6) for curve in curves], name
    assert len({tuple(curve) for curve in one["record"]["steps"]}) == 3  # every seed has a life of its own
