"""The native learner against the one that XLA compiles: the same updates, the same values, the same bits again."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array

from remanence.agents.base import Agent, hypers_of
from remanence.agents.configs import DQN, PTDQN, DeepTD
from remanence.agents.learners import choose_learner
from remanence.agents.native.support import LANES
from remanence.agents.networks import Conv, Dense, Flatten, Layer, Relu
from remanence.core.learners import NATIVE, XLA
from remanence.core.prng import make_key
from remanence.core.types import EnvSpec, ObsSpec, TaskObs, Transition

BITS = EnvSpec(ObsSpec((37,), "bool"), num_actions=3, num_tasks=2, discount=0.9)
IMAGE = EnvSpec(ObsSpec((6, 7, 3), "bool"), num_actions=3, num_tasks=2, discount=0.9)
WARM_UP = 60


def convolution(filters: int, side: int, units: int) -> tuple[Layer, ...]:
    return Conv(filters, side, "uniform"), Relu(), Flatten(), Dense(units, "uniform"), Relu()


PT: dict[str, Any] = {"permanent_lr": 0.1, "transient_lr": 0.01, "replay": 100, "consolidate_every": 50}
# One round of absorption: in later ones, rounding may decide whether a round is undone.
SHARE: dict[str, Any] = {"hidden": (32, 16), "batch": 16, "frames": 3, "absorb": 0.25, "max_batches": 8}
# Widths and batches that are multiples of a tile, and others.
FORMS: dict[str, tuple[DQN | PTDQN, EnvSpec]] = {
    "DQN": (DQN(lr=0.01, hidden=(64, 16), batch=16, replay=200, target_every=20), BITS),
    "odd widths, frames": (DQN(lr=0.01, hidden=(33, 19, 7), batch=13, replay=200, target_every=20, frames=4), BITS),
    "SGD, no target": (
        DQN(lr=0.01, hidden=(24,), batch=16, replay=50, target_every=None, optimizer="sgd", replace=False),
        BITS,
    ),
    "RMSProp, Huber": (
        DQN(lr=1e-3, hidden=(24, 7), batch=16, replay=200, target_every=20, optimizer="rmsprop of dqn", loss="huber"),
        BITS,
    ),
    "heads": (DQN(lr=0.01, hidden=(24, 16), batch=16, replay=200, multihead=True), BITS),
    "every third step": (
        DQN(
            lr=0.01,
            hidden=(24,),
            batch=16,
            replay=200,
            train_every=3,
            learning_starts=70,
            reward_scale=0.5,
            reward_clip=0.3,
        ),
        BITS,
    ),
    "prediction": (DeepTD(lr=0.01, hidden=(24,), batch=16, replay=200, target_every=None), BITS),
    "PT-DQN": (PTDQN(**PT, hidden=(32, 16), batch=16, frames=3), BITS),
    "PT-DQN, Adam": (PTDQN(**{**PT, "permanent_lr": 0.01}, hidden=(32,), batch=16, permanent_optimizer="adam"), BITS),
    "PT-DQN, a share": (PTDQN(**{**PT, "permanent_lr": 0.2}, **SHARE, permanent_optimizer="sgd"), BITS),
    "PT-DQN, a share, Adam": (PTDQN(**{**PT, "permanent_lr": 0.005}, **SHARE), BITS),
    "conv 3×3": (DQN(lr=0.01, layers=convolution(8, 3, 20), batch=16, replay=100, implicit_next=True), IMAGE),
    "conv 3×3, RMSProp, Huber": (
        DQN(lr=1e-3, layers=convolution(8, 3, 20), batch=16, replay=100, optimizer="rmsprop of dqn", loss="huber"),
        IMAGE,
    ),
    "conv 2×2, frames": (PTDQN(**PT, layers=convolution(5, 2, 32), batch=10, frames=2, implicit_next=True), IMAGE),
    "image without conv": (
        PTDQN(**PT, layers=(Flatten(), Dense(32, "uniform"), Relu()), batch=10, frames=2, implicit_next=False),
        IMAGE,
    ),
}


class Life:
    """A life of random transitions with one learner, a jitted function of its state."""

    def __init__(self, config: DQN | PTDQN, spec: EnvSpec, learner: str) -> None:
        self.agent: Agent = choose_learner(config.build(spec), learner).agent
        self.hypers, self.spec = hypers_of(config), spec
        self.run = jax.jit(jax.vmap(self._run, in_axes=(0, None, None)))
        self.consolidate = jax.jit(
            jax.vmap(lambda state: self.agent.consolidate(state, self.hypers, make_key(3), True))
        )

    def begin(self, seeds: list[int]) -> Any:
        return jax.vmap(lambda seed: (self.agent.init(make_key(seed), self.hypers), seed))(jnp.asarray(seeds))

    def _run(self, life: tuple[Any, Array], first: Array, steps: Array) -> Any:
        def step(t: Array, life: tuple[Any, Array]) -> Any:
            state, seed = life
            keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(make_key(1), t), seed), 5)
            obs, next_obs = (jax.random.bernoulli(key, 0.1, self.spec.obs.shape) for key in keys[:2])
            last = jax.random.uniform(keys[2]) < 0.1

            def seen(obs: Array) -> Any:
                return TaskObs(obs, t // 20 % 2) if self.agent.task_aware else obs

            transition = Transition(
                seen(obs),
                jax.random.randint(keys[3], (), 0, self.spec.num_actions),
                jax.random.normal(keys[3]),
                jnp.where(last & (t % 2 == 0), 0.0, 0.9),  # half of the ends are truncations
                seen(next_obs),
                last,
                jnp.bool_(True),
            )
            return self.agent.learn(state, self.hypers, transition, keys[4]), seed

        return jax.lax.fori_loop(first, first + steps, step, life)


@cache
def lives(form: str) -> tuple[Life, Life]:
    return Life(*FORMS[form], XLA), Life(*FORMS[form], NATIVE)


def difference(one: Any, other: Any, before: Any) -> float:
    """The largest difference between two results, relative to how far the other one moved from `before`."""
    found = 0.0
    for a, b, start in zip(*map(jax.tree.leaves, (one, other, before)), strict=True):
        a, b, start = (np.asarray(leaf, np.float64) for leaf in (a, b, start))
        found = max(found, float(np.abs(a - b).max() / max(np.abs(b - start).max(), 1e-30)))
    return found


SLOW = ("odd widths, frames", "image without conv", "PT-DQN, a share, Adam")  # others have what they have, one by one


@pytest.mark.parametrize("form", [pytest.param(one, marks=pytest.mark.long) if one in SLOW else one for one in FORMS])
def test_the_same_updates(form: str) -> None:
    """One step, a hundred steps, and a consolidation. Differences are relative to what changed.

    After a hundred steps they are not larger than a few times the difference that another lane makes for XLA itself, or 10⁻⁴.
    """
    xla, native = lives(form)
    start = xla.run(xla.begin([1]), 0, WARM_UP)
    (before, _), (by_xla, _), (by_native, _) = start, *(life.run(start, WARM_UP, 1) for life in (xla, native))
    assert difference(by_native.transient, by_xla.transient, before.transient) < 1e-5
    nothing = jax.tree.map(np.zeros_like, by_xla.opt_state)
    assert difference(by_native.opt_state, by_xla.opt_state, nothing) < 1e-5
    for name in ("steps", "age", "recent"):
        assert np.array_equal(getattr(by_native, name), getattr(by_xla, name))
    assert_same_replay(by_native, by_xla)

    two = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), start)
    (one, _), (both, _), (ours, _) = (
        life.run(state, WARM_UP, 100) for life, state in ((xla, start), (xla, two), (native, start))
    )
    control = difference(jax.tree.map(lambda leaf: leaf[:1], both.transient), one.transient, before.transient)
    assert difference(ours.transient, one.transient, before.transient) < max(30 * control, 1e-4)
    if jax.tree.leaves(one.target):
        assert difference(ours.target, one.target, before.transient) < max(30 * control, 1e-4)

    if isinstance(FORMS[form][0], PTDQN):
        by_xla, by_native = xla.consolidate(one), native.consolidate(one)
        moved = jax.tree.leaves(by_xla.permanent)[0] - jax.tree.leaves(one.permanent)[0]
        assert np.abs(moved).max() > 1e-3
        assert difference(by_native.permanent, by_xla.permanent, one.permanent) < 1e-5
        assert_same_replay(by_native, by_xla)


def assert_same_replay(one: Any, other: Any) -> None:
    """The same bytes, but V^P of stored states, which may differ in the last digits."""
    for a, b in zip(jax.tree.leaves(one.replay), jax.tree.leaves(other.replay), strict=True):
        if a.dtype == jnp.float32:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            assert np.array_equal(a, b)


@pytest.mark.parametrize("form", ["PT-DQN"])
def test_the_same_bits_again_whatever_runs_beside(form: str) -> None:
    native = lives(form)[1]
    alone, again = (native.run(native.begin([5]), 0, 150)[0] for _ in range(2))
    among = native.run(native.begin([9, 5, 2]), 0, 150)[0]
    for a, b, c in zip(*map(jax.tree.leaves, (alone, again, among)), strict=True):
        assert np.array_equal(a[0], b[0])
        assert np.array_equal(a[0], c[1])


@pytest.mark.parametrize("form", ["PT-DQN"])
def test_values_of_many_inputs_with_shared_weights(form: str) -> None:
    """Probes map over inputs, lanes over weights."""
    xla, native = lives(form)
    state, _ = xla.run(xla.begin([1, 2]), 0, 2 * WARM_UP)
    frames = FORMS[form][0].frames
    shape = (*xla.spec.obs.shape[:-1], xla.spec.obs.shape[-1] * frames)
    points = jnp.asarray(np.random.default_rng(0).random((5, *shape)) < 0.2)
    by_xla, by_native = (
        jax.vmap(lambda one, life=life: jax.vmap(lambda point: life.agent.inspect(one, point)["value"])(points))(state)
        for life in (xla, native)
    )
    assert by_xla.shape == (2, 5, 3)
    np.testing.assert_allclose(by_native, by_xla, rtol=1e-5, atol=1e-6)
    assert np.abs(by_xla[0] - by_xla[1]).max() > 1e-3


@pytest.mark.long
@settings(max_examples=12)
@given(
    bits=st.integers(1, 70),
    hidden=st.lists(st.integers(1, 50), min_size=1, max_size=3),
    batch=st.integers(1, 40),
    frames=st.integers(1, 3),
    implicit=st.booleans(),
)
def test_any_shape(bits: int, hidden: list[int], batch: int, frames: int, implicit: bool) -> None:
    spec = EnvSpec(ObsSpec((bits,), "bool"), num_actions=3, num_tasks=2, discount=0.9)
    fields: dict[str, Any] = {"hidden": tuple(hidden), "batch": batch, "frames": frames, "implicit_next": implicit}
    config = DQN(lr=0.01, replay=50, target_every=10, **fields)
    xla, native = (Life(config, spec, learner) for learner in (XLA, NATIVE))
    start = xla.run(xla.begin([1]), 0, WARM_UP)
    (by_xla, _), (by_native, _) = (life.run(start, WARM_UP, 1) for life in (xla, native))
    assert difference(by_native.transient, by_xla.transient, start[0].transient) < 1e-5


def test_products_of_all_sizes() -> None:
    """Tiles, their remainders, and blocks of the inner dimension, against NumPy."""
    from remanence.agents.native.tiles import product, transpose

    rng = np.random.default_rng(0)
    for m, n, k in ((1, 16, 1), (4, 64, 128), (7, 80, 129), (66, 144, 300), (3, 48, 7)):
        assert n % LANES == 0
        a, b, c = rng.normal(size=(m, k)), rng.normal(size=(k, n)), np.zeros((m, n), np.float32)
        a, b = a.astype(np.float32), b.astype(np.float32)
        product(a.ctypes.data, k, 1, b.ctypes.data, n, c.ctypes.data, n, m, n, k)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
        turned = np.ascontiguousarray(a.T)
        c[:] = 0
        product(turned.ctypes.data, 1, m, b.ctypes.data, n, c.ctypes.data, n, m, n, k)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    wide, tall = rng.normal(size=(32, 48)).astype(np.float32), np.zeros((48, 32), np.float32)
    transpose(wide.ctypes.data, 48, tall.ctypes.data, 32, 20, 40)
    assert np.array_equal(tall[:40, :20], wide.T[:40, :20])
