"""Shares of a consolidation: kept, absorbed and forgotten, in tables and networks; one half-life instead of k and λ."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import key_stub, transition
from remanence.agents import Agent, absorption
from remanence.agents.absorption import BATCHES_PER_ROUND, until_absorbed
from remanence.agents.base import hypers_of, program_of
from remanence.agents.behaviour import epsilon_greedy, uniform
from remanence.agents.configs import KINDS, PTDQN, PTQ, PTTD
from remanence.agents.dqn import DeepState
from remanence.agents.linear import linear, one_hot, row_and_column
from remanence.agents.networks import Dense, Relu
from remanence.agents.pt import PTState, pt_q, pt_td
from remanence.agents.shares import with_fields
from remanence.core.describe import from_json, to_json
from remanence.core.errors import UserError
from remanence.core.masking import LANES
from remanence.core.types import EnvSpec, Episodes, Hypers, ObsSpec, Steps, Transition

# --- tables and linear features ----------------------------------------------------------------------------------------------


def after_visits(agent: Agent, permanent: Any, transient: Any, states: list[int]) -> PTState:
    """A prediction agent with these parts that visited these states and learned nothing."""
    state = agent.init(jax.random.key(0), None)
    state = state._replace(
        permanent=jnp.asarray(permanent, jnp.float32)[:, None], transient=jnp.asarray(transient, jnp.float32)[:, None]
    )
    still = Hypers(transient_lr=0.0)
    for one in states:
        state = agent.learn(state, still, transition(one, 0, one), key_stub())
    return state


def test_shares_of_a_table_by_hand() -> None:
    """a = λ = 1/4, in every state, visited or not: 1 + 0.5/4, 2 − 0.5/4; 0.5/4, −0.5/4."""
    agent = pt_td(linear(one_hot(2)), uniform(2), absorbs=True)
    state = after_visits(agent, [1, 2], [0.5, -0.5], [0, 0])
    state = agent.consolidate(state, Hypers(absorb=0.25, decay=0.25), key_stub(), True)
    assert state.permanent[:, 0].tolist() == [1.125, 1.875]
    assert state.transient[:, 0].tolist() == [0.125, -0.125]
    assert not state.visited.any()


def test_shares_of_linear_features_are_those_of_every_value() -> None:
    """w^P + a w^T is V^P + a V^T in every state of the 3×3 grid, visited or not."""
    value = linear(row_and_column(3))
    agent = pt_td(value, uniform(2), jnp.int32(0), buffer=4, absorbs=True)
    rng = np.random.default_rng(0)
    state = after_visits(agent, rng.normal(size=6), rng.normal(size=6), [4])
    after = agent.consolidate(state, Hypers(absorb=0.3, decay=0.5), key_stub(), True)
    for cell in range(9):
        before, now = (agent.inspect(one, jnp.int32(cell)) for one in (state, after))
        np.testing.assert_allclose(now["permanent"], before["permanent"] + 0.3 * before["transient"], rtol=1e-5)
        np.testing.assert_allclose(now["transient"], 0.5 * before["transient"], rtol=1e-5)


@given(
    parts=st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8)), min_size=3, max_size=3),
    visits=st.lists(st.integers(0, 2), max_size=3),
    eighths=st.integers(0, 8),
)
def test_nothing_forgotten_leaves_the_sum(parts: list[tuple[int, int]], visits: list[int], eighths: int) -> None:
    """a + λ = 1, in numbers that floats hold exactly."""
    agent = pt_td(linear(one_hot(3)), uniform(2), absorbs=True)
    permanent, transient = zip(*parts, strict=True)
    state = after_visits(agent, permanent, transient, visits)
    after = agent.consolidate(state, Hypers(absorb=eighths / 8, decay=1 - eighths / 8), key_stub(), True)
    before, now = (np.asarray(one.permanent + one.transient)[:, 0] for one in (state, after))
    assert np.array_equal(before, now)


def largest_value(absorb: float, decay: float) -> float:
    """Of Q-learning in one state where every action pays 1 and γ = 0.9: the value is 10 and can never be more."""
    agent = pt_q(linear(one_hot(1), 2), epsilon_greedy(0.1), consolidate_every=Steps(1), absorbs=True)
    hypers = Hypers(transient_lr=0.5, absorb=absorb, decay=decay)

    def live(state: PTState, t: jax.Array) -> tuple[PTState, jax.Array]:
        seen = transition(0, 1, 0, discount=0.9)._replace(action=t % 2)
        state = agent.learn(state, hypers, seen, key_stub())
        largest = jnp.max(state.permanent + state.transient)
        return agent.consolidate(state, hypers, key_stub(), True), largest

    start = agent.init(jax.random.key(0), None)
    return float(jax.lax.scan(live, start, jnp.arange(400))[1].max())


@pytest.mark.parametrize(("absorb", "decay"), [(0.5, 0.5), (0.1, 0.5), (0.0, 0.9), (1.0, 0.0)])
def test_values_stay_possible_if_shares_add_up_to_at_most_one(absorb: float, decay: float) -> None:
    assert largest_value(absorb, decay) <= 10.0001


def test_values_grow_beyond_what_rewards_allow_if_they_add_up_to_more() -> None:
    assert largest_value(0.5, 0.9) > 10.5


# --- configurations ------------------------------------------------------------------------------------------------------------


def test_a_half_life_decides_interval_decay_and_share() -> None:
    table = PTQ(transient_half_life=160)
    assert table.consolidate_every == 10
    assert table.decay == pytest.approx(2 ** (-1 / 16))
    assert hypers_of(table).decay ** (160 / 10) == pytest.approx(0.5)
    assert table.absorb == pytest.approx((1 - hypers_of(table).decay) / 10)
    assert PTTD(transient_half_life=Episodes(32)).consolidate_every == Episodes(2)
    assert PTTD(transient_half_life=Episodes(3)).consolidate_every == Episodes(1)
    assert PTQ(transient_half_life=1).decay == PTTD(transient_half_life=Episodes(1)).decay == 0.5
    assert PTQ(transient_half_life=100, consolidate_every=Steps(50)).decay == pytest.approx(0.5**0.5)
    given = PTQ(transient_half_life=Episodes(10), absorb=0.01)
    assert (given.absorb, given.decay) == (0.01, pytest.approx(0.5**0.1))


def test_a_deep_agent_consolidates_as_often_as_is_cheap() -> None:
    """An eighth of the half-life, an eighth of the replay buffer, a batch: the longest; but no longer than the half-life."""
    assert PTDQN(transient_half_life=80_000).consolidate_every == 10_000
    assert PTDQN(transient_half_life=4_000).consolidate_every == 1_250
    assert PTDQN(transient_half_life=1_000).consolidate_every == 1_000
    assert PTDQN(transient_half_life=10).consolidate_every == 64
    assert PTDQN(transient_half_life=Episodes(80)).consolidate_every == Episodes(10)
    deep = PTDQN(transient_half_life=80_000)
    assert (deep.decay_output, deep.reinit, deep.in_order, deep.permanent_optimizer) == (True, False, False, "adam")
    assert deep.absorb + deep.decay < 1  # type: ignore[operator]


def test_without_a_half_life_defaults_are_the_papers() -> None:
    deep = PTDQN(transient_half_life=None)
    assert (deep.absorb, deep.decay_output, deep.in_order, deep.consolidate_every) == (None, False, True, 5_000)
    assert deep.permanent_optimizer == "sgd"
    assert (PTQ().consolidate_every, PTQ().absorb, PTTD().consolidate_every, PTTD().decay) == (1_000, None, None, 0.0)
    assert vars(hypers_of(PTQ())).keys() == {"permanent_lr", "transient_lr", "decay"}


@pytest.mark.parametrize(
    "given", [{"decay": 0.75}, {"consolidate_every": 5_000}, {"transient_half_life": None}], ids=str
)
def test_a_deep_agent_has_a_half_life_unless_it_is_told_how_to_forget(given: dict[str, Any]) -> None:
    assert PTDQN() == PTDQN(transient_half_life=5_000)
    assert PTDQN(**given) == PTDQN(decay=0.75, consolidate_every=5_000, permanent_optimizer="sgd")
    assert PTDQN(absorb=0.1).transient_half_life is None
    assert PTDQN(reinit=True).transient_half_life is PTDQN(decay_output=False).transient_half_life is None
    assert with_fields(PTDQN(), **given) == PTDQN(**given)
    assert with_fields(PTDQN(**given), absorb=0.1) == PTDQN(absorb=0.1)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: PTQ(transient_half_life=100, decay=0.5), "give transient_half_life or decay, not both"),
        (lambda: PTQ(transient_half_life=100, consolidate_every=Episodes(5)), "give both in the same unit"),
        (lambda: PTQ(transient_half_life=Episodes(5), consolidate_every=10), "give both in the same unit"),
        (lambda: PTQ(transient_half_life=100, consolidate_every=None), "not at task boundaries"),
        (lambda: PTQ(transient_half_life=0), "transient_half_life must be at least 1"),
        (lambda: PTQ(transient_half_life=Episodes(0)), "transient_half_life must be at least 1"),
        (
            lambda: PTQ(transient_half_life="long"),  # type: ignore[arg-type]
            "transient_half_life must be int or Steps or Episodes or None",
        ),
        (lambda: PTQ(absorb=0.6), "absorb at most 0.5"),
        (lambda: PTQ(absorb=1.5), "absorb must be between 0 and 1"),
        (lambda: PTTD(absorb=0.3, decay=0.8), "add up to more than 1"),
        (
            lambda: PTQ(consolidate_every="always"),  # type: ignore[arg-type]
            "consolidate_every must be",
        ),
        (lambda: PTDQN(absorb=0.5), "absorb at most 0.25"),
        (lambda: PTDQN(absorb=0.1, in_order=True), "drawn at random"),
        (lambda: PTDQN(transient_half_life=5_000, reinit=True), "omit reinit and decay_output"),
        (lambda: PTDQN(transient_half_life=5_000, decay_output=False), "omit reinit and decay_output"),
        (lambda: PTQ(transient_half_life=100, permanent_lr=0.0), r"give absorb=0\.0$"),
        (lambda: PTDQN(absorb=0.1, permanent_lr=0.0), r"give absorb=0\.0$"),
        (lambda: PTDQN(decay=0.75, consolidate_every=Steps(20)), "do not fill a batch"),
    ],
)
def test_contradictions_are_refused_in_one_sentence(make: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        make()


@pytest.mark.parametrize("config", [PTQ(transient_half_life=Episodes(24)), PTDQN(transient_half_life=9_000)])
def test_a_settled_configuration_is_written_read_and_changed(config: Any) -> None:
    assert from_json(json.loads(json.dumps(to_json(config))), KINDS) == config
    assert dataclasses.replace(config, transient_lr=0.25).decay == config.decay
    longer = type(config.transient_half_life)(240) if isinstance(config.transient_half_life, Episodes) else 240_000
    changed = with_fields(config, transient_half_life=longer)
    assert changed == type(config)(transient_half_life=longer)
    assert with_fields(config, absorb=0.001) == type(config)(
        transient_half_life=config.transient_half_life, absorb=0.001
    )
    different = [
        one.name for one in dataclasses.fields(config) if getattr(config, one.name) != getattr(changed, one.name)
    ]
    assert (
        with_fields(config, **{name: getattr(changed, name) for name in different}) == changed
    )  # as a report prints it


def test_a_share_given_after_the_defaults_settles_what_depends_on_it() -> None:
    assert with_fields(PTDQN(), absorb=0.1) == PTDQN(absorb=0.1)
    assert with_fields(PTQ(consolidate_every=Episodes(5)), transient_half_life=Episodes(10)) == PTQ(
        consolidate_every=Episodes(5), transient_half_life=Episodes(10)
    )


def test_agents_with_and_without_a_share_are_different_programs() -> None:
    assert program_of(PTQ()) != program_of(PTQ(absorb=0.1))
    assert program_of(PTQ(absorb=0.2)) == program_of(PTQ(absorb=0.1))


# --- networks ------------------------------------------------------------------------------------------------------------------

SPEC = EnvSpec(ObsSpec((3,), "float32"), num_actions=2, discount=0.9)
SMALL: dict[str, Any] = {"hidden": (32,), "batch": 16, "replay": 400, "target_every": 50, "transient_lr": 0.01}


def lived(config: PTDQN, seeds: list[int], actions: int = 2) -> tuple[Agent, Hypers, DeepState]:
    """Lanes that learned from 400 random transitions with the first actions in turn, mapped as the engine maps them."""
    agent, hypers = config.build(SPEC), hypers_of(config)

    def life(seed: jax.Array) -> DeepState:
        def step(state: DeepState, t: jax.Array) -> tuple[DeepState, None]:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), t), 3)
            obs, next_obs = jax.random.normal(keys[0], (2, 3))
            seen = Transition(
                obs, t % actions, obs[0] + 2, jnp.float32(0.9), next_obs, jnp.bool_(False), jnp.bool_(True)
            )
            return agent.learn(state, hypers, seen, keys[2]), None

        return jax.lax.scan(step, agent.init(jax.random.key(seed), hypers), jnp.arange(400))[0]

    return agent, hypers, jax.jit(jax.vmap(life, axis_name=LANES))(jnp.asarray(seeds))


def parts_on_visits(agent: Agent, state: DeepState, at: DeepState) -> tuple[np.ndarray, np.ndarray]:
    """V^P and V^T of `state` on the states that `at` visited, each [lanes, n]."""

    def one(state: DeepState, at: DeepState) -> Any:
        assert agent.visited is not None
        seen = agent.visited(at)
        values = jax.vmap(lambda obs: agent.inspect(state, obs))(seen.obs)
        return tuple(values[part][jnp.arange(len(seen.output)), seen.output] for part in ("permanent", "transient"))

    permanent, transient = jax.vmap(one)(state, at)
    return np.asarray(permanent, np.float64), np.asarray(transient, np.float64)


def consolidated(agent: Agent, hypers: Hypers, state: DeepState) -> DeepState:
    return jax.jit(jax.vmap(lambda one: agent.consolidate(one, hypers, jax.random.key(5), True), axis_name=LANES))(
        state
    )


@pytest.mark.parametrize(
    "options",
    [
        {"absorb": 0.25, "permanent_optimizer": "sgd"},
        {"absorb": 0.01, "permanent_optimizer": "sgd", "permanent_lr": 10.0},  # a first step size that is far too large
        {"absorb": 0.25, "permanent_lr": 1e-3},
        {"absorb": 0.25, "trunk": (Dense(16, "uniform"), Relu())},
    ],
    ids=["sgd", "small share", "adam", "trunk"],
)
def test_a_network_absorbs_the_share_that_it_is_told(options: dict[str, Any]) -> None:
    """In both lanes; V^T is multiplied by λ exactly, in the target network too; with a + λ = 1 the sum hardly moves."""
    config = PTDQN(**SMALL, decay=0.75, consolidate_every=400, max_batches=400, **options)
    agent, hypers, state = lived(config, [1, 2])
    after = consolidated(agent, hypers, state)
    (permanent, transient), (new_permanent, new_transient) = (
        parts_on_visits(agent, one, state) for one in (state, after)
    )
    assert np.abs(transient).mean() > 3
    shares = ((new_permanent - permanent) * transient).sum(axis=1) / (transient**2).sum(axis=1)
    np.testing.assert_allclose(shares, config.absorb, rtol=0.051)  # type: ignore[arg-type]
    np.testing.assert_allclose(new_transient, 0.75 * transient, rtol=1e-4, atol=1e-4)
    old_target, new_target = (
        parts_on_visits(agent, one._replace(transient=one.target), state)[1] for one in (state, after)
    )
    np.testing.assert_allclose(new_target, 0.75 * old_target, rtol=1e-4, atol=1e-4)
    jump = new_permanent + new_transient - permanent - transient
    expected = np.sqrt(np.mean(((config.absorb - 0.25) * transient) ** 2))  # type: ignore[operator]
    assert np.sqrt(np.mean(jump**2)) < expected + 0.1 * np.sqrt(np.mean(transient**2))


@pytest.mark.parametrize(
    ("options", "decays"),
    [({"decay_output": True}, True), ({"absorb": 0.0, "decay_output": False}, True), ({"decay_output": False}, False)],
    ids=["its output", "with a share", "the paper's form"],
)
def test_when_the_target_network_decays_at_once(options: dict[str, Any], decays: bool) -> None:
    agent, hypers, state = lived(PTDQN(**SMALL, decay=0.5, consolidate_every=400, **options), [1])
    after = consolidated(agent, hypers, state)
    old, new = (parts_on_visits(agent, one._replace(transient=one.target), state)[1] for one in (state, after))
    assert (np.abs(new).mean() < 0.6 * np.abs(old).mean()) == decays


def test_a_shared_trunk_does_not_decay() -> None:
    """V^P is computed from it: an agent that never consolidates keeps its V^P."""
    trunk = (Dense(16, "uniform"), Relu())
    agent, hypers, state = lived(PTDQN(**SMALL, decay=0.5, consolidate_every=400, permanent_lr=0.0, trunk=trunk), [1])
    after = consolidated(agent, hypers, state)
    (permanent, transient), (new_permanent, new_transient) = (
        parts_on_visits(agent, one, state) for one in (state, after)
    )
    np.testing.assert_array_equal(new_permanent, permanent)
    assert 0 < np.abs(new_transient).mean() < np.abs(transient).mean()


def test_a_consolidation_with_fewer_visits_than_a_batch_learns_from_them() -> None:
    config = PTDQN(hidden=(8,), batch=16, replay=64, decay=0.5, permanent_lr=0.1, consolidate_every=Episodes(1))
    agent, hypers = config.build(SPEC), hypers_of(config)
    state = agent.init(jax.random.key(0), hypers)
    obs = jnp.ones(3)
    for _ in range(3):
        seen = Transition(obs, jnp.int32(1), jnp.float32(1), jnp.float32(0.9), obs, jnp.bool_(False), jnp.bool_(True))
        state = agent.learn(state, hypers, seen, key_stub())
    before, after = agent.inspect(state, obs), agent.inspect(agent.consolidate(state, hypers, key_stub(), True), obs)
    moved = after["permanent"] - before["permanent"]
    assert moved[1] * before["transient"][1] > 0  # towards V^P + V^T, for the action that was taken


def fitted(lr: float, helps_below: float, rounds: int) -> tuple[float, float]:
    """What is absorbed of the share 1, where rounds help whose step size is below a limit, and the step size for next time."""

    def step(i: jax.Array, network: jax.Array, ready: jax.Array, lr: jax.Array) -> jax.Array:
        del i
        return network + jnp.where(ready, jnp.where(lr < helps_below, lr, -lr), 0.0) / BATCHES_PER_ROUND

    def measure(network: jax.Array) -> tuple[jax.Array, jax.Array]:
        return network, jnp.abs(1 - network)

    def lane(lr: jax.Array) -> tuple[jax.Array, jax.Array]:
        return until_absorbed(jnp.float32(0), lr, jnp.float32(0.01), jnp.int32(rounds), step, measure, True)

    absorbed, found = jax.vmap(lane, axis_name=LANES)(jnp.asarray([lr], jnp.float32))
    return float(absorbed[0]), float(found[0])


def test_the_next_fit_begins_with_twice_the_largest_step_size_that_helped() -> None:
    absorbed, found = fitted(0.01, helps_below=0.1, rounds=200)
    assert absorbed == pytest.approx(1, abs=0.05)
    assert found == pytest.approx(0.16)
    one_round = [fitted(lr, helps_below=0.1, rounds=1) for lr in (0.01, 0.02, 0.04, 0.08, 0.16)]
    assert [found for _, found in one_round] == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.04])


def test_a_fit_that_never_came_closer_does_not_end_the_search_for_a_step_size() -> None:
    absorbed, found = fitted(0.01, helps_below=0.0, rounds=3)
    assert (absorbed, found) == (0, pytest.approx(0.01 / 4**3))  # the next one goes on from here
    absorbed, found = fitted(found, helps_below=0.0, rounds=200)
    assert (absorbed, found) == (0, pytest.approx(0.01))  # and begins again, where it would end at 0
    absorbed, _ = fitted(found, helps_below=0.1, rounds=200)
    assert absorbed == pytest.approx(1, abs=0.05)


def permanent_after(**options: Any) -> list[np.ndarray]:
    """The permanent weights after a consolidation of two lanes; 400 visits, batches of 16."""
    state = consolidated(*lived(PTDQN(**SMALL, decay=0.75, absorb=0.25, consolidate_every=400, **options), [1, 2]))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state.permanent)]


def test_absorption_stops_when_the_share_is_absorbed() -> None:
    """Four times as many batches, which are not needed, change nothing; a single round does not suffice."""
    enough, more, few = (permanent_after(max_batches=most) for most in (400, 1600, BATCHES_PER_ROUND))
    assert all(map(np.array_equal, enough, more))
    assert not any(map(np.array_equal, enough, few))


def test_how_many_batches_an_absorption_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is never good enough: four passes, 100 batches, in full rounds of 8; more if `min_batches` says so."""
    monkeypatch.setattr(absorption, "TOLERANCE", 0.0)
    usual, more = permanent_after(), permanent_after(min_batches=200)
    for found, batches in ((usual, 96), (more, 200)):
        assert all(map(np.array_equal, found, permanent_after(max_batches=batches)))
    assert not any(map(np.array_equal, usual, more))


def test_a_network_absorbs_what_is_the_opposite_of_before() -> None:
    """As if tasks were opposite: a consolidation begins without momentum from the last one."""
    config = PTDQN(**SMALL, decay=0.75, absorb=0.2, consolidate_every=400, permanent_lr=1e-3)
    agent, hypers, state = lived(config, [1, 2])
    *hidden, last = state.transient
    assert state.permanent_opt_state == ()
    for sign in (1, -1, -1, 1):
        opposite = jax.tree.map(lambda weights, sign=sign: sign * weights, last)
        state = state._replace(transient=[*hidden, opposite])
        after = consolidated(agent, hypers, state)
        (permanent, transient), (new_permanent, _) = (parts_on_visits(agent, one, state) for one in (state, after))
        shares = ((new_permanent - permanent) * transient).sum(axis=1) / (transient**2).sum(axis=1)
        np.testing.assert_allclose(shares, 0.2, rtol=0.1)
        state = after


def test_a_share_is_absorbed_for_actions_that_were_not_taken_too() -> None:
    """V^T decays for all actions of a state. If V^P absorbed only that of the action taken, the others would lose their value.

    The share is that of all actions together; that of the action which is never taken is near it (0.02 if it is left out).
    """
    config = PTDQN(**SMALL, decay=0.75, absorb=0.25, consolidate_every=400, max_batches=400, permanent_optimizer="sgd")
    agent, hypers, state = lived(config, [1, 2], actions=1)
    after = consolidated(agent, hypers, state)

    def values(one: DeepState, at: DeepState) -> dict[str, jax.Array]:
        assert agent.visited is not None
        return jax.vmap(lambda obs: agent.inspect(one, obs))(agent.visited(at).obs)

    def shares(*actions: int) -> np.ndarray:
        transient, old, new = (
            np.asarray(table[..., actions], np.float64)
            for table in (before["transient"], before["permanent"], then["permanent"])
        )
        return ((new - old) * transient).sum(axis=(1, 2)) / (transient**2).sum(axis=(1, 2))

    before, then = (jax.vmap(values)(one, state) for one in (state, after))
    np.testing.assert_allclose(shares(0, 1), 0.25, rtol=0.1)
    np.testing.assert_allclose(shares(1), 0.25, rtol=0.35)


def test_a_share_of_nothing_leaves_the_permanent_network() -> None:
    agent, hypers, state = lived(PTDQN(**SMALL, absorb=0.0, consolidate_every=400), [1])
    after = consolidated(agent, hypers, state)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), after.permanent, state.permanent))


def test_a_transient_network_whose_output_is_zero_learns_again() -> None:
    agent, hypers, state = lived(PTDQN(**SMALL, absorb=0.5, decay=0.0, consolidate_every=400), [1])
    after = consolidated(agent, hypers, state)
    assert not parts_on_visits(agent, after, state)[1].any()
    seen = Transition(
        jnp.ones(3), jnp.int32(0), jnp.float32(1), jnp.float32(0.9), jnp.ones(3), jnp.bool_(False), jnp.bool_(True)
    )
    learned = jax.vmap(lambda one: agent.learn(one, hypers, seen, jax.random.key(9)))(after)
    assert np.abs(parts_on_visits(agent, learned, state)[1]).min() > 0
