"""Jelly Bean World as agents and people meet it: rewards, the Gymnasium environment, pictures."""

from __future__ import annotations

import fcntl
import itertools
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import remanence.gym  # noqa: F401  registers the environment
from jellybean_walks import DOWN, LEFT, QUICK, RIGHT, TRACES, UP, wandering
from remanence.core.native import compiling
from remanence.worlds.jellybean import PRESETS, JellyBeanWorlds, RewardSchedule, preset
from remanence.worlds.jellybean.pictures import view_picture, view_text, world_picture

# --- rewards, policies ------------------------------------------------------------------------------------------------


def test_rewards_change_with_the_task() -> None:
    schedule = RewardSchedule(every=10)
    collected_now = np.array([0, 1, 2, 3])
    assert schedule.rewards(9, collected_now).tolist() == [0, 2, 0.1, -1]
    assert schedule.rewards(10, collected_now).tolist() == [0, -1, 0.1, 2]
    assert schedule.rewards(np.array([9, 19, 20, 39]), collected_now).tolist() == [0, -1, 0.1, 2]
    assert RewardSchedule(every=None).rewards(10**6, collected_now).tolist() == [0, 2, 0.1, -1]


def greedy(views: np.ndarray, worth: np.ndarray, heading: np.ndarray) -> np.ndarray:
    """[lanes] towards the item that is worth most per step; straight on where none is seen. Enters nothing bad by choice."""
    lanes, view, _ = views.shape
    across = np.arange(view) - view // 2
    dx, dy = np.meshgrid(across, across, indexing="ij")
    distance = np.maximum(np.abs(dx) + np.abs(dy), 1)
    score = (worth[views] / distance).reshape(lanes, -1)
    best = score.argmax(axis=1)
    x, y = dx.ravel()[best], dy.ravel()[best]
    sideways, upright = np.where(x > 0, RIGHT, LEFT), np.where(y > 0, UP, DOWN)
    middle = view // 2
    beside = np.stack([views[:, middle, middle + 1], views[:, middle - 1, middle], views[:, middle + 1, middle],
        views[:, middle, middle - 1]], axis=1)  # fmt: skip
    good = worth[beside] >= 0  # [lanes, actions]
    everyone = np.arange(lanes)
    towards = np.where((x != 0) & (good[everyone, sideways] | (y == 0)), sideways, upright)
    return np.where(score.max(axis=1) > 0, towards, heading)


def test_greedy_earns_and_random_does_not() -> None:
    lanes, steps = 16, 1_000
    worlds = JellyBeanWorlds(preset("released"), range(1, lanes + 1), threads=2)
    schedule, rng = RewardSchedule(every=None), np.random.default_rng(0)
    heading = rng.integers(0, 4, lanes)
    rates = {}
    for name in ("random", "greedy"):
        total = np.zeros(lanes)
        for _ in range(steps):
            heading = np.where(rng.random(lanes) < 0.02, rng.integers(0, 4, lanes), heading)
            chosen = greedy(worlds.views, schedule.table[0], heading) if name == "greedy" else rng.integers(0, 4, lanes)
            total += schedule.rewards(worlds.time, worlds.step(chosen)[1])
        rates[name] = total.mean() / steps
    assert abs(rates["random"]) < 0.03
    assert 0.1 < rates["greedy"] < 0.5


# --- Gymnasium --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_gymnasium_finds_no_fault(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("remanence/JellyBeanWorld-v0", preset=name, render_mode="rgb_array")
        check_env(env.unwrapped)
        env.close()


def test_the_environment_repeats_a_trace() -> None:
    trace = np.load(TRACES[0])
    env = gymnasium.make("remanence/JellyBeanWorld-v0", preset="released", switch_every=100)
    obs, info = env.reset(seed=int(trace["seed"]))
    colours = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
    tasks = np.array([[2, 0.1, -1], [-1, 0.1, 2]])
    assert np.array_equal(obs, colours[trace["vision"][0]])
    for step, action in enumerate(trace["actions"][:400]):
        obs, reward, terminated, truncated, info = env.step(int(action))
        assert np.array_equal(obs, colours[trace["vision"][step + 1]])
        assert np.array_equal(info["position"], trace["position"][step + 1])
        assert np.array_equal(info["collected"], trace["collected"][step + 1])
        gained = trace["collected"][step + 1] - trace["collected"][step]
        assert reward == pytest.approx(gained @ tasks[step // 100 % 2])
        assert (terminated, truncated) == (False, False)
    assert trace["collected"][400].sum() > 5


def test_worlds_without_a_seed_differ_and_follow_the_last_seed() -> None:
    env = gymnasium.make("remanence/JellyBeanWorld-v0", preset="released").unwrapped
    first = [env.reset(seed=4)[0], env.reset()[0], env.reset()[0]]
    second = [env.reset(seed=4)[0], env.reset()[0], env.reset()[0]]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not any(np.array_equal(a, b) for a, b in itertools.combinations(first, 2))


@pytest.mark.parametrize(
    "program",
    [
        "import gymnasium, remanence; gymnasium.make('remanence/JellyBeanWorld-v0')",
        "import remanence, gymnasium; gymnasium.make('remanence.gym:remanence/JellyBeanWorld-v0')",
        "import remanence, sys; assert 'gymnasium' not in sys.modules and 'numba' not in sys.modules",
    ],
)
def test_registration_is_cheap_and_works_in_any_order(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_pictures_have_up_on_top_and_right_to_the_right() -> None:
    codes = np.zeros((3, 3), np.uint8)
    codes[2, 1], codes[1, 2], codes[0, 0] = 1, 3, 2  # blue to the right, red above, green at the lower left
    picture = view_picture(codes, preset("paper").colours, pixels=4)
    assert picture.shape == (12, 12, 3)
    assert picture[5, 9].tolist() == [0, 0, 255]
    assert picture[1, 5].tolist() == [255, 0, 0]
    assert picture[10, 1].tolist() == [0, 255, 0]
    assert picture[5, 5].tolist() == [255, 255, 255]
    assert view_text(codes, ["blue", "green", "red"]) == ".r.\n.@b\ng.."


def test_a_picture_of_the_world_shows_what_the_agent_sees() -> None:
    worlds = JellyBeanWorlds(QUICK, [3])
    worlds.walk(np.full((40, 1), RIGHT))
    picture = world_picture(worlds, radius=5, pixels=1)
    seen = view_picture(worlds.views[0], worlds.rules.colours, pixels=1)
    assert np.array_equal(picture, seen)
    path = [(39, 0), (38, 0), (-500, 0)]
    wide = world_picture(worlds, radius=60, path=path, pixels=1)
    assert wide[60, 60].tolist() == [255, 255, 255]
    assert wide[60, 59].tolist() == wide[60, 58].tolist() == [150, 130, 60]
    assert wide[0, 0].tolist() == [64, 64, 64] or wide[0, 0].max() == 255
    assert world_picture(worlds, radius=150, pixels=1)[0, 0].tolist() == [128, 128, 128]


def test_terrain_is_what_was_seen() -> None:
    worlds = JellyBeanWorlds(QUICK, [3])
    worlds.walk(wandering(300, 1))
    x, y = worlds.places[0]
    codes, known = worlds.terrain(0, int(x) - 5, int(y) - 5, 11, 11)
    assert np.array_equal(codes, worlds.views[0])
    assert (known == 2).all()


# --- kernels ----------------------------------------------------------------------------------------------------------


def test_the_first_world_waits_while_another_process_compiles_and_the_next_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling, "_called", set())
    folder = compiling.directory()
    assert folder is not None
    with ThreadPoolExecutor() as threads, (folder / "lock").open("w") as held_by_another:
        fcntl.flock(held_by_another, fcntl.LOCK_EX)
        first = threads.submit(JellyBeanWorlds, QUICK, [1])
        with pytest.raises(TimeoutError):
            first.result(timeout=0.3)
        fcntl.flock(held_by_another, fcntl.LOCK_UN)
        made = first.result()
        fcntl.flock(held_by_another, fcntl.LOCK_EX)
        next_one = threads.submit(JellyBeanWorlds, QUICK, [1]).result(
            timeout=60
        )  # fails, and does not hang, if it waits
        assert (next_one.views == made.views).all()
