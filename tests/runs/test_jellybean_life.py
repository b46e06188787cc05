"""Jelly Bean World in the engine: lives are those of the simulator, whatever happens to the loop around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from remanence.agents.base import Agent
from remanence.agents.behaviour import uniform
from remanence.cli import main
from remanence.core import hostcall
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import Steps
from remanence.engine.lanes import Batch, Driver, Outcome
from remanence.engine.life import LifeConfig, ProbeInput
from remanence.experiments import figure5_jellybean as figure5
from remanence.experiments import get
from remanence.results.store import load
from remanence.runs.checkpoints import Checkpoints
from remanence.runs.describe import num_weights
from remanence.streams import Stream, cyclic
from remanence.worlds.jellybean import JellyBeanWorlds, RewardSchedule, hosted, preset
from remanence.worlds.jellybean.hosted import SEEDS, JellyBeanWorld

STEPS, SEGMENT_LENGTH = 240, 80
WORLD = JellyBeanWorld(preset("released"))
STREAM = Stream(figure5.REWARDS, cyclic(2, STEPS // SEGMENT_LENGTH), Steps(SEGMENT_LENGTH), boundaries_known=False)
walk_at_random = uniform(4)


def notebook(consolidate_every: Steps | None = None) -> Agent:
    """Walks at random; writes down every action, and everything it sees in one number."""

    def learn(state: Any, hypers: Any, transition: Any, key: Any) -> Any:
        del hypers, key
        actions, seen, n = state
        weight = jnp.sum(transition.next_obs * (1 + jnp.arange(WORLD.observation.shape[0])))
        here = jnp.where(transition.valid, n, STEPS)
        return (
            actions.at[here].set(transition.action, mode="drop"),
            seen.at[here].set(weight, mode="drop"),
            n + transition.valid,
        )

    return Agent(
        init=lambda *_: (jnp.zeros(STEPS, jnp.int32), jnp.zeros(STEPS, jnp.int32), jnp.int32(0)),
        act=lambda _, hypers, obs, key: walk_at_random(obs, hypers, key),
        learn=learn,
        consolidate=lambda state, *_: state,
        inspect=lambda *_: {},
        consolidate_every=consolidate_every,
    )


def everything(probe_input: ProbeInput) -> dict[str, Any]:
    return {"reward": probe_input.window.reward, "collected": probe_input.world.collected}


def driver(round_steps: int = 20, consolidate_every: Steps | None = None) -> Driver:
    config = LifeConfig(notebook(consolidate_every), WORLD, STREAM, everything, window=40)
    return Driver(config, round_steps, rounds_per_chunk=2)


@pytest.fixture(scope="module")
def lived() -> Outcome:
    return driver().run([0.0] * 3, [5, 6, 7])


def same(one: Outcome, other: Outcome) -> bool:
    return jax.tree.all(jax.tree.map(np.array_equal, one, other))


def test_a_life_is_the_simulators(lived: Outcome) -> None:
    """The same seeds and actions, walked by the simulator alone: every view, every find, every reward."""
    actions, seen, _ = lived.agents
    for lane, seed in enumerate((5, 6, 7)):
        _, _, resets, _ = jax.random.split(make_key(seed), 4)
        number = 1 + int(jax.random.randint(jax.random.fold_in(resets, 0), (), 0, SEEDS))
        world = JellyBeanWorlds(WORLD.rules, [number])
        views, collected_now = world.walk(actions[lane][:, None])
        bits = world.paint(views).reshape(STEPS, -1)
        np.testing.assert_array_equal(seen[lane], bits @ (1 + np.arange(WORLD.observation.shape[0])))
        rewards = RewardSchedule(every=SEGMENT_LENGTH).rewards(np.arange(STEPS), collected_now[:, 0])
        np.testing.assert_allclose(lived.record["reward"][lane], rewards.reshape(-1, 40).sum(axis=1), atol=1e-5)
        np.testing.assert_array_equal(lived.record["collected"][lane, -1], world.collected[0])
    assert lived.record["collected"][:, -1].sum() > 0


def test_lanes_that_wait_stay_where_they_are(lived: Outcome) -> None:
    """Rounds that do not fit the windows, and consolidation in between: nobody walks while waiting."""
    assert same(lived, driver(round_steps=7).run([0.0] * 3, [5, 6, 7]))
    assert same(lived, driver(round_steps=9, consolidate_every=Steps(25)).run([0.0] * 3, [5, 6, 7]))


def test_on_other_devices_the_map_stays_on_the_host_and_the_life_is_the_same(
    lived: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU or TPU cannot call the kernels of the map itself: `io_callback` does."""
    called: list[str] = []
    by_callback = hostcall._by_io_callback
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(hostcall, "_by_io_callback", lambda *given: (called.append("step"), by_callback(*given))[1])
    assert same(lived, driver().run([0.0] * 3, [5, 6, 7]))
    assert called


def test_kept_and_restored_in_the_middle_it_goes_on_identically(lived: Outcome, tmp_path: Path) -> None:
    """Through files, after every chunk."""
    program, finished, kept = driver(), {}, Checkpoints(tmp_path, {})
    batch = Batch(program, [0.0] * 3, [5, 6, 7])
    while not batch.done:
        finished |= batch.advance()
        if not batch.done:
            kept.save(batch.state())
            state = kept.newest(pytest.fail)
            assert state is not None
            batch = Batch(program, [0.0] * 3, [5, 6, 7])
            batch.restore(state)
    assert same(lived, jax.tree.map(lambda *leaves: np.stack(leaves), *(finished[lane] for lane in range(3))))


def test_every_lane_gets_one_map_whatever_the_program_does_with_it() -> None:
    """Compiled once and run twice, with a result that is used and with one that is not."""
    keys = jax.vmap(make_key)(jnp.arange(3, dtype=jnp.uint32))
    task = jnp.asarray(figure5.REWARDS[0])

    def reset(keys: Any) -> Any:
        return jax.vmap(lambda key: WORLD.reset(key, task))(keys)

    for program in (jax.jit(reset), jax.jit(lambda keys: (reset(keys), jnp.int32(0))[1])):
        for _ in range(2):
            before = set(hosted._maps)
            jax.block_until_ready(program(keys))
            jax.effects_barrier()
            made = set(hosted._maps) - before
            assert len(made) == 3
            for number in made:
                WORLD.drop(hosted.HostState(jnp.array([number]), jnp.zeros(1), jnp.zeros(1)))


def test_maps_of_lanes_that_are_over_are_forgotten() -> None:
    before = set(hosted._maps)
    driver().run([0.0] * 2, [1, 2])
    assert set(hosted._maps) == before


def test_python_makes_only_the_steps_that_need_new_terrain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three maps in one call: some find terrain, some do not. All views and items are the simulator's."""
    seeds, steps = [11, 12, 13], 400
    rng = np.random.default_rng(0)
    ways = np.stack(
        [rng.integers(0, 4, steps), np.zeros(steps, int), rng.permutation(np.arange(steps) % 2 * 3)], axis=1
    )
    maps = [hosted._keep(JellyBeanWorlds(WORLD.rules, [seed])) for seed in seeds]
    state = hosted.HostState(jnp.array(maps), jnp.zeros(3, jnp.int32), jnp.zeros((3, WORLD.rules.num_kinds), jnp.int32))
    in_python = []
    step = JellyBeanWorlds.step
    monkeypatch.setattr(JellyBeanWorlds, "step", lambda self, action: (in_python.append(self), step(self, action))[1])
    task = jnp.asarray(figure5.REWARDS[0])

    def walk(state: Any, actions: Any) -> Any:
        return jax.vmap(lambda one, action: WORLD.step(make_key(0), one, action, task))(state, actions)

    state, seen = jax.block_until_ready(jax.jit(lambda state: jax.lax.scan(walk, state, jnp.asarray(ways)))(state))
    assert 3 < len(in_python) < 0.1 * steps
    assert len({id(one) for one in in_python}) > 1
    for lane, seed in enumerate(seeds):
        alone = JellyBeanWorlds(WORLD.rules, [seed])
        views, _ = alone.walk(ways[:, [lane]])
        np.testing.assert_array_equal(seen.obs[:, lane], alone.paint(views).reshape(steps, -1) > 0.5)
        np.testing.assert_array_equal(state.collected[lane], alone.collected[0])
        one = hosted._maps[maps[lane]]
        for name, array in alone.state().items():
            np.testing.assert_array_equal(one.state()[name], array)
    WORLD.drop(state)


def test_a_step_out_of_turn_is_an_error() -> None:
    """The compiled loop stops, and says why."""
    state, _ = WORLD.reset(make_key(3), figure5.REWARDS[0])
    late = state._replace(time=state.time + 1)
    with pytest.raises(Exception, match="step 1 of a map that is at step 0"):
        jax.block_until_ready(WORLD.step(make_key(0), late, jnp.int32(0), jnp.asarray(figure5.REWARDS[0])))
    WORLD.drop(jax.tree.map(lambda leaf: leaf[None], state))


def test_deep_agents_live_in_it(tmp_path: Path) -> None:
    """PT-DQN consolidates on the way; curves, items and pictures are kept."""
    call = ["run", "figure5/jellybean", "--preset", "smoke", "--contenders", "PT-DQN", "Random", "--out", str(tmp_path)]
    assert main(call) == 0
    results = load(next((tmp_path / "figure5/jellybean").iterdir()))
    assert results.matrix("PT-DQN", figure5.RATE).shape == (2, 10)
    collected = [results.matrix("PT-DQN", f"collected_{kind}")[:, -1] for kind in ("blue", "green", "red")]
    assert (np.sum(collected, axis=0) > 0).all()
    permanent = results.maps.filter(results.maps["part"] == "permanent")["value"].to_numpy()
    assert permanent.size == 2 * 2 * 242 * 4  # lanes, windows, places of two kinds, actions
    assert (permanent != 0).any()
    for figures in (get("figure5/jellybean").figures(results), get("appendix/jbw-items").figures(results)):
        for chart in figures.values():
            chart.to_json()
    assert main(["show", "appendix/jbw-items", "--out", str(tmp_path)]) == 0  # another look at the same run


def test_printed_tables_cover_what_is_searched() -> None:
    plan = get("figure5/jellybean").plan("released")
    for name, contender in plan.contenders.items():
        printed = {values for who, values in figure5.PAPER_VALUES if who == name}
        sizes = [len(values) for values in contender.search.values()]
        assert len(printed) == (int(np.prod(sizes)) if sizes else 0)
    assert figure5.PAPER_VALUES["PT-DQN", (1e-7, 1e-3, 0.75)] == 0.268
    assert figure5.PAPER_VALUES["DQN", (1e-4,)] == 0.192


def test_sizes_are_those_of_the_paper() -> None:
    plan = get("figure5/jellybean").plan("paper")
    weights = {name: num_weights(contender.config, plan.spec) for name, contender in plan.contenders.items()}
    first, half = (
        1452 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128,
        1452 * 256 + 256 + 256 * 128 + 128 + 128 * 64 + 64,
    )
    assert weights["DQN"] == weights["DQN-large-buffer"] == first + 128 * 4 + 4
    assert weights["PT-DQN"] == 2 * (half + 64 * 4 + 4)
    assert weights["DQN-multihead"] == first + 128 * 8 + 8


@pytest.mark.parametrize(("steps", "words"), [(0, "--steps must be"), (200_000, "multiple"), (2_250_000, "multiple")])
def test_steps_that_do_not_fit_are_refused(steps: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        get("figure5/jellybean").plan("released").shortened(steps=steps)
    with pytest.raises(UserError, match="counts episodes"):
        get("figure2/tabular").plan("paper").shortened(steps=100)


def test_a_shorter_run_keeps_what_it_can() -> None:
    plan = get("figure5/jellybean").plan("released").shortened(steps=300_000)
    assert (plan.stream.segments, plan.stream.segment_length.count, plan.window, plan.map_windows) == (
        2,
        150_000,
        10_000,
        (15, 30),
    )
    short = get("figure5/jellybean").plan("released").shortened(steps=20_000)
    assert (short.stream.segments, short.stream.segment_length.count, short.map_windows) == (1, 20_000, (2,))
