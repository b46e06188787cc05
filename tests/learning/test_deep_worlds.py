"""Deep agents in small worlds with known values: all of them solve them, and one only with consolidation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from remanence.agents import AT_SWITCH, Agent, Hypers
from remanence.agents.behaviour import epsilon_greedy, uniform
from remanence.agents.composition import separate_networks, shared_trunk, single
from remanence.agents.dqn import deep_agent
from remanence.agents.networks import Dense, Network, Tanh, mlp, sequence
from remanence.agents.td import CONTROL, PREDICTION
from remanence.agents.training import DECAY, REINIT, Consolidation, OnConsolidate, Training, clear_replay, reset_all
from remanence.core.errors import UserError
from remanence.core.types import Episodes, Key, ObsSpec, TimeStep
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig, ProbeInput
from remanence.engine.probes import value_error
from remanence.streams import Stream, cyclic
from remanence.theory import optimal_values
from remanence.worlds import CornerGrid, SlipperyGrid, World
from remanence.worlds.true_values import Truth, corner_grid_truth


@dataclass(frozen=True)
class OneHot(World):
    """Another world whose observations are one-hot bits instead of numbers."""

    inner: Any

    @property
    def num_actions(self) -> int:
        return self.inner.num_actions

    @property
    def discount(self) -> float:
        return self.inner.discount

    @property
    def observation(self) -> ObsSpec:
        return ObsSpec((self.inner.num_states,), "bool")

    def reset(self, key: Key, task: Array) -> tuple[Any, Array]:
        state, obs = self.inner.reset(key, task)
        return state, obs == jnp.arange(self.inner.num_states)

    def step(self, key: Key, state: Any, action: Array, task: Array) -> tuple[Any, TimeStep]:
        state, seen = self.inner.step(key, state, action, task)
        return state, seen._replace(obs=seen.obs == jnp.arange(self.inner.num_states))


MAZE = SlipperyGrid(width=3, height=2, walls=(), goals=((2, 1), (2, 0)), slip=0.1, discount=0.8)
SWAP = np.array([[1.0, -1.0], [-1.0, 1.0]], np.float32)
PATCH = CornerGrid(size=3, discount=0.8)
CORNERS = np.array([[0, 1, 0, 1], [1, 0, 1, 0]], np.float32)


def network(outputs: int, states: int) -> Network:
    return mlp((states,), (24,), outputs, activation="tanh", init="uniform")


def solver(name: str, problem: Any, outputs: int, states: int, behaviour: Any) -> tuple[Agent, Any]:
    """Every deep contender at a size that learns in seconds."""
    target = 20 if problem is CONTROL else None
    training = Training("adam", batch=32, replay=2000 if name == "large-buffer" else 400, target_every=target)
    make = partial(deep_agent, problem, behaviour=behaviour, example_obs=np.zeros(states, bool), training=training)
    net, plain = network(outputs, states), Hypers(lr=0.005)
    pt, consolidation = (
        Hypers(permanent_lr=0.003, transient_lr=0.005, decay=0.0),
        Consolidation("adam", batch=32, buffer=2000, min_batches=50),
    )
    trunk, head = sequence([Dense(24, "uniform"), Tanh()], (states,)), sequence([Dense(outputs, "uniform")], (24,))
    return {
        "plain": lambda: (make(single(net), on_consolidate=clear_replay(), consolidate_every=AT_SWITCH), plain),
        "reset": lambda: (make(single(net), on_consolidate=reset_all(), consolidate_every=AT_SWITCH), plain),
        "large-buffer": lambda: (make(single(net)), plain),
        "multihead": lambda: (
            make(
                single(network(2 * outputs, states)),
                on_consolidate=clear_replay(),
                consolidate_every=AT_SWITCH,
                heads=2,
            ),
            plain,
        ),
        "pt-two-heads": lambda: (
            make(
                shared_trunk(trunk, head),
                on_consolidate=OnConsolidate(REINIT),
                consolidation=consolidation,
                consolidate_every=AT_SWITCH,
            ),
            pt,
        ),
        "pt-told": lambda: (
            make(
                separate_networks(net, net),
                on_consolidate=OnConsolidate(REINIT),
                consolidation=consolidation,
                consolidate_every=AT_SWITCH,
            ),
            pt,
        ),
        "pt-two-networks": lambda: (
            make(
                separate_networks(net, net),
                on_consolidate=OnConsolidate(DECAY, clear_replay=False, reset_optimizer=False),
                consolidation=dataclasses.replace(consolidation, cache=True),
                consolidate_every=Episodes(40),
            ),
            Hypers(permanent_lr=0.003, transient_lr=0.005, decay=0.5),
        ),
    }[name]()


@pytest.mark.parametrize("name", ["plain", "reset", "multihead", "large-buffer", "pt-two-heads", "pt-two-networks"])
def test_every_deep_control_agent_solves_a_maze(name: str) -> None:
    """Two goals of +1 and −1 that swap once. In the end all know what the best action brings, to a tenth of a goal's reward, and
    what they choose costs less than a tenth of what random actions do, by the values of value iteration.

    Some ways are almost alike, so the actions themselves are not compared: one that is hardly worse costs hardly anything.
    """
    agent, hypers = solver(name, CONTROL, 4, MAZE.num_states, epsilon_greedy(0.2))
    boundaries_known = name != "pt-two-networks"
    # A memory that is never emptied still holds the old task for long: it gets one task only, for as long as the others live.
    order, episodes = ((0,), 300) if name == "large-buffer" else ((0, 1), 150)
    stream = Stream(SWAP, order, Episodes(episodes), boundaries_known)
    probe = lambda probe_input: probe_input.window.reward  # noqa: E731
    driver = Driver(LifeConfig(agent, OneHot(MAZE), stream, probe, max_steps=30_000), round_steps=2)
    outcome = driver.run([hypers] * 12, list(range(12)))
    walked = [MAZE.cell((0, 0)), MAZE.cell((1, 0)), MAZE.cell((1, 1))]
    exact = optimal_values(*MAZE.dynamics(SWAP), MAZE.discount)[order[-1]][walked]
    points = jnp.asarray(np.eye(MAZE.num_states, dtype=bool)[walked])
    believed = jax.vmap(lambda state: jax.vmap(lambda point: agent.inspect(state, point)["value"])(points))
    values = np.asarray(believed(outcome.agents)).reshape(12, 3, -1, 4)[:, :, -1]  # of the last head, if there are two
    cost = exact.max(axis=-1, keepdims=True) - exact  # [states, actions]
    chosen = np.take_along_axis(np.broadcast_to(cost, values.shape), values.argmax(axis=-1)[..., None], axis=-1)
    assert chosen.mean() < cost.mean() / 10
    np.testing.assert_allclose(values.max(axis=-1).mean(axis=0), exact.max(axis=-1), atol=0.1)


@pytest.mark.parametrize("name", ["plain", "reset", "pt-two-heads", "pt-told"])
def test_every_deep_prediction_agent_learns_true_values(name: str) -> None:
    """The 3×3 grid with corners, two tasks: the error on the live task falls below a fifth of a zero estimate's."""
    agent, hypers = solver(name, PREDICTION, 1, PATCH.num_states, uniform(4))
    truth = corner_grid_truth(PATCH, CORNERS)
    points = np.eye(PATCH.num_states, dtype=bool)
    stream = Stream(CORNERS, cyclic(2, 2), Episodes(150), boundaries_known=True)
    probe = value_error(agent, Truth(points, truth.values, truth.weights, truth.final))
    driver = Driver(LifeConfig(agent, OneHot(PATCH), stream, probe), round_steps=2)
    errors = driver.run([hypers] * 4, [0, 1, 2, 3]).record["rmsve_current"]
    nothing_known = np.sqrt((truth.weights * np.where(truth.final, 0, truth.values[1] ** 2)).sum())
    assert errors[:, -1].mean() < nothing_known / 5
    assert errors[:, 149].mean() < nothing_known / 5


@pytest.mark.parametrize(("permanent_lr", "knows"), [(0.01, True), (0.0, False)])
def test_what_only_consolidation_can_keep(permanent_lr: float, knows: bool) -> None:
    """Tasks that are all alike, told as if they were new: the transient part is redrawn, so only V^P can know anything at once."""
    agent, _ = solver("pt-told", PREDICTION, 1, PATCH.num_states, uniform(4))
    truth = corner_grid_truth(PATCH, CORNERS)
    points = jnp.asarray(np.eye(PATCH.num_states, dtype=bool))

    def kept(probe_input: ProbeInput) -> Array:
        return jax.vmap(lambda point: agent.inspect(probe_input.agent, point)["permanent"][0])(points)

    stream = Stream(CORNERS, (0,) * 4, Episodes(80), boundaries_known=True)
    driver = Driver(LifeConfig(agent, OneHot(PATCH), stream, kept), round_steps=2)
    last = driver.run([Hypers(permanent_lr=permanent_lr, transient_lr=0.01, decay=0.0)] * 2, [0, 1]).record[:, -1]
    error = np.sqrt(((last - truth.values[0])[:, ~truth.final] ** 2).mean())
    size = np.sqrt((truth.values[0][~truth.final] ** 2).mean())
    assert (error < 0.35 * size) == knows


@pytest.mark.long
@pytest.mark.usefixtures("optimized")
def test_lanes_alone_and_in_company() -> None:
    """1, 2 and 8 lanes: the same curves up to rounding."""
    agent, hypers = solver("pt-two-heads", PREDICTION, 1, PATCH.num_states, uniform(4))
    truth = corner_grid_truth(PATCH, CORNERS)
    points = np.eye(PATCH.num_states, dtype=bool)
    probe = value_error(agent, Truth(points, truth.values, truth.weights, truth.final))
    config = LifeConfig(agent, OneHot(PATCH), Stream(CORNERS, cyclic(2, 2), Episodes(12), boundaries_known=True), probe)
    driver = Driver(config, round_steps=2)
    curves = {n: driver.run([hypers] * n, list(range(n))).record["rmsve_current"] for n in (1, 2, 8)}
    for n in (1, 2):
        np.testing.assert_allclose(curves[n], curves[8][:n], rtol=2e-3, atol=1e-5)
    assert np.ptp(curves[8][:, 5]) > 0


@pytest.mark.parametrize(
    ("hypers", "complaint"),
    [
        (
            Hypers(permanent_lr=0.1, transient_lr=0.1, decay=-0.5),
            "decay must be a finite number that is not negative; got -0.5",
        ),
        (Hypers(permanent_lr=0.1, transient_lr=0.1, decay=1.5), "decay must be between 0 and 1; got 1.5"),
        (Hypers(permanent_lr=0.1, transient_lr=float("nan"), decay=0.0), "transient_lr must be a finite number"),
    ],
)
def test_bad_numbers_are_refused_before_anything_compiles(hypers: Hypers, complaint: str) -> None:
    stream = Stream(np.zeros((1, 2), np.float32), (0,), Episodes(8), boundaries_known=True)
    agent, _ = solver("pt-two-networks", CONTROL, 4, MAZE.num_states, uniform(4))
    driver = Driver(LifeConfig(agent, OneHot(MAZE), stream, lambda _: 0.0))
    with pytest.raises(UserError, match=complaint):
        driver.run([hypers], [0])
