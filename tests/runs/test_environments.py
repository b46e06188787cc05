"""Our worlds and the paper's streams, as other libraries meet them: through Gymnasium."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import remanence.gym
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import Episodes, Steps
from remanence.experiments import get
from remanence.gym import STREAMS, TaskSwitching, check
from remanence.gym.check import uses_jax
from remanence.gym.export import WorldEnv, compiled
from remanence.gym.worlds import ChainEnv, CornerGridEnv
from remanence.streams import RandomOrder
from remanence.worlds import CornerGrid, SlipperyGrid, two_rooms
from remanence.worlds.grids.corner import CORNER_TASKS
from remanence.worlds.grids.slippery import SWAPPED_GOALS

IDS = [name for name in gymnasium.registry if name.startswith("remanence/")]
UP, DOWN, LEFT, RIGHT = range(4)


def make(name: str, **options: Any) -> gymnasium.Env:
    return gymnasium.make(f"remanence/{name}-v0", **options)


# --- every world ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_finds_no_fault(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A stream is a wrapper: checked as a whole, which the checker remarks on.
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        options: dict[str, Any] = {"preset": "released"} if "JellyBean" in name else {}
        env = gymnasium.make(name, render_mode="rgb_array", **options)
        raw = env.env.env if "Stream" in name else env.unwrapped  # type: ignore[attr-defined]
        assert isinstance(raw, TaskSwitching) == ("Stream" in name)
        check_env(raw)
        env.close()


@pytest.mark.parametrize("name", IDS)
def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    options: dict[str, Any] = {"preset": "released"} if "JellyBean" in name else {}
    env = gymnasium.make(name, **options)
    assert env.action_space.n >= 1  # type: ignore[attr-defined]

    def live(seed: int) -> list[bytes]:
        env.action_space.seed(5)
        obs, info = env.reset(seed=seed)
        said = [np.asarray(obs).tobytes(), info["task"]]
        for _ in range(40):
            obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
            assert obs in env.observation_space
            said += [np.asarray(obs).tobytes(), reward, terminated, truncated, info["task"], info["discount"]]
            if terminated or truncated:
                said.append(np.asarray(env.reset()[0]).tobytes())
        return said

    assert live(3) == live(3)


def test_bits_are_those_of_the_world_itself() -> None:
    """A hand-driven life of the pure world, with keys made from the words the environment draws."""
    grid, task = SlipperyGrid(slip=0.5), jnp.asarray(SWAPPED_GOALS[1])
    env = WorldEnv(grid, SWAPPED_GOALS, task=1)
    rng = np.random.default_rng(7)
    words = np.random.default_rng(11).integers(2**32, size=2, dtype=np.uint32)
    _, k_steps = jax.jit(lambda high, low: jax.random.split(jax.random.fold_in(make_key(high), low)))(*words)
    step = jax.jit(lambda n, *life: grid.step(jax.random.fold_in(k_steps, n), *life))
    state, _ = env.reset(seed=11)
    assert state == 0
    slipped = 0
    for n in range(30):
        action = int(rng.integers(2)) * 3  # up and right
        meant = grid.successors[int(state), action]
        state, seen = step(n, state, action, task)
        slipped += int(meant != state)
        obs, reward, terminated, truncated, info = env.step(action)
        assert (obs, reward, terminated) == (int(seen.obs), float(seen.reward), bool(seen.last))
        assert not truncated
        assert info == {"task": 1, "discount": float(seen.discount)}
        if terminated:
            break
    assert slipped > 3


def test_seeds_differ_and_later_episodes_follow_the_seed() -> None:
    env = make("ContinuousGrid")
    first = [env.reset(seed=4)[0], env.reset()[0], env.reset(seed=5)[0]]
    assert len({obs.tobytes() for obs in first}) == 3
    assert all(np.array_equal(a, b) for a, b in zip(first, [env.reset(seed=4)[0], env.reset()[0]], strict=False))


@pytest.mark.parametrize(
    ("name", "space"),
    [
        ("CornerGrid", spaces.Discrete(25)),
        ("CornerGridImage", spaces.Box(0, 255, (48, 48, 3), np.uint8)),
        ("ContinuousGrid", spaces.Box(0.0, 1.0, (2,), np.float32)),
        ("Chain", spaces.Discrete(7)),
        ("TwoRooms", spaces.Box(0, 1, (5, 5, 20), np.uint8)),
        ("MinAtarGames", spaces.Box(0, 1, (10, 10, 7), np.uint8)),
        ("MinAtarStream", spaces.Box(0, 1, (10, 10, 7), np.uint8)),
    ],
)
def test_spaces(name: str, space: spaces.Space) -> None:
    assert make(name).observation_space == space


def test_an_end_is_terminated_and_a_cut_is_truncated() -> None:
    env = make("CornerGrid")
    assert env.reset(seed=0) == (12, {"task": 0, "discount": pytest.approx(0.9)})
    boundaries_known = [env.step(action)[1:] for action in (UP, UP, RIGHT, RIGHT)]
    assert boundaries_known[2] == (0.0, False, False, {"task": 0, "discount": pytest.approx(0.9)})
    assert boundaries_known[3] == (1.0, True, False, {"task": 0, "discount": 0.0})
    env = make("TwoRooms", step_limit=3)
    env.reset(seed=0)
    boundaries_known = [env.step(0)[1:] for _ in range(3)]
    assert boundaries_known[1][1:3] == (False, False)
    assert boundaries_known[2] == (0.0, False, True, {"task": 0, "discount": pytest.approx(0.99)})


def test_another_task_can_be_made_live_in_the_middle_of_an_episode() -> None:
    env = CornerGridEnv(task=1)
    env.reset(seed=0)
    for action in (UP, UP, RIGHT):
        assert env.step(action)[4]["task"] == 1
    env.task = 3
    assert env.step(RIGHT)[1] == CORNER_TASKS[3, 1] != CORNER_TASKS[1, 1]


def test_the_image_is_that_of_the_cell() -> None:
    seen, hidden = make("CornerGridImage", task=2), make("CornerGrid", task=2)
    obs, _ = seen.reset(seed=0)
    cell, _ = hidden.reset(seed=0)
    for action in (DOWN, DOWN, LEFT, LEFT):
        rows, columns = np.nonzero((obs == (255, 0, 0)).all(axis=-1))
        assert (rows.min() // 7 - 1, columns.min() // 7 - 1) == divmod(int(cell), 5)
        obs, reward, *_ = seen.step(action)
        cell, tenth, *_ = hidden.step(action)
    assert (reward, tenth) == (10.0, 1.0)


def test_equal_worlds_share_their_program() -> None:
    assert compiled(CornerGrid(size=7)) is compiled(CornerGrid(size=7))
    assert compiled(two_rooms()) is compiled(two_rooms())
    assert compiled(CornerGrid(size=7)) is not compiled(CornerGrid(size=9))


def test_a_chain_of_ones_own() -> None:
    env = ChainEnv(transitions=[[0, 1], [1, 0]], tasks=[[2, 0], [0, 4]], length=3, noise=0.0, task=1)
    state, _ = env.reset(seed=1)
    for step in range(3):
        before, (state, reward, terminated, truncated, _) = state, env.step(0)
        assert (state, reward, terminated, truncated) == (1 - before, 4.0 * before, False, step == 2)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: make("CornerGrid", task=4), "there are 4 tasks, numbered from 0; got 4"),
        (lambda: make("CornerGrid", tasks=[0, 1, 0, 1]), r"every task needs 4 rewards.*got an array of shape \(4,\)"),
        (lambda: make("SlipperyGrid", tasks=[[1, 2, 3]]), "every task needs 2 rewards"),
        (lambda: make("CornerGrid", size=4), "odd size"),
        (lambda: CornerGridEnv(render_mode="human"), "the render mode must be one of"),
        (lambda: CornerGridEnv().step(0), r"call reset\(\) first"),
        (lambda: CornerGridEnv(render_mode="ansi").render(), r"call reset\(\) first"),
        (lambda: _begun(CornerGridEnv()).step(4), "actions are 0 to 3 here; got 4"),
        (lambda: _begun(CornerGridEnv(), UP, UP, LEFT, LEFT, LEFT), "the episode is over"),
        (lambda: ChainEnv(tasks=[[1, 2]]), "transitions and tasks go together"),
        (lambda: make("JellyBeanWorld", task=1), "give switch_every=None"),
        (lambda: TaskSwitching(make("JellyBeanWorld"), steps=5).reset(seed=1), "give switch_every=None"),
        (lambda: TaskSwitching(gymnasium.make("CartPole-v1"), steps=5), "has no tasks"),
        (lambda: TaskSwitching(CornerGridEnv()), "in episodes or in steps, not both"),
        (lambda: TaskSwitching(CornerGridEnv(), steps=2, episodes=3), "in episodes or in steps, not both"),
        (lambda: TaskSwitching(CornerGridEnv(), steps=0), "must last at least one step"),
        (lambda: TaskSwitching(CornerGridEnv(), steps=2, order=(0, 4)), "a stream of 4 tasks cannot visit task 4"),
        (
            lambda: TaskSwitching(CornerGridEnv(), steps=2, order="shuffled"),
            "a list of tasks or 'random'; got 'shuffled'",
        ),
    ],
)
def test_mistakes_are_explained(mistake: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        mistake()


def _begun(env: WorldEnv, *actions: int) -> WorldEnv:
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env


def test_texts() -> None:
    env = make("SlipperyGrid", render_mode="ansi", slip=0.0, task=1)
    env.reset(seed=0)
    env.step(UP)
    assert env.render() == ".....-\n.....+\n.##...\n.#....\n@.....\n......"
    rooms = make("TwoRooms", render_mode="ansi").unwrapped
    rooms.reset(seed=0)
    lines = rooms.render().splitlines()  # type: ignore[union-attr]
    assert lines[1] == "#......G......#"
    assert sum(line.count(sign) for line in lines for sign in ">v<^") == 1


def test_pictures_show_what_the_live_task_pays() -> None:
    for task in range(4):
        env = make("CornerGrid", render_mode="rgb_array", task=task)
        env.reset(seed=0)
        corners = np.array(env.render())[[16, 16, -16, -16], [16, -16, 16, -16]]
        assert np.array_equal(corners[:, 1] > 150, CORNER_TASKS[task] > 0)  # green


def test_registration_is_lazy() -> None:
    program = (
        "import sys, gymnasium, remanence; assert 'remanence.worlds' not in sys.modules; "
        "gymnasium.make('remanence/CornerGrid-v0'); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# --- streams ----------------------------------------------------------------------------------------------------------


def tasks_of(env: gymnasium.Env, steps: int, actions: Any = None) -> list[tuple[int, bool]]:
    """The task of each step, and whether the episode ended with it."""
    lived = []
    for n in range(steps):
        _, _, terminated, truncated, info = env.step(n % 4 if actions is None else actions[n % len(actions)])
        lived.append((info["task"], terminated or truncated))
        if terminated or truncated:
            env.reset()
    return lived


def test_tasks_change_with_episodes() -> None:
    env = TaskSwitching(CornerGridEnv(), episodes=2, order=(1, 3))
    env.reset(seed=0)
    lived = tasks_of(env, 4 * 9, (UP, UP, RIGHT, RIGHT))
    assert [task for task, ended in lived if ended] == [1, 1, 3, 3, 1, 1, 3, 3, 1]
    assert all(lived[n][0] == lived[n - n % 4][0] for n in range(36))  # never within an episode


def test_tasks_change_with_steps_in_the_middle_of_an_episode() -> None:
    env = TaskSwitching(CornerGridEnv(), steps=3)
    env.reset(seed=0)
    assert tasks_of(env, 13, (UP, DOWN)) == [(n // 3 % 4, False) for n in range(13)]


def test_rewards_are_those_of_the_task_told() -> None:
    env = TaskSwitching(CornerGridEnv(), steps=5)
    env.reset(seed=0)
    paid = []
    for n in range(200):
        cell, reward, terminated, _, info = env.step((UP, UP, RIGHT, RIGHT)[n % 4])
        if terminated:
            assert cell == 4
            assert reward == CORNER_TASKS[info["task"], 1]
            paid.append(reward)
            env.reset()
    assert set(paid) == {0.0, 1.0}


def test_a_switch_can_cut_an_episode() -> None:
    env = TaskSwitching(CornerGridEnv(), steps=3, truncate_on_switch=True)
    env.reset(seed=0)
    assert [ended for _, ended in tasks_of(env, 12, (UP, DOWN))] == [False, False, True] * 4
    env.reset(seed=0)
    for _ in range(3):
        *_, terminated, truncated, info = env.step(UP)
    assert (terminated, truncated, info["task"]) == (False, True, 0)
    assert info["discount"] > 0
    assert env.reset()[1]["task"] == 1


def test_an_observed_task_is_the_one_the_next_action_meets() -> None:
    env = TaskSwitching(CornerGridEnv(), steps=2, observe_task=True)
    obs, _ = env.reset(seed=0)
    assert env.observation_space == spaces.Dict({"obs": spaces.Discrete(25), "task": spaces.Discrete(4)})
    promised = []
    for n in range(10):
        promised.append(int(obs["task"]))
        obs, _, _, _, info = env.step((UP, DOWN)[n % 2])
        assert info["task"] == promised[-1] == n // 2 % 4
        assert obs in env.observation_space


def test_a_seed_begins_a_new_life_and_other_resets_do_not() -> None:
    env = TaskSwitching(CornerGridEnv(), episodes=1)
    assert [env.reset(seed=0)[1]["task"], env.reset()[1]["task"]] == [0, 0]  # nothing was lived between them
    env.step(UP)
    assert env.reset()[1]["task"] == 1  # an episode cut off from outside counts
    assert env.reset(seed=0)[1]["task"] == 0


def test_drawn_tasks_follow_the_seed_and_may_stay() -> None:
    def drawn(seed: int) -> list[int]:
        env = TaskSwitching(CornerGridEnv(), steps=1, order="random")
        env.reset(seed=seed)
        return [task for task, _ in tasks_of(env, 400, (UP, DOWN))]

    order = drawn(1)
    assert order == drawn(1) != drawn(2)
    assert np.all(np.abs(np.bincount(order, minlength=4) - 100) < 40)
    assert any(a == b for a, b in itertools.pairwise(order))


def test_the_games_change_and_end_their_episode() -> None:
    env = make("MinAtarStream", steps=4, order=(0, 1))
    env.reset(seed=0)
    lived = tasks_of(env, 12)
    assert [task for task, _ in lived] == [0] * 4 + [1] * 4 + [0] * 4
    assert [n for n, (_, ended) in enumerate(lived) if ended] == [3, 7, 11]


def test_jelly_beans_flip() -> None:
    """The stream pays what the world with its own schedule pays."""
    stream = make("JellyBeanStream", preset="released", steps=60)
    world = make("JellyBeanWorld", preset="released", switch_every=60)
    stream.reset(seed=3)
    world.reset(seed=3)
    total = 0.0
    for n in range(240):  # straight up
        one, other = stream.step(0), world.step(0)
        assert one[1] == other[1]
        assert one[4]["task"] == other[4]["task"] == n // 60 % 2
        total += abs(float(one[1]))
    assert total > 1


@pytest.mark.parametrize(
    ("name", "experiment"),
    [
        ("CornerGridStream", "figure2/tabular"),
        ("CornerGridImageStream", "figure2/image"),
        ("ContinuousGridStream", "figure2/continuous"),
        ("SlipperyGridStream", "figure3/tabular"),
        ("ItemRoomsStream", "figure2/rooms"),
        ("TwoRoomsStream", "figure3/rooms"),
        ("JellyBeanStream", "figure5/jellybean"),
    ],
)
def test_streams_are_those_of_the_experiments(name: str, experiment: str) -> None:
    plan = get(experiment).plan("paper")
    env = make(name).env.env  # type: ignore[attr-defined]
    ours, theirs = env.stream, plan.stream
    tasks = env.unwrapped.schedule.tasks if name.startswith("Jelly") else env.unwrapped.tasks
    assert np.array_equal(np.asarray(tasks, np.float32), theirs.tasks)
    assert ours.segment_length == theirs.segment_length
    assert ours.truncate_on_switch == theirs.truncate_on_switch
    if isinstance(theirs.order, RandomOrder):
        assert isinstance(ours.order, RandomOrder)
    else:
        assert theirs.order == tuple(ours.order[n % ours.segments] for n in range(theirs.segments))
    if not name.startswith("Jelly"):
        world = env.unwrapped.world
        assert isinstance(plan.world, type(world))  # of pictures, the experiment's shows numbers of pictures
        assert dataclasses.astuple(world) == dataclasses.astuple(plan.world)  # type: ignore[call-overload]


def test_the_stream_of_games_is_the_papers() -> None:
    stream = make("MinAtarStream").env.env.stream  # type: ignore[attr-defined]
    assert (stream.segment_length, stream.order, stream.truncate_on_switch) == (Steps(500_000), RandomOrder(1), True)


def test_schedules_can_be_given_anew() -> None:
    stream = make("JellyBeanStream", episodes=3, order=(1,), truncate_on_switch=True).env.env.stream  # type: ignore[attr-defined]
    assert (stream.segment_length, stream.order, stream.truncate_on_switch) == (Episodes(3), (1,), True)


def test_a_fork_is_told_that_it_cannot_work() -> None:
    program = """
        import os, gymnasium
        import remanence.gym
        gymnasium.make("remanence/CornerGrid-v0")
        if os.fork() == 0:
            try:
                gymnasium.make("remanence/CornerGrid-v0")
            except remanence.core.errors.UserError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert 'vector_kwargs={"context": "spawn"}' in done.stdout


def test_everything_is_registered() -> None:
    assert len(IDS) == len(remanence.gym.WORLDS) + len(remanence.gym.GAMES) + len(STREAMS)


@pytest.mark.parametrize(("cores", "seeds"), [(None, 4), (1, 1)], ids=["several lanes", "one core"])
def test_environments_that_use_jax_do_not_wait_for_each_other(cores: int | None, seeds: int) -> None:
    """Every device waits in Python for a program that jax runs there, on a thread that must be free."""
    program = f"""
        import os
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{cores}])
        import remanence
        found = remanence.live("Random", "remanence/MinAtarBreakout-v0", 40, seeds={seeds}, progress=False)
        print(len(found.sound_seeds("Random")))
    """
    own = {name: value for name, value in os.environ.items() if name != "PJRT_NPROC"}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=own)
    assert done.stdout.split() == [str(seeds)]


def test_it_is_seen_whether_an_environment_uses_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, others = make("CornerGrid"), gymnasium.make("CartPole-v1")
    assert (uses_jax(ours), uses_jax(gymnasium.wrappers.TimeLimit(ours, 5)), uses_jax(others)) == (True, True, False)
    monkeypatch.setenv("PJRT_NPROC", "1")
    monkeypatch.setattr(check, "one_thread", lambda: None)
    with pytest.raises(UserError, match="set PJRT_NPROC=2"):
        remanence.live("Random", lambda: make("CornerGrid"), 40, seeds=1, progress=False)
