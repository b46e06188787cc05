"""Jelly Bean World: the original's traces bit for bit, its statistics, and many worlds side by side."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy import ndimage

from jellybean_walks import DOWN, LEFT, QUICK, RIGHT, TRACES, UP, wandering
from remanence.worlds.jellybean import PRESETS, Box, Item, JellyBean, JellyBeanWorlds, preset
from remanence.worlds.jellybean.energy import FINENESS, HIGHEST, LOWEST, energy, felt, grid
from remanence.worlds.jellybean.random import JUMPS, MODULUS, U, draw, jump
from remanence.worlds.jellybean.sampling import _accepts


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
        views, collected_now = worlds.step(np.array([action]))
        assert np.array_equal(views[0], view)
        assert np.array_equal(worlds.places[0], place)
        assert np.array_equal(worlds.collected[0], collected)
        found = np.zeros(4, int)
        found[collected_now[0]] = 1
        assert np.array_equal(worlds.collected[0] - before, found[1:])
    views, collected_now = worlds.walk(trace["actions"][300:, None])
    assert np.array_equal(views[:, 0], trace["vision"][301:])
    gathered = (collected_now == [1, 2, 3]).cumsum(axis=0)
    assert np.array_equal(gathered, trace["collected"][301:] - trace["collected"][300])
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


def test_there_are_twelve_traces() -> None:
    assert len(TRACES) == 12


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
    """Wherever the gain lies in its bin, a number below `accept_below` accepts, and one from `reject_from` on rejects."""
    table = energy(preset("paper"))
    gains = np.random.default_rng(0).uniform(LOWEST, HIGHEST, 20_000)
    bins = ((gains - LOWEST) * FINENESS).astype(int)
    accept_below, reject_from = table.accept_below[bins], table.reject_from[bins]
    possible, certain = accept_below > 1, (reject_from > 0) & (reject_from < 2**31)
    assert (np.log((accept_below[possible] - 1) / 2.0**31) < gains[possible]).all()
    assert (np.log(reject_from[certain] / 2.0**31) > gains[certain]).all()
    assert (gains[reject_from == 0] < np.log(1 / 2.0**31)).all()
    assert (gains[reject_from < 2**31] < 0).all()
    assert possible.mean() > 0.8
    assert certain.mean() > 0.8
    assert (table.accept_below <= table.reject_from).all()


@numba.njit
def natural_logarithm(u: np.float32) -> np.float32:
    """That of the C library in single precision; NumPy's differs in the last bit."""
    return np.float32(math.log(u))


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_close_decision_adds_in_the_order_of_the_original(name: str, sign: int) -> None:
    """Random numbers right at the limit, which other orders of the sum decide otherwise: its strict build, and left to right."""
    table, one = energy(preset(name)), np.float32(sign)
    kinds, cells = np.float32(np.log(3)), np.float32(2 * np.log(32))
    otherwise = np.zeros(2, int)
    for gain, count in itertools.product(np.arange(-14, 2, 0.5).astype(np.float32), range(1, 120)):
        logarithm = np.float32(np.log(count))
        default = (gain + one * (kinds + cells)) - one * logarithm
        orders = (
            (gain - one * logarithm) + one * (kinds + cells),
            ((gain - one * logarithm) + one * kinds) + one * cells,
        )
        if not -20 < default < 0:
            continue
        middle = int(np.exp(np.float64(default)) * 2**31)
        for bits in range(max(middle - 300, 1), min(middle + 300, MODULUS), 25):
            limit = natural_logarithm(np.float32(bits) / np.float32(MODULUS - 1))
            accepted = _accepts(U(bits), np.float32(gain * FINENESS), one, U(count), table)
            assert accepted == (limit < default)
            otherwise += [accepted != (limit < other) for other in orders]
    assert (otherwise > 0).all()


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
    views, collected_now = together.walk(actions)
    for lane in range(5):
        alone = JellyBeanWorlds(QUICK, [1 + lane])
        own_views, own_finds = alone.walk(actions[:, [lane]])
        assert np.array_equal(own_views[:, 0], views[:, lane])
        assert np.array_equal(own_finds[:, 0], collected_now[:, lane])
        assert np.array_equal(alone.state()["rng"], together.state()["rng"][[lane]])


def test_steps_are_a_walk() -> None:
    actions = wandering(200, 2)
    walked, stepped = JellyBeanWorlds(QUICK, [3, 4]), JellyBeanWorlds(QUICK, [3, 4])
    views, collected_now = walked.walk(actions)
    for action, view, find in zip(actions, views, collected_now, strict=True):
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
    again, collected_now = worlds.walk(back)
    views[:, :, 5] = again[:, :, 5] = 0  # the line of the path, where things were collected
    views[:, :, :, 5] = again[:, :, :, 5] = 0
    assert np.array_equal(views[:-1], again[-2::-1])
    assert not collected_now.any()
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
        _, collected_now = worlds.step(np.array([action]))
        if action == DOWN:  # back in its cell
            assert collected_now[0] == 0
        assert (worlds.terrain(0, x, y, 1, 1, collected=True)[0][0, 0] == found) == acting
