"""Whole lives of Q-learning and PT-Q: equivalences between forms, and the exact optimum. By hand: tests/unit/test_q.py."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import transition
from remanence.agents import AT_SWITCH, Agent, pt_q, q_learning, random_agent
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.linear import linear, one_hot
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import Episodes, Hypers, Steps, Transition
from remanence.engine.lanes import Driver, Outcome
from remanence.engine.life import LifeConfig
from remanence.engine.probes import episode_return, value_maps
from remanence.streams import Stream, cyclic
from remanence.theory import optimal_values
from remanence.worlds import SlipperyGrid

GRID = SlipperyGrid()
TASKS = np.array([[1, -1], [-1, 1]], np.float32)
SEGMENT_LENGTH, SEGMENTS = 8, 4
Q = linear(one_hot(GRID.num_states), outputs=4)
GREEDY = epsilon_greedy(0.1)
OPTIMUM = optimal_values(*GRID.dynamics(TASKS), GRID.discount)


@cache
def program(agent: Agent, boundaries_known: bool) -> Driver:
    stream = Stream(TASKS, cyclic(2, SEGMENTS), Episodes(SEGMENT_LENGTH), boundaries_known)
    best = OPTIMUM.max(axis=-1)[:, GRID.cell(GRID.start)]
    returns, maps = episode_return(best), value_maps(agent, np.arange(GRID.num_states))
    return Driver(
        LifeConfig(agent, GRID, stream, lambda probe_input: {**returns(probe_input), "maps": maps(probe_input)})
    )


def live(agent: Agent, hypers: Hypers, boundaries_known: bool = False, seeds: int = 5) -> Outcome:
    return program(agent, boundaries_known).run([hypers] * seeds, range(seeds))


def pt(consolidate_every: Any = AT_SWITCH, **options: Any) -> Agent:
    return pt_q(Q, GREEDY, np.int16(0), None, consolidate_every, **options)


PLAIN = q_learning(Q, GREEDY)
SEMI = pt()


def test_random_agent_ignores_what_happens() -> None:
    agent = random_agent(4)
    state = agent.init(make_key(0), Hypers())
    assert agent.learn(state, Hypers(), transition(0, 1.0, 2), make_key(1)) is state
    outcome = live(agent, Hypers())
    assert np.isfinite(outcome.record["discounted_return"]).all()


def same(left: Any, right: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, left, right)))


def test_continual_with_the_interval_of_the_stream_is_semi_continual() -> None:
    """λ = 0 and k = task length (paper, §6), bitwise."""
    hypers = Hypers(permanent_lr=0.05, transient_lr=0.5, decay=0.0)
    known, unknown = live(SEMI, hypers, boundaries_known=True), live(pt(Episodes(SEGMENT_LENGTH)), hypers)
    assert same(known.record, unknown.record)
    assert known.record["maps"]["permanent"][:, -1].any()


def test_without_permanent_steps_and_decay_it_is_q_learning() -> None:
    """Permanent step 0 and λ = 1, bitwise, whatever the rhythm."""
    plain = live(PLAIN, Hypers(lr=0.5))
    for consolidate_every in (Episodes(3), Steps(10)):
        composed = live(pt(consolidate_every), Hypers(permanent_lr=0.0, transient_lr=0.5, decay=1.0))
        assert same(plain.record["discounted_return"], composed.record["discounted_return"])
        assert same(plain.record["maps"]["value"], composed.record["maps"]["value"])


def test_consolidating_before_the_episode_is_one_episode_early() -> None:
    """`lead` 1 consolidates when (episode + 1) % k = 0, as the released code does."""
    maps = live(pt(Episodes(3, lead=1)), Hypers(permanent_lr=0.5, transient_lr=0.5, decay=0.5)).record["maps"][
        "permanent"
    ]  # after each episode
    moved = np.abs(np.diff(maps, axis=1)).max(axis=(0, 2, 3)) > 0
    # seen after episode e (from 0), a change means a consolidation before it: e = 2, 5, 8, …
    np.testing.assert_array_equal(np.flatnonzero(moved) + 1, np.arange(2, SEGMENT_LENGTH * SEGMENTS, 3))


def test_regret_is_what_is_missing_to_the_optimum() -> None:
    record = live(PLAIN, Hypers(lr=0.5)).record
    best = OPTIMUM.max(axis=-1)[:, GRID.cell(GRID.start)]
    task = np.repeat(cyclic(2, SEGMENTS), SEGMENT_LENGTH)
    np.testing.assert_allclose(
        record["regret"] + record["discounted_return"],
        np.broadcast_to(best[task], record["discounted_return"].shape),
        rtol=1e-5,
    )
    discounted = np.sign(record["return"]) * GRID.discount ** (record["steps"] - 1)
    np.testing.assert_allclose(record["discounted_return"], discounted, rtol=1e-4)


@pytest.mark.parametrize("composed", [False, True])
def test_the_exact_optimum_is_reached_on_a_fixed_task(composed: bool) -> None:
    """With a step size that shrinks from stage to stage, q(s, a) along the way to the goal comes within 0.02 of value iteration.

    PT-Q learns the same in its sum while it consolidates: what leaves the transient part enters the permanent one.
    """
    agent = (
        pt_q(Q, epsilon_greedy(0.5), np.int16(0), 2**16, Episodes(50))
        if composed
        else q_learning(Q, epsilon_greedy(0.5))
    )
    worlds = 32
    stages = [0.5, 0.2, 0.05, 0.01]
    hypers = [Hypers(permanent_lr=1.0, transient_lr=lr, decay=0.0) if composed else Hypers(lr=lr) for lr in stages]
    state = jax.vmap(lambda key: agent.init(key, hypers[0]))(jax.random.split(make_key(0), worlds))
    task = jnp.asarray(TASKS[0])

    def step(carry: Any, key: Any, hyper: Hypers) -> Any:
        state, cell = carry
        k_act, k_step, k_reset = jax.random.split(key, 3)
        action = agent.act(state, hyper, cell, k_act)
        after, seen = GRID.step(k_step, cell, action, task)
        made = Transition(cell, action, seen.reward, seen.discount, seen.obs, seen.last, jnp.bool_(True))
        state = agent.learn(state, hyper, made, k_learn := k_reset)
        # Exploring starts: every action of every state is tried often.
        fresh = jax.random.randint(k_learn, (), 0, GRID.num_states)
        return state, jnp.where(seen.last, fresh, after)

    cells = jnp.zeros(worlds, jnp.int32)
    for number, hyper in enumerate(hypers):
        keys = jax.random.split(make_key(number + 1), (20_000, worlds))
        run = jax.jit(
            lambda state, cells, keys, hyper=hyper: jax.lax.scan(
                lambda carry, key: (jax.vmap(lambda c, k: step(c, k, hyper))(carry, key), None), (state, cells), keys
            )[0]
        )
        state, cells = run(state, cells, keys)
        if composed:
            state = jax.vmap(lambda one, hyper=hyper: agent.consolidate(one, hyper, make_key(0), True))(state)
    learned = np.mean(
        jax.vmap(lambda one: jax.vmap(lambda s: agent.inspect(one, s)["value"])(jnp.arange(36)))(state), axis=0
    )
    inside = np.array([s for s in range(36) if s not in {GRID.cell(place) for place in (*GRID.walls, *GRID.goals)}])
    np.testing.assert_allclose(learned[inside].max(axis=-1), OPTIMUM[0][inside].max(axis=-1), atol=0.02)


# --- The world and its optimum ---------------------------------------------------------------------------------------------


def test_value_iteration_by_hand() -> None:
    """Two states in a row, the second ends the process: stay (reward 0) or go (reward 1) from the first, γ = 0.5."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = 1.0  # stay
    q = optimal_values(transitions, np.array([[0.0, 1.0], [0.0, 0.0]]), 0.5)
    np.testing.assert_allclose(q, [[0.5, 1.0], [0.0, 0.0]])


def test_optimum_satisfies_bellman_and_mirrors_between_tasks() -> None:
    transitions, rewards = GRID.dynamics(TASKS)
    target = rewards + GRID.discount * np.einsum("san,tn->tsa", transitions, OPTIMUM.max(axis=-1))
    np.testing.assert_allclose(OPTIMUM, target, atol=1e-10)
    assert OPTIMUM.max() <= 1.0
    # The nearer goal (5, 4) is worth more from the start than the corner behind it.
    start = GRID.cell(GRID.start)
    assert OPTIMUM[1, start].max() > OPTIMUM[0, start].max() > 0.5


def test_dynamics_agree_with_the_simulator() -> None:
    """Frequencies of where 4000 steps lead, from every cell and action, against the transition matrix."""
    transitions, rewards = GRID.dynamics(TASKS)
    keys = jax.random.split(make_key(7), 4_000)
    cells, actions = np.divmod(np.arange(36 * 4), 4)
    simulate = jax.jit(
        jax.vmap(lambda c, a: jax.vmap(lambda k: GRID.step(k, c, a, jnp.asarray(TASKS[0])))(keys), in_axes=(0, 0))
    )
    led, seen = simulate(jnp.asarray(cells), jnp.asarray(actions))
    off_limits = {GRID.cell(place) for place in (*GRID.walls, *GRID.goals)}
    for row, (cell, action) in enumerate(zip(cells, actions, strict=True)):
        if cell in off_limits:
            continue
        frequency = np.bincount(led[row], minlength=36) / len(keys)
        np.testing.assert_allclose(frequency, transitions[cell, action], atol=0.02)
        assert float(seen.reward[row].mean()) == pytest.approx(rewards[0, cell, action], abs=0.02)


def test_walls_edges_and_goals() -> None:
    table = GRID.successors
    assert table[GRID.cell((0, 2)), 3] == GRID.cell((0, 2))  # right into the wall at (1, 2)
    assert table[GRID.cell((0, 0)), 1] == GRID.cell((0, 0))  # down over the edge
    assert table[GRID.cell((0, 0)), 0] == GRID.cell((0, 1))
    lucky = SlipperyGrid(slip=0.0)
    _, seen = lucky.step(make_key(0), jnp.int32(lucky.cell((4, 5))), jnp.int32(3), jnp.asarray(TASKS[1]))
    assert (float(seen.reward), bool(seen.last), float(seen.discount)) == (-1.0, True, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "at least one cell"),
        ({"slip": 1.2}, "slip probability"),
        ({"goals": ((9, 9),)}, "outside"),
        ({"walls": ((0, 0),)}, "different cells"),
    ],
)
def test_impossible_grids_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SlipperyGrid(**options)


def test_a_few_long_lives_go_on_in_a_smaller_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 lanes of which some never learn: they outlive the rest by far, and still live as they do alone."""
    stream = Stream(TASKS[:1], (0,), Episodes(30), boundaries_known=False)
    driver = Driver(LifeConfig(PLAIN, GRID, stream, episode_return(np.zeros(2))), rounds_per_break=20)
    hypers = [Hypers(lr=0.0 if lane % 32 == 5 else 0.5) for lane in range(256)]
    sizes: list[int] = []
    advance = driver.advance_rows

    def watched(batch: Any, carry: Any, rounds: Any) -> Any:
        sizes.append(len(carry.life.step))
        return advance(batch, carry, rounds)

    monkeypatch.setattr(driver, "advance_rows", watched)
    together = driver.run(hypers, range(256))
    assert sorted(set(sizes)) == [16, 64, 256]
    some = [4, 5, 37, 255]
    alone = driver.run([hypers[lane] for lane in some], some)
    for name, curve in alone.record.items():
        np.testing.assert_allclose(curve, together.record[name][some], rtol=1e-5, err_msg=name)


def test_a_batch_that_is_too_small_for_all_takes_them_in_turn() -> None:
    """Who finishes makes room for the next lane, and every lane lives as it does when all live at once."""
    stream = Stream(TASKS, (0, 1), Episodes(6), boundaries_known=False)
    driver = Driver(LifeConfig(pt(Episodes(2)), GRID, stream, episode_return(np.zeros(2))), rounds_per_break=5)
    hypers, seeds = [Hypers(permanent_lr=0.1, transient_lr=0.5, decay=0.5)] * 25, range(25)
    together = driver.run(hypers, seeds)
    in_turn: dict[int, Outcome] = {}
    for some in driver.iter_finished(hypers, seeds, at_once=6):
        assert not in_turn.keys() & some.keys()
        in_turn |= some
    assert sorted(in_turn) == list(seeds)
    for lane, outcome in in_turn.items():
        np.testing.assert_allclose(
            outcome.record["discounted_return"], together.record["discounted_return"][lane], rtol=1e-5
        )
        assert outcome.steps == together.steps[lane]


def test_a_lane_that_needs_too_many_steps_is_stopped_and_seen_as_such() -> None:
    """It stops at the same instant however the run is cut, and what it did not live is not a number."""
    stream = Stream(TASKS, (0, 1), Episodes(50), boundaries_known=False)
    config = LifeConfig(PLAIN, GRID, stream, episode_return(np.zeros(2)), max_steps=5_000)
    hypers = [Hypers(lr=0.0), Hypers(lr=0.5)]  # the first walks at random and needs about a hundred steps per episode
    whole, cut = (Driver(config, rounds_per_chunk=rounds).run(hypers, [3, 3]) for rounds in (500, 7))
    for outcome in (whole, cut):
        assert outcome.steps[0] == 5_000 > outcome.steps[1]
        lived = np.isfinite(outcome.record["discounted_return"])
        assert lived[1].all()
        assert 0 < lived[0].sum() < 100
        assert outcome.record["steps"][0, lived[0]].sum() <= 5_000
    np.testing.assert_array_equal(whole.record["discounted_return"], cut.record["discounted_return"])
