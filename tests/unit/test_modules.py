"""Networks of other libraries: the real ones, where they are installed, and classes with the same functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from remanence.agents.base import hypers_of
from remanence.agents.configs import DQN, PTDQN
from remanence.agents.modules import KeyedModule, Module, as_layer
from remanence.agents.networks import Dense, Relu, sequence
from remanence.core.describe import to_json
from remanence.core.errors import UserError
from remanence.core.types import EnvSpec, ObsSpec, Transition

SPEC = EnvSpec(ObsSpec((3,), "float32"), num_actions=2)


@dataclass(frozen=True)
class WithInitAndApply:
    """What Flax (linen) has: a product with a matrix of ones times `gain`."""

    gain: float
    outputs: int

    def init(self, key: Any, x: Array) -> dict[str, Array]:
        return {"params": self.gain * jnp.ones((x.shape[-1], self.outputs)) + 0 * jax.random.uniform(key)}

    def apply(self, variables: dict[str, Array], x: Array) -> Array:
        return x @ variables["params"]


def linen(outputs: int) -> Any:
    nn = pytest.importorskip("flax.linen")
    return nn.Sequential([nn.Dense(4), nn.relu, nn.Dense(outputs)])


def nnx(outputs: int) -> Any:
    nnx = pytest.importorskip("flax.nnx")
    return lambda key: nnx.Sequential(
        nnx.Linear(3, 4, rngs=nnx.Rngs(key)), nnx.relu, nnx.Linear(4, outputs, rngs=nnx.Rngs(key))
    )


def equinox(outputs: int) -> Any:
    eqx = pytest.importorskip("equinox")
    return lambda key: eqx.nn.MLP(3, outputs, width_size=4, depth=1, key=key)


def haiku(outputs: int, state: bool = False) -> Any:
    hk = pytest.importorskip("haiku")

    def compute(x: Array) -> Array:
        if state:
            x = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(x, is_training=True)
        return hk.nets.MLP([4, outputs])(x)

    return hk.without_apply_rng((hk.transform_with_state if state else hk.transform)(compute))


LIBRARIES = [linen, nnx, equinox, haiku, lambda outputs: WithInitAndApply(0.5, outputs)]
NAMES = ["Flax linen", "Flax nnx", "Equinox", "Haiku", "duck"]


@pytest.mark.parametrize("module", LIBRARIES, ids=NAMES)
def test_a_network_of_another_library_learns(module: Callable[[int], Any]) -> None:
    """As the entire network of PT-DQN: both parts have one, drawn by their keys; the transient one learns, the other stays."""
    config = PTDQN(network=module(2), batch=2, replay=8, cache=True)
    assert config.transient_half_life is None  # its last layer cannot decay by itself
    agent, hypers = config.build(SPEC), hypers_of(config)

    @jax.jit
    def after(steps: int) -> tuple[Any, Any, Array]:
        def step(n: Array, state: Any) -> Any:
            obs, one = jnp.arange(3.0) + n, jnp.float32(1)
            seen = Transition(obs, n % 2, one, 0.9 * one, obs + 1, one < 0, one > 0)
            return agent.learn(state, hypers, seen, jax.random.fold_in(jax.random.key(2), n))

        first = agent.init(jax.random.key(1), hypers)
        state = jax.lax.fori_loop(0, steps, step, first)
        return first, state, agent.inspect(state, jnp.arange(3.0))["value"]

    first, state, values = after(6)
    assert values.shape == (2,)
    assert np.isfinite(values).all()
    jax.tree.map(np.testing.assert_array_equal, first.permanent, state.permanent)
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), first.transient, state.transient)
    assert any(jax.tree.leaves(moved))
    assert to_json(config) == to_json(PTDQN(network=config.network, batch=2, replay=8, cache=True))


def test_linen_computes_what_our_layers_do() -> None:
    """With the same weights; and it is described by its own fields, so another width is another run."""
    nn = pytest.importorskip("flax.linen")
    ours = sequence([Dense(4, "uniform"), Relu(), Dense(2, "uniform")], (3,))
    weights, x = ours.init(jax.random.key(0)), jnp.ones((5, 3))
    (first, first_bias), _, (last, last_bias) = weights
    params = {
        "layers_0": {"kernel": first, "bias": first_bias},
        "layers_2": {"kernel": last, "bias": last_bias},
    }
    np.testing.assert_allclose(Module(linen(2)).apply({"params": params}, x), ours.apply(weights, x), rtol=1e-6)
    four, eight = (to_json(DQN(layers=(nn.Dense(units),))) for units in (4, 8))
    assert four == to_json(DQN(layers=(nn.Dense(4),)))
    assert four != eight


def test_equinox_computes_what_it_does_alone() -> None:
    module = equinox(2)
    layer, key, x = KeyedModule(module), jax.random.key(3), jnp.arange(12.0).reshape(4, 3)
    weights = layer.init_weights(key, (3,))
    np.testing.assert_allclose(layer.apply(weights, x), jax.vmap(module(key))(x), rtol=1e-6)
    assert sum(leaf.size for leaf in weights) == 3 * 4 + 4 + 4 * 2 + 2


def test_a_module_between_layers() -> None:
    """(1, 2, 3) times a matrix of ½ is 3 in both columns; the output layer follows."""
    config = DQN(layers=[WithInitAndApply(0.5, 2), Relu()])  # type: ignore[arg-type]
    agent = config.build(SPEC)
    state = agent.init(jax.random.key(0), hypers_of(config))
    assert agent.features is not None
    assert agent.features(state, jnp.array([1.0, 2.0, 3.0])).tolist() == [3, 3]


def test_modules_that_cannot_work_are_refused() -> None:
    class Normalized(WithInitAndApply):
        def init(self, key: Any, x: Array) -> dict[str, Array]:
            return {**super().init(key, x), "batch_stats": jnp.zeros(1)}

    with pytest.raises(UserError, match=r"has state beside its weights \(batch_stats\)"):
        DQN(network=Normalized(1.0, 2)).build(SPEC)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="3 outputs, and there are 2 actions"):
        DQN(network=WithInitAndApply(1.0, 3)).build(SPEC)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"making the network failed: TypeError"):
        DQN(network=lambda: 1).build(SPEC)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="network must be Layer or None; got 'deep'"):
        DQN(network="deep")  # type: ignore[arg-type]


def test_state_of_the_real_libraries_is_refused() -> None:
    nn = pytest.importorskip("flax.linen")
    with pytest.raises(UserError, match=r"has state beside its weights \(batch_stats\)"):
        DQN(network=nn.Sequential([nn.BatchNorm(use_running_average=False), nn.Dense(2)])).build(SPEC)
    with pytest.raises(UserError, match=r"has state beside its weights \(batch_norm/"):
        DQN(network=haiku(2, state=True)).build(SPEC)


def test_a_made_equinox_module_is_asked_for_as_a_function() -> None:
    eqx = pytest.importorskip("equinox")
    with pytest.raises(UserError, match=r"give a function of a key, lambda key: Linear\(…, key=key\)"):
        as_layer(eqx.nn.Linear(2, 2, key=jax.random.key(0)))
