"""Deep agents: Algorithm 4 retold in NumPy line by line, what must not move, and small worlds with known values."""

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

from conftest import key_stub
from remanence import memory
from remanence.agents import AT_SWITCH, Agent, PTHypers, TDHypers
from remanence.agents.behaviour import epsilon_greedy, uniform
from remanence.agents.deep import (
    DECAY,
    KEEP,
    REDRAW,
    Consolidation,
    DeepState,
    Forgetting,
    Training,
    deep_agent,
    dqn,
    pt_dqn,
    resetting,
)
from remanence.agents.parts import Parts, alone, side_by_side, two_heads
from remanence.agents.td import CONTROL, PREDICTION
from remanence.errors import UserError
from remanence.lanes import Driver
from remanence.life import Moment, Setting
from remanence.networks import Network, dense, mlp, sequence, tanh
from remanence.probes import Truth, value_error
from remanence.random import make_key
from remanence.replay import draw
from remanence.streams import Stream, cyclic
from remanence.theory import optimal_values
from remanence.truth import corner_grid_truth
from remanence.types import Episodes, Key, Steps, TimeStep, Transition
from remanence.worlds import CornerGrid, SlipperyGrid

INPUTS, ACTIONS, BATCH = 3, 2, 2
LINEAR = mlp((INPUTS,), (), ACTIONS)  # Q(s, a) = s · W[:, a] + b[a]: gradients can be written down
HYPERS = PTHypers(permanent_lr=0.05, transient_lr=0.1, decay=0.5)


def transitions(count: int, seed: int = 0) -> list[Transition]:
    """Random ones. Some end the episode, some only cut it off: those keep their discount."""
    rng = np.random.default_rng(seed)
    made, obs = [], rng.normal(size=INPUTS)
    for t in range(count):
        following = rng.normal(size=INPUTS)
        ended, cut = t % 5 == 2, t % 7 == 3
        made.append(
            Transition(
                jnp.asarray(obs, jnp.float32),
                jnp.int32(rng.integers(ACTIONS)),
                jnp.float32(rng.normal()),
                jnp.float32(0.0 if ended else 0.9),
                jnp.asarray(following, jnp.float32),
                jnp.bool_(ended or cut),
                jnp.bool_(True),
            )
        )
        obs = rng.normal(size=INPUTS) if ended or cut else following
    return made


def feed(agent: Agent, hypers: Any, seen: list[Transition], state: DeepState | None = None) -> DeepState:
    learn = jax.jit(agent.learn)
    now: DeepState = agent.init(make_key(1), hypers) if state is None else state
    for t, transition in enumerate(seen):
        now = learn(now, hypers, transition, jax.random.fold_in(make_key(2), t))
    return now


def tiny_pt_dqn(parts: Parts | None = None, **options: Any) -> Agent:
    settings = {
        "training": Training(batch=BATCH, replay=6, target_period=3),
        "forgetting": Forgetting(DECAY, replay=False, moments=False),
        "consolidation": Consolidation(batch=BATCH, buffer=20, in_order=True, most_batches=None),
        "rhythm": Steps(8),
        **options,
    }
    return deep_agent(
        CONTROL, parts or side_by_side(LINEAR, LINEAR), epsilon_greedy(0.1), np.zeros(INPUTS, np.float32), **settings
    )


def flat(weights: Any) -> np.ndarray:
    return np.concatenate([np.empty(0), *(np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(weights))])


def unpacked(weights: Any) -> tuple[np.ndarray, np.ndarray]:
    matrix, bias = jax.tree.leaves(weights)
    return np.asarray(matrix, np.float64), np.asarray(bias, np.float64)


@pytest.mark.parametrize("cache", [False, True])
def test_algorithm_4_line_by_line(cache: bool) -> None:
    """Eleven steps, a target copied every third, a replay of six; then consolidation in batches of two, and decay."""
    agent = tiny_pt_dqn(
        consolidation=Consolidation(batch=BATCH, buffer=20, in_order=True, most_batches=None, cache=cache)
    )
    born = agent.init(make_key(1), HYPERS)
    big = jax.tree.map(
        lambda leaf: 50 * leaf + 0.1, (born.permanent, born.transient)
    )  # small starts would hide mistakes
    born = born._replace(permanent=big[0], transient=big[1], target=big[1])
    seen = transitions(11)
    state = feed(agent, HYPERS, seen, born)

    P, (T, t_bias) = unpacked(born.permanent), unpacked(born.transient)
    T, t_bias, target = T.copy(), t_bias.copy(), (T.copy(), t_bias.copy())

    def q(weights: tuple[np.ndarray, np.ndarray], s: np.ndarray) -> np.ndarray:
        return s @ weights[0] + weights[1]

    B, D, updates = [], [], 0
    for t, one in enumerate(seen):
        s, a, r, discount, following = (np.asarray(part, np.float64) for part in one[:5])
        B = [*B, (s, int(a), r, discount, following)][-6:]  # line 7
        D.append((s, int(a), q(P, s)[int(a)]))  # line 8
        if len(B) < BATCH:
            continue
        gradient, bias_gradient = np.zeros_like(T), np.zeros_like(t_bias)
        for j in np.asarray(draw(jax.random.fold_in(make_key(2), t), jnp.int32(len(B)), BATCH)):  # line 9
            sj, aj, rj, gamma, nj = B[j]
            y = rj + gamma * (q(P, nj) + q(target, nj)).max() - q(P, sj)[aj]  # line 10
            error = y - q((T, t_bias), sj)[aj]
            gradient[:, aj] += -2 * error * sj / BATCH  # line 11
            bias_gradient[aj] += -2 * error / BATCH
        T, t_bias = T - 0.1 * gradient, t_bias - 0.1 * bias_gradient
        updates += 1
        if updates % 3 == 0:  # line 12
            target = (T.copy(), t_bias.copy())
    np.testing.assert_allclose(flat(state.transient), flat((T, t_bias)), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(flat(state.target), flat(target), rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(flat(state.permanent), flat(born.permanent))  # learning leaves V^P alone

    after = jax.jit(agent.consolidate)(state, HYPERS, key_stub())
    W, b = P[0].copy(), P[1].copy()
    for first in range(0, len(D) - 1, BATCH):  # lines 14 to 16; the eleventh visit fills no batch
        gradient, bias_gradient = np.zeros_like(W), np.zeros_like(b)
        for sj, aj, stored in D[first : first + BATCH]:
            error = stored + q((T, t_bias), sj)[aj] - q((W, b), sj)[aj]
            gradient[:, aj] += -2 * error * sj / BATCH
            bias_gradient[aj] += -2 * error / BATCH
        W, b = W - 0.05 * gradient, b - 0.05 * bias_gradient
    np.testing.assert_allclose(flat(after.permanent), flat((W, b)), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(flat(after.transient), 0.5 * flat(state.transient), rtol=1e-6)  # line 17
    np.testing.assert_array_equal(flat(after.target), flat(state.target))
    assert int(memory.size(after.visited)) == 0  # line 18
    assert int(memory.size(after.replay)) == 6
    if cache:  # what is remembered of V^P is that of the new V^P
        held = after.replay.items
        np.testing.assert_allclose(held["extras"]["permanent"][:6], held["frame"][:6] @ W + b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(held["extras"]["next_permanent"][:6], held["next"][:6] @ W + b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_caching_changes_nothing(optimiser: str) -> None:
    """Three times 20 steps and a consolidation, with and without a cache: the same weights, moments included."""
    states = []
    for cache in (False, True):
        agent = tiny_pt_dqn(
            training=Training(optimiser, batch=4, replay=12, target_period=5),
            consolidation=Consolidation(batch=4, buffer=30, cache=cache),
        )
        state = None
        for part in range(3):
            state = feed(agent, HYPERS, transitions(20, seed=part), state)
            state = jax.jit(agent.consolidate)(state, HYPERS, make_key(part))
        states.append(state)
    for part in ("permanent", "transient", "target", "moments"):
        np.testing.assert_allclose(flat(getattr(states[0], part)), flat(getattr(states[1], part)), rtol=1e-5, atol=1e-7)


def test_a_permanent_part_of_zero_gives_dqn() -> None:
    """The same transient weights, the same batches: bit for bit the update of DQN."""
    training = Training("adam", batch=4, replay=12, target_period=5)
    pt = tiny_pt_dqn(training=training, consolidation=Consolidation(batch=4, buffer=30))
    dqn = deep_agent(CONTROL, alone(LINEAR), epsilon_greedy(0.1), np.zeros(INPUTS, np.float32), training)
    born = pt.init(make_key(1), HYPERS)
    born = born._replace(permanent=jax.tree.map(jnp.zeros_like, born.permanent))
    plain = dqn.init(make_key(1), TDHypers(0.1))._replace(transient=born.transient, target=born.transient)
    ours = feed(pt, HYPERS, transitions(30), born)
    theirs = feed(dqn, TDHypers(0.1), transitions(30), plain)
    np.testing.assert_array_equal(flat(ours.transient), flat(theirs.transient))
    np.testing.assert_array_equal(flat(ours.target), flat(theirs.target))


@pytest.mark.parametrize("problem", [PREDICTION, CONTROL])
def test_on_a_shared_trunk_each_part_keeps_still_while_the_other_learns(problem: Any) -> None:
    """Learning moves trunk and transient head only; consolidation the permanent head only, then the transient head is redrawn."""
    trunk, head = sequence([dense(5, "uniform"), tanh()], (INPUTS,)), sequence([dense(ACTIONS, "uniform")], (5,))
    for weights in (KEEP, REDRAW):
        agent = deep_agent(
            problem,
            two_heads(trunk, head),
            uniform(2),
            np.zeros(INPUTS, np.float32),
            Training(batch=4, replay=20),
            Forgetting(weights),
            Consolidation(batch=4, buffer=20, at_least=10),
            AT_SWITCH,
        )
        born = agent.init(make_key(0), HYPERS)
        state = feed(agent, HYPERS, transitions(12), born)
        np.testing.assert_array_equal(flat(state.permanent), flat(born.permanent))
        assert (flat(state.transient.trunk) != flat(born.transient.trunk)).mean() > 0.5
        assert (flat(state.transient.head) != flat(born.transient.head)).any()
        after = jax.jit(agent.consolidate)(state, HYPERS, make_key(5))
        np.testing.assert_array_equal(flat(after.transient.trunk), flat(state.transient.trunk))
        assert (flat(after.permanent) != flat(state.permanent)).any()
        same = flat(after.transient.head) == flat(state.transient.head)
        assert same.all() if weights == KEEP else not same.all()
        assert int(memory.size(after.replay)) == 0


def test_nothing_is_learned_before_a_batch_is_there_or_while_a_lane_waits() -> None:
    agent = tiny_pt_dqn(training=Training("adam", batch=4, replay=12, target_period=2))
    born = agent.init(make_key(1), HYPERS)
    early = feed(agent, HYPERS, transitions(3), born)
    assert int(early.steps) == 0
    np.testing.assert_array_equal(flat((early.transient, early.moments)), flat((born.transient, born.moments)))
    state = feed(agent, HYPERS, transitions(9), born)
    assert int(state.steps) == 6
    waiting = feed(agent, HYPERS, [transitions(10)[-1]._replace(real=jnp.bool_(False))], state)
    for part in ("transient", "moments", "target", "age", "recent", "steps"):
        np.testing.assert_array_equal(flat(getattr(waiting, part)), flat(getattr(state, part)))
    assert int(waiting.replay.count) == int(state.replay.count)
    assert int(waiting.visited.count) == int(state.visited.count)


def test_stacked_frames_reach_the_network_alike() -> None:
    """What the agent acts on is what it will be trained on: the same stack, from its memory of the episode and from the ring."""
    network = mlp((2 * 3,), (), 2, start="uniform")
    seen: list[np.ndarray] = []

    def spy(weights: Any, obs: Array) -> Array:
        seen.append(np.asarray(obs))
        return network.apply(weights, obs)

    agent = deep_agent(
        CONTROL,
        alone(network._replace(apply=spy)),
        epsilon_greedy(0.0),
        np.zeros(2, bool),
        Training(batch=1, replay=16, frames=3),
    )
    state = agent.init(make_key(0), TDHypers(0.0))
    acted_on = []
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 2, size=(8, 2)).astype(bool)
    for t in range(7):
        last = t == 3
        agent.act(state, TDHypers(0.0), jnp.asarray(frames[t]), key_stub())
        acted_on.append(seen[-1][0])
        step = Transition(
            jnp.asarray(frames[t]), jnp.int32(0), jnp.float32(0), jnp.float32(1), jnp.asarray(frames[t + 1]), jnp.bool_(last),
            jnp.bool_(True),
        )  # fmt: skip
        state = agent.learn(state, TDHypers(0.0), step, key_stub())
    blank = np.zeros(2, bool)
    expected = [[blank] * 2 + [frames[0]], [blank, *frames[:2]], frames[:3], frames[1:4], [blank] * 2 + [frames[4]]]
    for stack, told in zip(acted_on, expected, strict=False):
        np.testing.assert_array_equal(stack, np.concatenate(told))


# ---- small worlds with known values ----


@dataclass(frozen=True)
class OneHot:
    """Another world whose observations are one-hot bits instead of numbers."""

    inner: Any

    @property
    def num_actions(self) -> int:
        return self.inner.num_actions

    @property
    def discount(self) -> float:
        return self.inner.discount

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
    return mlp((states,), (24,), outputs, activation="tanh", start="uniform")


def solver(name: str, problem: Any, outputs: int, states: int, behaviour: Any) -> tuple[Agent, Any]:
    """Every deep contender at a size that learns in seconds."""
    target = 20 if problem is CONTROL else None
    training = Training("adam", batch=32, replay=2000 if name == "large-buffer" else 400, target_period=target)
    make = partial(deep_agent, problem, behaviour=behaviour, example_obs=np.zeros(states, bool), training=training)
    net, plain = network(outputs, states), TDHypers(0.005)
    pt, absorbing = PTHypers(0.003, 0.005), Consolidation("adam", batch=32, buffer=2000, at_least=50)
    trunk, head = sequence([dense(24, "uniform"), tanh()], (states,)), sequence([dense(outputs, "uniform")], (24,))
    return {
        "plain": lambda: (make(alone(net), forgetting=resetting(False), rhythm=AT_SWITCH), plain),
        "dqn-reset": lambda: (
            dqn(net, behaviour, np.zeros(states, bool), training, at_switch=resetting(True)),
            plain,
        ),
        "reset": lambda: (make(alone(net), forgetting=resetting(True), rhythm=AT_SWITCH), plain),
        "large-buffer": lambda: (make(alone(net)), plain),
        "multihead": lambda: (
            dqn(network(2 * outputs, states), behaviour, np.zeros(states, bool), training, resetting(False), heads=2),
            plain,
        ),
        "pt-two-heads": lambda: (
            make(two_heads(trunk, head), forgetting=Forgetting(REDRAW), consolidation=absorbing, rhythm=AT_SWITCH),
            pt,
        ),
        "pt-told": lambda: (
            make(side_by_side(net, net), forgetting=Forgetting(REDRAW), consolidation=absorbing, rhythm=AT_SWITCH),
            pt,
        ),
        "pt-two-networks": lambda: (
            pt_dqn(
                net,
                net,
                behaviour,
                np.zeros(states, bool),
                training,
                dataclasses.replace(absorbing, cache=True),
                Episodes(40),
            ),
            PTHypers(0.003, 0.005, 0.5),
        ),
    }[name]()


@pytest.mark.parametrize("name", ["plain", "dqn-reset", "multihead", "large-buffer", "pt-two-heads", "pt-two-networks"])
def test_every_deep_control_agent_solves_a_maze(name: str) -> None:
    """Two goals of +1 and −1 that swap once: in the end all act as value iteration would, and know what it brings."""
    agent, hypers = solver(name, CONTROL, 4, MAZE.num_states, epsilon_greedy(0.2))
    told = name != "pt-two-networks"
    # A memory that is never emptied still holds the old task for long: it gets one task only.
    order = (0,) if name == "large-buffer" else (0, 1)
    stream = Stream(SWAP, order, Episodes(150), told)
    probe = lambda moment: moment.tally.reward  # noqa: E731
    driver = Driver(Setting(agent, OneHot(MAZE), stream, probe, most_steps=30_000), round_steps=2)
    outcome = driver.run([hypers] * 4, [0, 1, 2, 3])
    best = optimal_values(*MAZE.dynamics(SWAP), MAZE.discount)[order[-1]]
    walked = [MAZE.cell((0, 0)), MAZE.cell((1, 0)), MAZE.cell((1, 1))]
    points = np.eye(MAZE.num_states, dtype=bool)[walked]
    believed = jax.vmap(lambda state: jax.vmap(lambda point: agent.inspect(state, point)["value"])(jnp.asarray(points)))
    values = np.asarray(believed(outcome.agents)).reshape(4, 3, -1, 4)[:, :, -1]  # of the last head, if there are two
    assert (values.argmax(axis=-1) == best[walked].argmax(axis=-1)).mean() >= 11 / 12
    np.testing.assert_allclose(values.max(axis=-1).mean(axis=0), best[walked].max(axis=-1), atol=0.12)


@pytest.mark.parametrize("name", ["plain", "reset", "pt-two-heads", "pt-told"])
def test_every_deep_prediction_agent_learns_true_values(name: str) -> None:
    """The 3×3 grid with corners, two tasks: the error on the live task falls below a fifth of a zero estimate's."""
    agent, hypers = solver(name, PREDICTION, 1, PATCH.num_states, uniform(4))
    truth = corner_grid_truth(PATCH, CORNERS)
    points = np.eye(PATCH.num_states, dtype=bool)
    stream = Stream(CORNERS, cyclic(2, 2), Episodes(150), told=True)
    probe = value_error(agent, Truth(points, truth.values, truth.weights, truth.final))
    driver = Driver(Setting(agent, OneHot(PATCH), stream, probe), round_steps=2)
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

    def kept(moment: Moment) -> Array:
        return jax.vmap(lambda point: agent.inspect(moment.agent, point)["permanent"][0])(points)

    stream = Stream(CORNERS, (0,) * 4, Episodes(80), told=True)
    driver = Driver(Setting(agent, OneHot(PATCH), stream, kept), round_steps=2)
    last = driver.run([PTHypers(permanent_lr, 0.01)] * 2, [0, 1]).record[:, -1]
    error = np.sqrt(((last - truth.values[0])[:, ~truth.final] ** 2).mean())
    size = np.sqrt((truth.values[0][~truth.final] ** 2).mean())
    assert (error < 0.35 * size) == knows


def test_lanes_alone_and_in_company() -> None:
    """1, 2 and 8 lanes: the same curves up to rounding."""
    agent, hypers = solver("pt-two-heads", PREDICTION, 1, PATCH.num_states, uniform(4))
    truth = corner_grid_truth(PATCH, CORNERS)
    points = np.eye(PATCH.num_states, dtype=bool)
    probe = value_error(agent, Truth(points, truth.values, truth.weights, truth.final))
    setting = Setting(agent, OneHot(PATCH), Stream(CORNERS, cyclic(2, 2), Episodes(12), told=True), probe)
    driver = Driver(setting, round_steps=2)
    curves = {n: driver.run([hypers] * n, list(range(n))).record["rmsve_current"] for n in (1, 2, 8)}
    for n in (1, 2):
        np.testing.assert_allclose(curves[n], curves[8][:n], rtol=2e-3, atol=1e-5)
    assert np.ptp(curves[8][:, 5]) > 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"training": Training("rmsprop")}, "unknown optimiser 'rmsprop'"),
        ({"training": Training(batch=0)}, "at least one sample; got 0"),
        ({"training": Training(batch=64, replay=32)}, "holds 32 samples, fewer than a batch of 64"),
        ({"training": Training(target_period=0)}, "every 1 or more steps"),
        ({"training": Training(frames=2)}, r"takes observations of shape \(3,\), but the world gives \(3,\), 2 frames"),
        ({"example_obs": np.zeros(4)}, r"shape \(3,\), but the world gives \(4,\)"),
        ({"forgetting": Forgetting("fade")}, "unknown way to forget 'fade'"),
        ({"consolidation": Consolidation("nadam")}, "unknown optimiser 'nadam'"),
        ({"consolidation": Consolidation(buffer=10)}, "buffer for consolidation holds 10"),
        ({"heads": 3}, "2 outputs cannot be shared equally by 3 heads"),
    ],
)
def test_bad_agents_are_refused_before_anything_compiles(change: dict, complaint: str) -> None:
    good = {
        "problem": CONTROL,
        "parts": alone(LINEAR),
        "behaviour": uniform(2),
        "example_obs": np.zeros(INPUTS),
        "training": Training(),
    }
    with pytest.raises(UserError, match=complaint):
        deep_agent(**{**good, **change})


@pytest.mark.parametrize(
    ("hypers", "complaint"),
    [
        (PTHypers(0.1, 0.1, -0.5), "decay must be a finite number that is not negative; got -0.5"),
        (PTHypers(0.1, 0.1, 1.5), "decay must be between 0 and 1; got 1.5"),
        (PTHypers(0.1, float("nan")), "transient_lr must be a finite number"),
    ],
)
def test_bad_numbers_are_refused_before_anything_compiles(hypers: PTHypers, complaint: str) -> None:
    stream = Stream(np.zeros((1, 2), np.float32), (0,), Steps(8), told=True)
    driver = Driver(Setting(tiny_pt_dqn(), OneHot(MAZE), stream, lambda _: 0.0, window=8))
    with pytest.raises(UserError, match=complaint):
        driver.run([hypers], [0])


def test_a_trunk_that_learns_cannot_be_cached() -> None:
    parts = two_heads(sequence([dense(4)], (INPUTS,)), sequence([dense(2)], (4,)))
    with pytest.raises(UserError, match="cannot be cached"):
        deep_agent(CONTROL, parts, uniform(2), np.zeros(INPUTS), Training(), consolidation=Consolidation(cache=True))
