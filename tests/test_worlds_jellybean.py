"""Jelly Bean World: the original's traces bit for bit, its statistics, and what users may do wrong."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import ndimage

import remanence.environments  # noqa: F401  registers the environment
from remanence.errors import UserError
from remanence.worlds.jellybean import PRESETS, Box, Item, JellyBean, JellyBeanWorlds, RewardSchedule, preset
from remanence.worlds.jellybean.energy import FINENESS, HIGHEST, LOWEST, energy, felt, grid
from remanence.worlds.jellybean.gym import JellyBeanEnv
from remanence.worlds.jellybean.memory import Memory
from remanence.worlds.jellybean.pictures import view_picture, view_text, world_picture
from remanence.worlds.jellybean.random import JUMPS, MODULUS, U, draw, jump

TRACES = sorted((Path(__file__).parent / "data" / "jbw").glob("*.npz"))
UP, LEFT, RIGHT, DOWN = range(4)
QUICK = dataclasses.replace(preset("released"), iterations=50)  # where only the bookkeeping matters


def wandering(steps: int, lanes: int, seed: int = 0) -> np.ndarray:
    """[steps, lanes] actions that change now and then, so that agents get far."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.integers(0, 4, (steps // 20 + 1, lanes)), 20, axis=0)[:steps].astype(np.int8)


def bare(rules: JellyBean) -> JellyBean:
    """Items that neither attract nor repel."""
    return dataclasses.replace(
        rules, items=tuple(dataclasses.replace(i, interactions=(None,) * rules.num_kinds) for i in rules.items)
    )


# --- the original -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_traces_of_the_original_are_repeated_bit_for_bit(path: Path) -> None:
    trace = np.load(path)
    rules = preset("paper" if "table" in path.stem else "released")
    rules = dataclasses.replace(rules, deleted_item_lifetime=int(trace["deleted_item_lifetime"]))
    worlds = JellyBeanWorlds(rules, [int(trace["seed"])])
    assert np.array_equal(worlds.observe()[0], trace["vision"][0])
    for action, view, place, collected in zip(
        trace["actions"][:300], trace["vision"][1:], trace["position"][1:], trace["collected"][1:], strict=False
    ):
        before = worlds.collected[0].copy()
        views, finds = worlds.step(np.array([action]))
        assert np.array_equal(views[0], view)
        assert np.array_equal(worlds.places[0], place)
        assert np.array_equal(worlds.collected[0], collected)
        found = np.zeros(4, int)
        found[finds[0]] = 1
        assert np.array_equal(worlds.collected[0] - before, found[1:])
    views, finds = worlds.walk(trace["actions"][300:, None])
    assert np.array_equal(views[:, 0], trace["vision"][301:])
    gathered = [np.bincount(finds[:, 0], minlength=4)[1:], trace["collected"][-1] - trace["collected"][300]]
    assert np.array_equal(*gathered)
    assert np.array_equal(worlds.collected[0], trace["collected"][-1])
    assert np.array_equal(worlds.places[0], trace["position"][-1])


def test_views_are_painted_in_the_colours_of_items() -> None:
    worlds = JellyBeanWorlds(QUICK, [3, 4])
    views = worlds.walk(wandering(50, 2))[0]
    painted = worlds.paint(views)
    assert (painted.shape, painted.dtype) == ((50, 2, 11, 11, 3), np.float32)
    for channel, code in enumerate((3, 2, 1)):  # red, green, blue
        assert np.array_equal(painted[..., channel], views == code)
    bits = np.zeros(painted.shape, bool)
    assert worlds.paint(views, out=bits) is bits
    assert np.array_equal(bits, painted > 0)


def test_there_are_four_traces() -> None:
    assert len(TRACES) == 4


def test_another_seed_is_another_world() -> None:
    trace = np.load(TRACES[0])
    other = JellyBeanWorlds(preset("released"), [int(trace["seed"]) + 1])
    assert not np.array_equal(other.observe()[0], trace["vision"][0])


def sweep() -> np.ndarray:
    """[steps] a walk past each patch of the 512 × 512 cells around the start."""
    to_the_corner = [LEFT] * 224 + [DOWN] * 224
    lines = [[RIGHT if line % 2 == 0 else LEFT] * 448 + [UP] * 64 for line in range(8)]
    return np.array([*to_the_corner, *itertools.chain(*lines)][:-64], np.int8)


# Mean and standard error over 32 seeds of the original: filled cells, green cells, items per patch other than green and their
# standard deviation, mean size of clusters, clusters per 10⁴ cells, shares of clusters of one to four.
ORIGINAL = {
    "paper": ((0.02309, 0.00011), (0.00242, 0.00002), (21.16, 0.11), (4.64, 0.04), (3.672, 0.006), (55.6, 0.2),
        (0.019, 0.001), (0.052, 0.0015), (0.172, 0.0035), (0.753, 0.0045)),
    "released": ((0.06304, 0.00046), (0.00232, 0.00001), (62.18, 0.47), (10.39, 0.12), (2.702, 0.006), (222.7, 1.3),
        (0.271, 0.002), (0.151, 0.0015), (0.184, 0.001), (0.392, 0.0025)),
}  # fmt: skip


def describe(codes: np.ndarray) -> list[float]:
    """What `ORIGINAL` lists, of one map; clusters that touch its edge are left out."""
    gathered = ((codes == 1) | (codes == 3)).reshape(16, 32, 16, 32).sum(axis=(1, 3))
    sizes = []
    for kind in (1, 3):
        labels, _ = ndimage.label(codes == kind, np.ones((3, 3)))  # type: ignore[misc]
        counts = np.bincount(labels.ravel())
        counts[np.unique(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1], [0]]))] = 0
        sizes.append(counts[counts > 0])
    clusters = np.concatenate(sizes)
    shares = [(clusters == size).mean() for size in (1, 2, 3, 4)]
    return [(codes > 0).mean(), (codes == 2).mean(), gathered.mean(), gathered.std(), clusters.mean(),
        len(clusters) / codes.size * 1e4, *shares]  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_statistics_of_the_original(name: str) -> None:
    """16 worlds against the original's 32, each with its error. Nothing is forgotten, so maps are as if nothing was collected."""
    lanes = 16
    worlds = JellyBeanWorlds(dataclasses.replace(preset(name), deleted_item_lifetime=10**9), range(40, 40 + lanes))
    worlds.walk(np.repeat(sweep()[:, None], lanes, axis=1), views=False)
    maps = [worlds.terrain(lane, -256, -256, 512, 512, collected=True) for lane in range(lanes)]
    assert all((known == 2).all() for _, known in maps)
    found = np.array([describe(codes) for codes, _ in maps])
    expected, error = np.array(ORIGINAL[name]).T
    own_error = found.std(axis=0, ddof=1) / np.sqrt(lanes)
    distance = (found.mean(axis=0) - expected) / np.hypot(error, own_error)
    assert np.abs(distance).max() < 4, distance
    # Copied patches let one colour win: the share of blue differs much between worlds (0.24; 0.05 if patches began empty).
    blue = [(codes == 1).sum() / ((codes == 1) | (codes == 3)).sum() for codes, _ in maps]
    assert 0.14 < np.std(blue, ddof=1) < 0.36


# --- the pieces -------------------------------------------------------------------------------------------------------


def test_the_generator_and_its_jumps() -> None:
    """The 10 000th number from 1 is the one that the C++ standard names for minstd_rand."""
    state = U(1)
    for _ in range(10_000):
        state = draw(U(state))
    assert state == 399268537
    for count, factor in enumerate(JUMPS):
        there = U(123456789)
        for _ in range(count):
            there = draw(U(there))
        assert jump(U(123456789), factor) == there == 123456789 * pow(48271, count, MODULUS) % MODULUS


def test_interactions_count_both_ways_and_never_for_the_item_itself() -> None:
    rules = preset("released")
    blue_on_red, blue_on_blue = felt(rules, 0, 2), felt(rules, 0, 0)
    middle = rules.reach
    assert rules.reach == 7
    assert blue_on_blue[middle, middle] == 0
    assert [blue_on_blue[middle + dx, middle + dy] for dx, dy in ((1, 0), (1, 1), (2, 0), (3, 0), (3, 1))] == [
        2,
        2,
        -4,
        -4,
        0,
    ]
    assert [blue_on_red[middle + dx, middle] for dx in (1, 4, 5, 7)] == [-100, -100, -20, -20]
    assert not felt(rules, 1, 0).any()


@pytest.mark.parametrize("name", PRESETS)
def test_strokes_draw_what_is_felt(name: str) -> None:
    rules = preset(name)
    line, plane = grid(rules)
    table = energy(rules)
    cell = 50 * line + 60
    for kind in range(rules.num_kinds):
        field = np.zeros(rules.num_kinds * plane)
        for stroke in range(table.first_stroke[kind], table.first_stroke[kind + 1]):
            place = cell + table.stroke_place[stroke]
            field[place : place + 8] += table.strokes[8 * stroke : 8 * stroke + 8] / FINENESS
        for other in range(rules.num_kinds):
            spread = field[other * plane : other * plane + line * line].reshape(line, line)
            near = spread[50 - rules.reach : 51 + rules.reach, 60 - rules.reach : 61 + rules.reach]
            assert np.array_equal(near, felt(rules, kind, other))
            assert np.abs(spread).sum() == np.abs(near).sum()


def test_thresholds_leave_no_wrong_decision() -> None:
    """Wherever the gain lies in its bin, a number below `surely` accepts, and one from `hardly` on rejects."""
    table = energy(preset("paper"))
    gains = np.random.default_rng(0).uniform(LOWEST, HIGHEST, 20_000)
    bins = ((gains - LOWEST) * FINENESS).astype(int)
    surely, hardly = table.surely[bins], table.hardly[bins]
    possible, certain = surely > 1, (hardly > 0) & (hardly < 2**31)
    assert (np.log((surely[possible] - 1) / 2.0**31) < gains[possible]).all()
    assert (np.log(hardly[certain] / 2.0**31) > gains[certain]).all()
    assert (gains[hardly == 0] < np.log(1 / 2.0**31)).all()
    assert (gains[hardly < 2**31] < 0).all()
    assert possible.mean() > 0.8
    assert certain.mean() > 0.8
    assert (table.surely <= table.hardly).all()


def test_items_without_interactions_lie_as_often_as_their_intensity_says() -> None:
    """Odds e^h per cell and kind against an empty cell: with −3, −4 and −3.5, after enough iterations."""
    rules = bare(preset("paper"))
    items = tuple(dataclasses.replace(i, intensity=h) for i, h in zip(rules.items, (-3.0, -4.0, -3.5), strict=True))
    worlds = JellyBeanWorlds(dataclasses.replace(rules, items=items), range(1, 41))
    maps = np.stack([worlds.terrain(lane, -32, -32, 64, 64)[0] for lane in range(worlds.lanes)])
    odds = np.exp([-3.0, -4.0, -3.5])
    expected = odds / (1 + odds.sum())
    found = np.array([(maps == kind).mean() for kind in (1, 2, 3)])
    assert np.abs(found - expected).max() < 4 * np.sqrt(expected.max() / maps.size)


def test_two_kinds_in_small_patches_with_a_size_that_is_no_power_of_two() -> None:
    """Pairs weigh twice their interaction: neighbours e^{2 (h + J)}, counted against pairs that do not touch."""
    pull = Box(2, 0, 1.0, 0)
    items = (Item("a", (1, 0, 0), -4.0, (pull, None)), Item("b", (0, 1, 0), -4.0, (None, None)))
    rules = JellyBean(items, patch_size=10, vision_range=3, iterations=300)
    worlds = JellyBeanWorlds(rules, range(1, 1201))
    maps = np.stack([worlds.terrain(lane, -10, -10, 20, 20)[0] for lane in range(worlds.lanes)])
    one = maps == 1
    near = (one[:, 1:] & one[:, :-1]).mean() / one.mean() ** 2
    far = (one[:, 5:] & one[:, :-5]).mean() / one.mean() ** 2
    assert near == pytest.approx(np.exp(2.0), rel=0.25)
    assert far == pytest.approx(1.0, rel=0.25)
    other = maps == 2
    assert (other[:, 1:] & other[:, :-1]).mean() / other.mean() ** 2 == pytest.approx(1.0, rel=0.4)


def assert_same_state(one: JellyBeanWorlds, other: JellyBeanWorlds) -> None:
    first, second = one.state(), other.state()
    assert [name for name in first if not np.array_equal(first[name], second[name])] == []


# --- many worlds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_a_world_does_not_depend_on_its_neighbours_or_threads(threads: int) -> None:
    actions = wandering(600, 5)
    together = JellyBeanWorlds(QUICK, range(1, 6), threads)
    views, finds = together.walk(actions)
    for lane in range(5):
        alone = JellyBeanWorlds(QUICK, [1 + lane])
        own_views, own_finds = alone.walk(actions[:, [lane]])
        assert np.array_equal(own_views[:, 0], views[:, lane])
        assert np.array_equal(own_finds[:, 0], finds[:, lane])
        assert np.array_equal(alone.state()["rng"], together.state()["rng"][[lane]])


def test_steps_are_a_walk() -> None:
    actions = wandering(200, 2)
    walked, stepped = JellyBeanWorlds(QUICK, [3, 4]), JellyBeanWorlds(QUICK, [3, 4])
    views, finds = walked.walk(actions)
    for action, view, find in zip(actions, views, finds, strict=True):
        seen, found = stepped.step(action)
        assert np.array_equal(seen, view)
        assert np.array_equal(found, find)
    assert_same_state(walked, stepped)
    only_last, _ = JellyBeanWorlds(QUICK, [3, 4]).walk(actions, views=False)
    assert np.array_equal(only_last, views[-1])


@pytest.mark.parametrize("name", PRESETS)
def test_a_kept_world_goes_on_as_if_nothing_had_happened(name: str, tmp_path: Path) -> None:
    """Through a file without pickles; short lifetimes, so that deleted items run out on both sides of the break."""
    rules = dataclasses.replace(preset(name), iterations=200, deleted_item_lifetime=30)
    actions = wandering(3_000, 3)
    worlds = JellyBeanWorlds(rules, [5, 6, 7])
    worlds.walk(actions[:1_501])
    np.savez(tmp_path / "state.npz", **worlds.state())  # type: ignore[arg-type]
    seen = worlds.observe().copy()
    expected = worlds.walk(actions[1_501:])
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        restored = JellyBeanWorlds.restore(rules, state)
    assert np.array_equal(restored.observe(), seen)
    found = restored.walk(actions[1_501:])
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    assert_same_state(worlds, restored)
    for lane in range(3):
        here = worlds.terrain(lane, -300, -300, 600, 600)
        assert all(
            np.array_equal(a, b) for a, b in zip(here, restored.terrain(lane, -300, -300, 600, 600), strict=True)
        )


def test_memory_grows_without_being_noticed() -> None:
    """A walk that enlarges each pool repeatedly; then all that was seen is still there."""
    worlds = JellyBeanWorlds(QUICK, [9])
    there, back = np.full((20_000, 1), RIGHT), np.full((20_000, 1), LEFT)
    views, _ = worlds.walk(there)
    again, finds = worlds.walk(back)
    views[:, :, 5] = again[:, :, 5] = 0  # the line of the path, where things were collected
    views[:, :, :, 5] = again[:, :, :, 5] = 0
    assert np.array_equal(views[:-1], again[-2::-1])
    assert not finds.any()
    assert sum(array.nbytes for array in worlds.state().values()) < 3e6


def test_collected_items_vanish_at_once_and_act_until_their_time_is_over() -> None:
    """With a lifetime of 3, an item collected at time t acts on terrain made in the steps to t + 3, then it is purged."""
    worlds = JellyBeanWorlds(dataclasses.replace(preset("released"), deleted_item_lifetime=3), [5])
    found = 0
    while not found:
        found = int(worlds.step(np.array([RIGHT]))[1][0])
        assert worlds.time[0] < 1_000
    x, y = worlds.places[0].tolist()
    assert worlds.collected[0, found - 1] == 1
    for action, acting in ((UP, True), (DOWN, True), (UP, False)):
        assert worlds.terrain(0, x, y, 1, 1, collected=True)[0][0, 0] == found
        assert worlds.terrain(0, x, y, 1, 1)[0][0, 0] == 0
        _, finds = worlds.step(np.array([action]))
        if action == DOWN:  # back in its cell
            assert finds[0] == 0
        assert (worlds.terrain(0, x, y, 1, 1, collected=True)[0][0, 0] == found) == acting


# --- rewards, policies ------------------------------------------------------------------------------------------------


def test_rewards_change_with_the_task() -> None:
    schedule = RewardSchedule(every=10)
    finds = np.array([0, 1, 2, 3])
    assert schedule.rewards(9, finds).tolist() == [0, 2, 0.1, -1]
    assert schedule.rewards(10, finds).tolist() == [0, -1, 0.1, 2]
    assert schedule.rewards(np.array([9, 19, 20, 39]), finds).tolist() == [0, -1, 0.1, 2]
    assert RewardSchedule(every=None).rewards(10**6, finds).tolist() == [0, 2, 0.1, -1]


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
        "import remanence, gymnasium; gymnasium.make('remanence.environments:remanence/JellyBeanWorld-v0')",
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


# --- mistakes ---------------------------------------------------------------------------------------------------------

BLUE, GREEN, RED = preset("paper").items


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": ()}, "at least one kind"),
        ({"items": (BLUE, GREEN, BLUE)}, "a name of its own"),
        ({"items": (BLUE, GREEN, dataclasses.replace(RED, colour=(0, 0, 1)))}, "a colour of its own"),
        ({"items": (BLUE, GREEN)}, "each of the 2 kinds"),
        ({"patch_size": 20}, "use a patch size of at least 24"),
        ({"patch_size": 33}, "must be even"),
        ({"patch_size": 256}, "use a smaller patch size"),
        ({"vision_range": 16}, "less than half a patch"),
        ({"vision_range": -1}, "at least 0"),
        ({"iterations": -1}, "cannot be negative"),
        ({"deleted_item_lifetime": 0}, "at least 1"),
    ],
)
def test_rules_that_make_no_world_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        dataclasses.replace(preset("paper"), **change)


def test_items_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        Item("odd", (0, -1, 0), 0.0, (None,))
    with pytest.raises(UserError, match="one finite number"):
        Item("odd", (0, 1, 0), float("nan"), (None,))
    with pytest.raises(UserError, match="other functions are not supported"):
        Item("odd", (0, 1, 0), 0.0, ("cross",))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="cannot be negative"):
        Box(-1, 2, 0, 0)
    with pytest.raises(UserError, match="did you mean 'paper'"):
        preset("papers")


@pytest.mark.parametrize("seed", [-1, 2**31 - 1, 2.5])
def test_seeds_that_do_not_exist_are_refused(seed: Any) -> None:
    with pytest.raises(UserError, match="a seed must be"):
        JellyBeanWorlds(QUICK, [seed])


def test_seed_0_is_seed_1_and_says_so() -> None:
    with pytest.warns(UserWarning, match="the same Jelly Bean World as seed 1"):
        worlds = JellyBeanWorlds(QUICK, [0, 1, 2])
    views, _ = worlds.walk(np.repeat(wandering(100, 1), 3, axis=1))
    assert np.array_equal(views[:, 0], views[:, 1])
    assert not np.array_equal(views[:, 0], views[:, 2])


@pytest.mark.parametrize("actions", [[4], [-1], [0.5], [0, 0], [[0]]])
def test_actions_that_do_not_exist_are_refused(actions: list[Any]) -> None:
    worlds = JellyBeanWorlds(QUICK, [3])
    with pytest.raises(UserError, match="action"):
        worlds.step(np.array(actions))
    assert worlds.time[0] == 0


def test_the_world_ends_before_numbers_do() -> None:
    """A world that is moved far to the right, and then goes on."""
    worlds = JellyBeanWorlds(QUICK, [3])
    state, patches = worlds.state(), 2**26 - 20
    state["patch_x"] += patches
    state["place"][0, 0] += 32 * patches
    far = JellyBeanWorlds.restore(QUICK, state)
    views, _ = far.walk(np.full((400, 1), RIGHT))
    assert np.array_equal(views, worlds.walk(np.full((400, 1), RIGHT))[0])
    with pytest.raises(UserError, match="cannot go farther"):
        far.walk(np.full((300, 1), RIGHT))
    state = worlds.state()
    state["time"][0] = 2**31 - 10
    with pytest.raises(UserError, match="cannot go farther"):
        JellyBeanWorlds.restore(QUICK, state).walk(np.full((10, 1), RIGHT))


def test_a_foreign_state_is_refused() -> None:
    worlds = JellyBeanWorlds(QUICK, [3])
    with pytest.raises(UserError, match="no 'rng'"):
        JellyBeanWorlds.restore(QUICK, {})
    with pytest.raises(UserError, match="does not fit"):
        JellyBeanWorlds.restore(QUICK, {**worlds.state(), "codes": np.zeros(3, np.uint16)})
    assert set(worlds.state()) == set(Memory._fields)


@pytest.mark.parametrize(
    "name", ["rng", "row_start", "row_count", "slots", "patch_start", "patch_count", "patch_gone", "codes"]
)
def test_a_damaged_state_is_refused(name: str) -> None:
    state = JellyBeanWorlds(QUICK, [3]).state()
    state[name] = np.full_like(state[name], np.iinfo(state[name].dtype).max)
    with pytest.raises(UserError, match="damaged"):
        JellyBeanWorlds.restore(QUICK, state)
    state = JellyBeanWorlds(QUICK, [3]).state()
    state["place"] += 10_000
    with pytest.raises(UserError, match="no map where an agent stands"):
        JellyBeanWorlds.restore(QUICK, state)


def test_other_mistakes() -> None:
    with pytest.raises(UserError, match="at least one seed"):
        JellyBeanWorlds(QUICK, [])
    with pytest.raises(UserError, match="at least one thread"):
        JellyBeanWorlds(QUICK, [1], threads=0)
    with pytest.raises(UserError, match="at least one step"):
        RewardSchedule(every=0)
    with pytest.raises(UserError, match="one reward for each kind"):
        RewardSchedule(((1.0,), (1.0, 2.0)))
    with pytest.raises(UserError, match="did you mean 'paper'"):
        JellyBeanEnv(preset="papers")
    with pytest.raises(UserError, match="3 rewards"):
        JellyBeanEnv(rewards=((1.0, 2.0),))
    with pytest.raises(UserError, match="render mode"):
        JellyBeanEnv(render_mode="svg")
    with pytest.raises(UserError, match=r"call reset\(\) first"):
        JellyBeanEnv().step(0)
