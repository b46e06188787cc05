"""What several test files share: the paper's small grid, agents on it, and compiled drivers that are made once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

# All of this is read when jax and the library are imported. Compiled programs of the tests have a directory of their own.
os.environ["REMANENCE_CACHE"] = user_cache_dir("remanence-tests")
# Tests compile many small programs: all are cached, so that other processes and the next run of the suite need not.
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
# The older of XLA's two emitters takes half the time to compile, which is most of a test's time. An unknown flag would abort jax.
if version("jaxlib").startswith("0.10."):
    faster = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {faster}".strip()

# Without Shardy a program compiles in four fifths of the time. `test_devices.py` has it, as users do.
os.environ["JAX_USE_SHARDY_PARTITIONER"] = "false"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"  # XLA's advice to use Shardy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings
from jax import Array

from remanence.agents import Agent, pt_td, td
from remanence.agents.behaviour import uniform
from remanence.agents.linear import linear, one_hot, row_and_column
from remanence.core.native import compiling
from remanence.core.types import Episodes, Hypers, Key, Steps, Transition
from remanence.engine.lanes import Driver, Outcome
from remanence.engine.life import LifeConfig, Probe, ProbeInput
from remanence.engine.probes import value_error, value_maps
from remanence.streams import Stream, cyclic
from remanence.worlds import CornerGrid
from remanence.worlds.true_values import corner_grid_truth

settings.register_profile("suite", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("suite")

# Tracing makes many objects that live on: by default Python looks at all of them again and again.
gc.freeze()
gc.set_threshold(50_000, 20, 100)

compiling.directory()  # chooses the directory of compiled kernels now: they take half a minute

# Rewards of the corners top-left, top-right, bottom-left, bottom-right in the paper's four tasks (App. C.1.1).
TASKS = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]], np.float32)
GRID = CornerGrid()
SEGMENT_LENGTH, SEGMENTS = 6, 5  # a small life: five tasks (the first comes back) of six episodes
SEEDS = (0, 1, 2, 3, 4)  # an odd number, so that devices must be filled up
TRUTH = corner_grid_truth(GRID, TASKS)
RUN_LONGER_THAN_THEY_COMPILE = ("test_bench",)

TABLE, ROWS = linear(one_hot(25)), linear(row_and_column(5))
TD = td(TABLE, uniform(4))
TD_RESET = td(TABLE, uniform(4), reset=True)


@cache
def pt(**options: Any) -> Agent:
    """Tabular PT-TD with a buffer that is large enough."""
    return pt_td(TABLE, uniform(4), jnp.int32(0), buffer=1_000, **options)


def counting(agent: Agent) -> Agent:
    """The same agent, whose state is (state, how often it consolidated)."""
    return agent._replace(
        init=lambda key, hypers: (agent.init(key, hypers), jnp.int32(0)),
        act=lambda state, hypers, obs, key: agent.act(state[0], hypers, obs, key),
        learn=lambda state, hypers, transition, key: (agent.learn(state[0], hypers, transition, key), state[1]),
        consolidate=lambda state, hypers, key, active: (
            agent.consolidate(state[0], hypers, key, active),
            state[1] + 1,
        ),
        inspect=lambda state, obs: agent.inspect(state[0], obs),
        samples_dropped=lambda state: agent.samples_dropped(state[0]),
    )


# Consolidates in the middle of episodes, with a buffer that drops 5 of the 17 states of each period.
STEP_PERIOD, STEP_BUFFER = 17, 12
PT_BY_STEPS = counting(pt_td(ROWS, uniform(4), jnp.int32(0), buffer=STEP_BUFFER, consolidate_every=Steps(STEP_PERIOD)))


def stream(boundaries_known: bool = True) -> Stream:
    return Stream(TASKS, cyclic(len(TASKS), SEGMENTS), Episodes(SEGMENT_LENGTH), boundaries_known)


def everything(agent: Agent) -> Probe:
    """Measures all there is at the end of an episode."""
    error, believed = value_error(agent, TRUTH), value_maps(agent, TRUTH.points)

    def measure(probe_input: ProbeInput) -> dict[str, Any]:
        counts = {**probe_input.window._asdict(), "task": probe_input.task_id}
        values = {part: belief[:, 0] for part, belief in believed(probe_input).items()}  # [states]
        return {**error(probe_input), **values, **{name: jnp.float32(count) for name, count in counts.items()}}

    return measure


@cache
def driver(agent: Agent, boundaries_known: bool, round_steps: int) -> Driver:
    return Driver(LifeConfig(agent, GRID, stream(boundaries_known), everything(agent)), round_steps)


def live(
    agent: Agent,
    hypers: Sequence[Hypers],
    seeds: Sequence[int] = SEEDS,
    boundaries_known: bool = True,
    round_steps: int = 8,
    rounds_per_chunk: int | None = None,
) -> Outcome:
    """Small whole lives on the 5x5 grid."""
    program = driver(agent, boundaries_known=boundaries_known, round_steps=round_steps)
    program.rounds_per_chunk = rounds_per_chunk
    return program.run(hypers, seeds)


def transition(obs: Any, reward: Any, next_obs: Any, discount: Any = 0.5, valid: Any = True) -> Transition:
    """One transition, or as many as the longest argument, in the order of speech: from obs, with this reward, to next_obs."""
    rewards, discounts = np.asarray(reward, np.float32), np.asarray(discount, np.float32)
    parts = (np.asarray(obs), 0, rewards, discounts, np.asarray(next_obs), discounts == 0, valid)
    return Transition(*[jnp.asarray(part) for part in np.broadcast_arrays(*parts)])


def key_stub() -> Key:
    """A key for functions that promise not to use it."""
    return jnp.zeros(2, jnp.uint32)


def brute_force_step(row: int, column: int, action: int, size: int = 5) -> tuple[int, int]:
    """Where a move leads, case by case: up, down, left, right; the edge is a wall."""
    if action == 0 and row > 0:
        return row - 1, column
    if action == 1 and row < size - 1:
        return row + 1, column
    if action == 2 and column > 0:
        return row, column - 1
    if action == 3 and column < size - 1:
        return row, column + 1
    return row, column


def brute_force_values(rewards: Sequence[float] | np.ndarray, discount: float) -> np.ndarray:
    """Values [25] of the random policy on the 5x5 grid by iterating the Bellman equation, cell by cell."""
    goals = dict(zip([(0, 0), (0, 4), (4, 0), (4, 4)], np.asarray(rewards).tolist(), strict=True))
    values = np.zeros((5, 5))
    for _ in range(2_000):
        new = np.zeros((5, 5))
        for row in range(5):
            for column in range(5):
                if (row, column) not in goals:
                    cells = [brute_force_step(row, column, action) for action in range(4)]
                    new[row, column] = sum(goals.get(cell, 0.0) + discount * values[cell] for cell in cells) / 4
        if np.abs(new - values).max() < 1e-14:
            break
        values = new
    return values.ravel()


def same(one: Any, other: Any) -> bool:
    """Whether two arrays are equal bit for bit (and have no NaN)."""
    return np.array_equal(np.asarray(one), np.asarray(other))


def assert_same_record(one: dict[str, Array], other: dict[str, Array], names: Sequence[str] | None = None) -> None:
    for name in names or one:
        assert same(one[name], other[name]), name


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Starts empty: no result of an earlier run is reused. Programs compiled here and kernels are elsewhere (see above)."""
    directory = tmp_path_factory.mktemp("cache")
    kernels = compiling.directory()
    if kernels is not None:
        (directory / "kernels").symlink_to(kernels.parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REMANENCE_CACHE", str(directory))
        yield directory


@pytest.fixture(scope="module", autouse=True)
def compile_fast(request: pytest.FixtureRequest) -> None:
    """Most tests compile longer than they run, so their programs, and those of their subprocesses, are not optimized."""
    fast = request.path.stem not in RUN_LONGER_THAN_THEY_COMPILE
    jax.config.update("jax_disable_most_optimizations", fast)
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(fast)


@pytest.fixture
def optimized() -> Iterator[None]:
    """Programs are optimized as users' are, which decides their last bits; nothing that was compiled before is reused."""

    def forget_programs() -> None:
        driver.cache_clear()
        jax.clear_caches()

    jax.config.update("jax_disable_most_optimizations", False)
    forget_programs()
    yield
    jax.config.update("jax_disable_most_optimizations", True)
    forget_programs()
