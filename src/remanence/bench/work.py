"""What a step of a deep agent must compute and move, and how fast this machine computes and moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from remanence.agents.base import hypers_of
from remanence.agents.configs import DQN, PTDQN, Deep
from remanence.agents.dqn import DeepState
from remanence.agents.networks import Dense, sequence
from remanence.core.tree_utils import tree_nbytes
from remanence.core.types import EnvSpec


class Machine(NamedTuple):
    """What this machine can do per second, with all cores."""

    operations: float
    """of a large matrix product"""
    copied: float
    """bytes read and written when memory is copied"""


class Needs(NamedTuple):
    """What a lane of an agent needs."""

    operations: float
    """of one update, see `useful_operations`"""
    optimizer_bytes: int
    """that one update must move: weights and the optimizer's state are read and written once"""
    state_bytes: int
    replay_bytes: int
    """of the replay buffer, which is part of the state"""


def needs(config: DQN | PTDQN, spec: EnvSpec) -> Needs:
    state: DeepState = jax.eval_shape(config.build(spec).init, jax.random.key(0), hypers_of(config))
    moved = 2 * tree_nbytes((state.transient, state.opt_state))
    return Needs(useful_operations(config, spec), moved, tree_nbytes(state), tree_nbytes(state.replay))


def useful_operations(config: Deep, spec: EnvSpec) -> float:
    """Floating point operations of one update: two forward passes, all weights' gradients, all hidden layers' gradients.

    Acting, sampling, the optimizer and the rest count as time but not as work.
    """
    shape = (*spec.obs.shape[:-1], spec.obs.shape[-1] * config.frames)
    output = Dense(config.outputs(spec), config.output_init)
    network = sequence((*config.trunk, *config.hidden_layers(spec.obs, shape), output), shape)
    per_layer = [
        int(np.prod(shape[:-1]))
        * (count - shape[-1])  # how often its matrix is applied, times the matrix without the bias
        for _, shape, count in network.summary
        if count
    ]
    return 2.0 * config.batch * (4 * sum(per_layer) - per_layer[0])


def matrix_product(size: int) -> float:
    """Operations per second of a large product, one on each device at the same time."""
    matrix = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    devices = jax.devices()
    placed = [jax.device_put(matrix, device) for device in devices]
    product = jax.jit(jnp.matmul)
    best = _fastest(lambda: jax.block_until_ready([product(one, one) for one in placed]))
    return len(devices) * 2.0 * size**3 / best


def memory_rate(size: int) -> float:
    """Bytes per second, read and written, when each core copies an array of `size` bytes at the same time."""
    cores = len(jax.devices())
    pairs = [(np.ones(size, np.uint8), np.empty(size, np.uint8)) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as threads:
        best = _fastest(lambda: list(threads.map(lambda pair: np.copyto(pair[1], pair[0]), pairs)))
    return cores * 2.0 * size / best


def _fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of five calls, after one that is not timed."""
    work()
    best = np.inf
    for _ in range(5):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best
