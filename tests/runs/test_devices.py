"""The engine takes what `jax.devices()` gives, and its memory: simulated devices stand in for accelerators."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from conftest import GRID, TD, everything, stream
from one_group import PLAN
from remanence.agents.base import hypers_of
from remanence.core import backend
from remanence.core.errors import UserError
from remanence.core.types import Hypers
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig
from remanence.runs.execution import RAY, Execution
from remanence.runs.executors import devices
from remanence.runs.jobs import COPIES, lanes_of_run, lanes_that_fit, make_driver
from scripted import Corridor, quiet

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
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_USE_SHARDY_PARTITIONER"):
        environment.pop(name, None)
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


def test_one_device_has_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits as on one of several devices, which is used where jaxlib has no such client."""
    monkeypatch.setenv("PJRT_NPROC", "7")
    single = backend.one_thread()
    assert single is not None
    assert single.client is not jax.devices()[0].client
    assert os.environ["PJRT_NPROC"] == "7"
    assert backend.first_devices(1) == [single]
    assert backend.first_devices(None) == jax.devices()

    def curves() -> dict[str, np.ndarray]:
        driver = Driver(LifeConfig(TD, GRID, stream(), everything(TD)), devices=1)
        return driver.run([Hypers(lr=0.2)] * 2, range(2)).record

    there = curves()
    monkeypatch.setattr(backend, "one_thread", lambda: None)
    assert backend.first_devices(1) == jax.devices()[:1]
    jax.tree.map(np.testing.assert_array_equal, there, curves())


def test_live_has_as_many_devices_as_it_is_asked_to_have() -> None:
    """Also without a directory; the backend has not started before."""
    asked = backend.cores() + 1
    program = (
        "import jax, remanence\n"
        f"remanence.live('Random', 'CartPole-v1', 40, seeds=2, cores_per_group={asked}, progress=False)\n"
        "print(len(jax.devices()))"
    )
    own = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=own, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == [str(asked)]


def test_a_cpu_says_nothing_of_its_memory_so_the_machine_does() -> None:
    assert [backend.limit_of(device) for device in jax.devices()] == [0] * len(jax.devices())
    assert backend.device_memory() == backend.memory()


def test_the_smallest_of_the_devices_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes are spread evenly. A device that does not say counts like the machine."""
    monkeypatch.setattr(backend, "limit_of", lambda device: device)
    monkeypatch.setattr(backend, "memory", lambda: 1000)
    assert backend.device_memory([16, 24, 16]) == 48
    assert backend.device_memory([16]) == 16
    assert backend.device_memory([16, 0]) == 1000


def test_as_many_lanes_run_together_as_fit_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 lanes' worth of memory, 70 % are used, and each lane needs three copies."""
    config = PLAN.contenders["PT-DQN"].config
    per_lane = make_driver(PLAN, config).bytes_per_lane(hypers_of(config))
    monkeypatch.setattr(backend, "limit_of", lambda _: 20 * per_lane // len(jax.devices()))
    monkeypatch.setattr(backend, "memory", lambda: pytest.fail("the machine's memory is of no interest"))
    assert COPIES == 3
    assert lanes_that_fit(PLAN, lanes_of_run(PLAN, range(3))) == 4
    assert lanes_that_fit(PLAN, lanes_of_run(PLAN, range(3)), processes=2) == 2


def test_live_refuses_what_does_not_fit_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed lives on one device, however many there are."""
    monkeypatch.setattr(backend, "limit_of", lambda _: 1024)
    with pytest.raises(UserError, match=r"Q needs about 0\.0 GB for 1 seeds, but there are 0\.0"):
        quiet("Q", Corridor, 60, seeds=1)


def test_devices_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """All there are; a share of the cores with --jobs; on accelerators every process has all of them, and Ray has CPUs only."""
    monkeypatch.setattr(backend, "cores", lambda: 8)
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    there = len(jax.devices())
    assert devices(Execution()) == there
    assert devices(Execution(jobs=4)) == 2
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert devices(Execution()) == devices(Execution(jobs=4)) == there
    assert devices(Execution(on=RAY, cores_per_group=3)) == 3
