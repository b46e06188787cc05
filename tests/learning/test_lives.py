"""Small whole lives: equal to a plain simulation in NumPy, reproducible, independent of how a run is cut; PT-TD's intervals."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import (
    GRID,
    PT_BY_STEPS,
    ROWS,
    SEEDS,
    SEGMENT_LENGTH,
    SEGMENTS,
    STEP_BUFFER,
    STEP_PERIOD,
    TASKS,
    TD,
    TD_RESET,
    TRUTH,
    assert_same_record,
    brute_force_step,
    brute_force_values,
    driver,
    everything,
    live,
    pt,
    same,
    stream,
)
from remanence.agents import AT_SWITCH, Agent, Hypers, pt_td
from remanence.agents.behaviour import uniform
from remanence.core.types import Duration, Episodes, Key, Steps
from remanence.engine.lanes import Batch, Driver, Progress
from remanence.engine.life import LifeConfig
from remanence.engine.probes import value_maps
from remanence.streams import Stream, cyclic

CURRENT = ("rmsve_current", "rmsve_current_unweighted", "value", "reward", "discounted", "steps", "task")
RATES = [
    Hypers(permanent_lr=permanent, transient_lr=transient, decay=decay)
    for permanent, transient, decay in [
        (0.05, 0.3, 0),
        (0.1, 0.3, 0.5),
        (0.3, 0.5, 0.9),
        (0.5, 0.1, 1),
        (0.2, 0.2, 0.3),
    ]
]
LEARNING = [Hypers(lr=lr) for lr in (0.1, 0.3, 0.5, 0.3, 0.7)]

# --- The oracle: the same lives in NumPy, in double precision, from the documented keys -----------------------------


@dataclass
class Simulated:
    """The results of one life by the oracle; every curve has one entry per episode."""

    curves: dict[str, np.ndarray]
    steps: int
    consolidations: int
    dropped: int


def actions_of(seed: int, count: int = 2_500) -> list[int]:
    """Actions by the key discipline of `life.py`, with stock keys: step t draws from the first third of fold_in(k_steps, t)."""
    _, k_steps, _, _ = jax.random.split(jax.random.key(seed), 4)
    draw = jax.vmap(lambda t: jax.random.uniform(jax.random.split(jax.random.fold_in(k_steps, t), 3)[0]))
    return np.floor(4 * np.asarray(draw(jnp.arange(count)))).astype(int).tolist()


@cache
def true_values() -> np.ndarray:
    return np.array([brute_force_values(task, 0.9) for task in TASKS])


@cache
def visit_weights() -> np.ndarray:
    """Normalised expected visits of an episode from the centre, goals included, by following the probability mass."""
    mass, visits = {(2, 2): 1.0}, np.zeros((5, 5))
    while sum(mass.values()) > 1e-13:
        following: dict[tuple[int, int], float] = {}
        for cell, share in mass.items():
            visits[cell] += share
            if cell[0] % 4 or cell[1] % 4:  # not a corner
                for action in range(4):
                    to = brute_force_step(*cell, action)
                    following[to] = following.get(to, 0.0) + share / 4
        mass = following
    return visits.ravel() / visits.sum()


def simulate(
    seed: int,
    phi: np.ndarray,
    lr: Any,
    permanent_lr: Any = None,
    decay: Any = 0.0,
    consolidate_every: Duration | None = None,
    buffer: int | None = None,
) -> Simulated:
    """A life of PT-TD with features `phi`; of TD if there is no permanent step size (with `consolidate_every`: reset)."""
    actions = iter(actions_of(seed))
    permanent, transient = np.zeros((2, phi.shape[1]))
    visited: deque[int] = deque(maxlen=buffer)
    simulated = Simulated({}, steps=0, consolidations=0, dropped=0)
    since = 0  # states seen since the last consolidation
    rows: list[dict[str, Any]] = []
    inner = ~np.isin(np.arange(25), [0, 4, 20, 24])  # goals count as points without error, whatever is believed of them

    def consolidate() -> None:
        nonlocal permanent, transient, since
        if permanent_lr is not None:
            target = phi @ (permanent + transient)
            for s in visited:
                permanent = permanent + permanent_lr * (target[s] - phi[s] @ permanent) * phi[s]
        transient = decay * transient
        simulated.consolidations += 1
        simulated.dropped += since - len(visited)
        visited.clear()
        since = 0

    for episode in range(SEGMENT_LENGTH * SEGMENTS):
        task_id = (episode // SEGMENT_LENGTH) % len(TASKS)
        goals = dict(zip([(0, 0), (0, 4), (4, 0), (4, 4)], TASKS[task_id].tolist(), strict=True))
        cell, length = (2, 2), 0
        while cell not in goals:
            if (
                isinstance(consolidate_every, Steps)
                and simulated.steps
                and simulated.steps % consolidate_every.count == 0
            ):
                consolidate()
            to = brute_force_step(*cell, next(actions))
            s, value = 5 * cell[0] + cell[1], phi @ (permanent + transient)
            bootstrap = 0.0 if to in goals else 0.9 * value[5 * to[0] + to[1]]
            transient = transient + lr * (goals.get(to, 0.0) + bootstrap - value[s]) * phi[s]
            visited.append(s)
            cell, length, since, simulated.steps = to, length + 1, since + 1, simulated.steps + 1

        value, kept = phi @ (permanent + transient), phi @ (transient if permanent_lr is None else permanent)
        errors = np.delete(inner * (kept - true_values()) ** 2, task_id, axis=0).mean(axis=1)
        now = inner * (value - true_values()[task_id]) ** 2
        rows.append(
            {
                "task": task_id,
                "steps": length,
                "reward": goals[cell],
                "discounted": 0.9 ** (length - 1) * goals[cell],
                "value": value,
                "rmsve_current": np.sqrt(visit_weights() @ now),
                "rmsve_current_unweighted": np.sqrt(now.mean()),
                "rmsve_others": np.sqrt(errors).mean(),
                "mse_others": errors.mean(),
            }
        )
        over = episode + 1 == SEGMENT_LENGTH * SEGMENTS
        if isinstance(consolidate_every, Episodes) and (episode + 1) % consolidate_every.count == 0 and not over:
            consolidate()
    simulated.curves = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return simulated


def assert_matches(record: dict[str, np.ndarray], simulated: list[Simulated]) -> None:
    for name in simulated[0].curves:
        expected = np.array([one.curves[name] for one in simulated])
        np.testing.assert_allclose(record[name], expected, rtol=1e-4, atol=2e-6, err_msg=name)


def test_td_equals_the_numpy_simulation() -> None:
    outcome = live(TD, LEARNING)
    simulated = [simulate(seed, np.eye(25), hypers.lr) for seed, hypers in zip(SEEDS, LEARNING, strict=True)]
    assert_matches(outcome.record, simulated)
    assert outcome.steps.tolist() == [one.steps for one in simulated]
    assert outcome.samples_dropped.tolist() == [0] * len(SEEDS)


def test_td_with_reset_equals_the_numpy_simulation() -> None:
    outcome = live(TD_RESET, LEARNING)
    again = partial(simulate, phi=np.eye(25), consolidate_every=Episodes(SEGMENT_LENGTH))
    assert_matches(outcome.record, [again(seed, lr=h.lr) for seed, h in zip(SEEDS, LEARNING, strict=True)])


def test_pt_td_equals_the_numpy_simulation() -> None:
    """Consolidation at switches, five lanes with step sizes and decays of their own."""
    outcome = live(pt(consolidate_every=AT_SWITCH), RATES)
    again = partial(simulate, phi=np.eye(25), consolidate_every=Episodes(SEGMENT_LENGTH))
    simulated = [
        again(s, lr=h.transient_lr, permanent_lr=h.permanent_lr, decay=h.decay)
        for s, h in zip(SEEDS, RATES, strict=True)
    ]
    assert_matches(outcome.record, simulated)
    assert {one.consolidations for one in simulated} == {SEGMENTS - 1}
    assert outcome.samples_dropped.tolist() == [0] * len(SEEDS)


def test_linear_pt_td_by_steps_equals_the_numpy_simulation() -> None:
    """Consolidation in the middle of episodes, from a buffer that is too small."""
    outcome = live(PT_BY_STEPS, RATES)
    phi = np.concatenate([np.eye(5).repeat(5, axis=0), np.tile(np.eye(5), (5, 1))], axis=1)  # row, then column
    again = partial(simulate, phi=phi, consolidate_every=Steps(STEP_PERIOD), buffer=STEP_BUFFER)
    simulated = [
        again(s, lr=h.transient_lr, permanent_lr=h.permanent_lr, decay=h.decay)
        for s, h in zip(SEEDS, RATES, strict=True)
    ]
    assert_matches(outcome.record, simulated)
    assert outcome.agents[1].tolist() == [one.consolidations for one in simulated]
    assert outcome.samples_dropped.tolist() == [one.dropped for one in simulated]


# --- Lanes -----------------------------------------------------------------------------------------------------------------


def test_same_seeds_live_the_same_lives() -> None:
    once, twice = live(pt(consolidate_every=AT_SWITCH), RATES), live(pt(consolidate_every=AT_SWITCH), RATES)
    assert_same_record(once.record, twice.record)
    for one, other in zip(jax.tree.leaves(once.agents), jax.tree.leaves(twice.agents), strict=True):
        assert same(one, other)


def test_another_seed_lives_another_life_and_an_equal_one_shares_its_luck() -> None:
    """Lanes 0 and 1 have one seed and different step sizes; lane 2 has another seed."""
    outcome = live(TD, LEARNING, seeds=(7, 7, 8, 9, 10))
    steps, value = outcome.record["steps"], outcome.record["value"]
    assert same(steps[0], steps[1])
    assert not same(value[0], value[1])
    assert not same(steps[0], steps[2])


@pytest.mark.parametrize("rounds_per_chunk", [1, 7])
def test_chunks_do_not_matter(rounds_per_chunk: int) -> None:
    """Bitwise; also where a chunk ends while some lanes wait for others to consolidate."""
    whole, cut = live(PT_BY_STEPS, RATES), live(PT_BY_STEPS, RATES, rounds_per_chunk=rounds_per_chunk)
    assert_same_record(whole.record, cut.record)
    assert same(whole.agents[1], cut.agents[1])


def test_no_lane_waits_longer_than_a_chunk() -> None:
    """A lane with short episodes consolidates at the end of a chunk, also if slower ones are not due yet."""
    program = driver(pt(consolidate_every=Episodes(1)), boundaries_known=False, round_steps=8)
    rows = program.mesh.size * 4
    hypers = jax.tree.map(lambda leaf: jnp.full(rows, leaf, jnp.float32), RATES[0])
    carry = program.init_rows(hypers, jnp.arange(rows, dtype=jnp.uint32))
    ahead = []
    for _ in range(6):
        carry = program.advance_rows(hypers, carry, np.int32(1))
        assert not carry.life.waiting.any()
        ahead.append(int(carry.life.consolidations.max() - carry.life.consolidations.min()))
    assert max(ahead) > 1  # so the fastest did not wait for the slowest


@pytest.mark.parametrize(("round_steps", "first"), [(8, 512), (200, 400), (800, 800)])
def test_the_first_call_is_short_however_long_rounds_are(round_steps: int, first: int) -> None:
    """A step of a deep agent may take milliseconds: progress is shown, and a signal obeyed, between two calls."""
    config = LifeConfig(TD, GRID, Stream(TASKS, cyclic(4, 1), Steps(4_000), False), everything(TD), window=1_000)
    batch = Batch(Driver(config, round_steps), [Hypers(lr=0.1)] * 2, (0, 1))
    batch.advance()
    assert batch.progress.steps == 2 * first


@pytest.mark.usefixtures("optimized")
def test_rounds_do_not_matter() -> None:
    """Bitwise, although lanes wait for each other at other times. (Consolidation by episodes: below.)"""
    eight, three = (live(PT_BY_STEPS, RATES, round_steps=steps) for steps in (8, 3))
    assert_same_record(eight.record, three.record)
    assert same(eight.steps, three.steps)
    assert same(eight.agents[1], three.agents[1])
    assert same(eight.agents[0].permanent, three.agents[0].permanent)


@pytest.mark.usefixtures("optimized")
def test_a_lane_alone_is_the_lane_in_a_batch() -> None:
    """Up to rounding: compilers may order the arithmetic of other lane counts differently. Luck is exactly the same."""
    together, alone = (
        live(pt(consolidate_every=AT_SWITCH), RATES),
        live(pt(consolidate_every=AT_SWITCH), RATES[3:4], seeds=SEEDS[3:4]),
    )
    assert same(together.steps[3:4], alone.steps)
    assert same(together.record["steps"][3:4], alone.record["steps"])
    for name, curve in together.record.items():
        assert alone.record[name].shape == (1, *curve.shape[1:])
        np.testing.assert_allclose(alone.record[name][0], curve[3], rtol=1e-5, atol=1e-6, err_msg=name)


def test_record_is_complete() -> None:
    """One entry per lane and episode, no NaN left, and lanes that only fill up devices are gone."""
    outcome = live(PT_BY_STEPS, RATES)
    for name, curve in outcome.record.items():
        assert curve.shape[:2] == (len(SEEDS), SEGMENT_LENGTH * SEGMENTS), name
        assert np.isfinite(curve).all(), name
    assert outcome.steps.shape == outcome.samples_dropped.shape == outcome.agents[1].shape == (len(SEEDS),)
    np.testing.assert_array_equal(outcome.record["steps"].sum(axis=1), outcome.steps)


def test_progress_grows_to_the_whole() -> None:
    program = driver(TD, boundaries_known=True, round_steps=8)
    program.rounds_per_chunk = 40
    seen: list[Progress] = []
    outcome = program.run(LEARNING, SEEDS, seen.append)
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == Progress(len(SEEDS) * SEGMENT_LENGTH * SEGMENTS, int(outcome.steps.sum()))


# --- PT-TD and its intervals of consolidation -----------------------------------------------------------------------------

NO_DECAY = [
    Hypers(permanent_lr=0.05, transient_lr=0.3, decay=0.0),
    Hypers(permanent_lr=0.1, transient_lr=0.3, decay=0.0),
    Hypers(permanent_lr=0.3, transient_lr=0.5, decay=0.0),
    Hypers(permanent_lr=0.5, transient_lr=0.1, decay=0.0),
    Hypers(permanent_lr=0.2, transient_lr=0.2, decay=0.0),
]


def test_pt_is_td_when_nothing_is_consolidated_nor_forgotten() -> None:
    """Permanent step 0 and decay 1, over whole lives with switches: every curve of the current task is TD's, bitwise.

    The error on *other* tasks is that of the permanent part, which stays zero.
    """
    rates = (0.1, 0.3, 0.5, 0.3, 0.7)
    ours = live(pt(), [Hypers(permanent_lr=0.0, transient_lr=rate, decay=1.0) for rate in rates])
    theirs = live(TD, [Hypers(lr=rate) for rate in rates])
    assert_same_record(ours.record, theirs.record, CURRENT)
    assert same(ours.record["transient"], theirs.record["value"])
    assert same(ours.agents.transient, theirs.agents)
    assert same(ours.steps, theirs.steps)
    assert not ours.record["permanent"].any()
    assert np.ptp(ours.record["mse_others"]) < 1e-6


def test_consolidating_at_known_boundaries_equals_the_same_fixed_interval() -> None:
    """k = task length and λ = 0 is Algorithm 1: bitwise, whatever the length of a round."""
    known = live(pt(consolidate_every=AT_SWITCH), NO_DECAY)
    unknown = live(pt(consolidate_every=Episodes(SEGMENT_LENGTH)), NO_DECAY, boundaries_known=False, round_steps=3)
    assert_same_record(known.record, unknown.record)
    assert same(known.steps, unknown.steps)
    assert known.record["permanent"][:, -1].any()


def test_permanent_part_moves_at_switches_only() -> None:
    permanent = live(pt(consolidate_every=AT_SWITCH), NO_DECAY).record["permanent"]  # [lanes, episodes, states]
    moved = (np.diff(permanent, axis=1) != 0).any(axis=-1)
    episodes = np.arange(1, permanent.shape[1])
    np.testing.assert_array_equal(moved, np.broadcast_to(episodes % SEGMENT_LENGTH == 0, moved.shape))


def test_steps_rhythm_consolidates_every_k_steps() -> None:
    """Once each time k steps have been lived, also inside episodes, and never after the last step."""
    hypers = [Hypers(permanent_lr=0.1, transient_lr=0.2, decay=decay) for decay in (0.0, 0.3, 0.5, 0.9, 1.0)]
    outcome = live(PT_BY_STEPS, hypers)
    state, consolidations = outcome.agents
    np.testing.assert_array_equal(consolidations, (outcome.steps - 1) // STEP_PERIOD)
    np.testing.assert_array_equal(outcome.samples_dropped, consolidations * (STEP_PERIOD - STEP_BUFFER))
    np.testing.assert_array_equal(state.visited.count, outcome.steps - consolidations * STEP_PERIOD)
    assert (consolidations > len(TASKS)).all()


# --- Two threads ------------------------------------------------------------------------------------------------------------


def test_two_threads_may_trace_at_once() -> None:
    """Both are in the middle of tracing `consolidate` at the same time, and live as they do one after the other."""
    both = threading.Barrier(2)

    def meeting(agent: Agent, together: bool) -> Agent:
        def consolidate(state: Any, hypers: Any, key: Key, active: Any) -> Any:
            if together:
                with contextlib.suppress(threading.BrokenBarrierError):
                    both.wait(60)
            after = agent.consolidate(state, hypers, key, active)
            if together:
                with contextlib.suppress(threading.BrokenBarrierError):
                    both.wait(60)
            return after

        return agent._replace(consolidate=consolidate)

    def lived(buffer: int, together: bool) -> Any:
        agent = meeting(pt_td(ROWS, uniform(4), jnp.int32(0), buffer=buffer), together)
        config = LifeConfig(agent, GRID, stream(), value_maps(agent, TRUTH.points))
        return Driver(config).run([Hypers(permanent_lr=0.1, transient_lr=0.3, decay=0.5)] * 3, range(3)).record

    with ThreadPoolExecutor(2) as threads:
        at_once = list(threads.map(lambda buffer: lived(buffer, True), (50, 70)))
    for buffer, record in zip((50, 70), at_once, strict=True):
        assert_same_record(record, lived(buffer, False))
