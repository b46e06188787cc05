"""Many Jelly Bean Worlds, stepped together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from remanence.core.errors import UserError
from remanence.core.native.compiling import first_one_at_a_time
from remanence.worlds.jellybean import directory
from remanence.worlds.jellybean import memory as memories
from remanence.worlds.jellybean.energy import energy
from remanence.worlds.jellybean.items import ACTIONS, JellyBean
from remanence.worlds.jellybean.patches import find
from remanence.worlds.jellybean.random import MODULUS, seeded
from remanence.worlds.jellybean.sampling import make_terrain, workspace
from remanence.worlds.jellybean.walking import DONE, NO_TERRAIN, TOO_FAR, blank_sight, look, walk

FIRST_TIMES = 10  # factor of iterations where an agent starts


class JellyBeanWorlds:
    """Infinite maps of items, one per lane, each with one agent that starts at (0, 0).

    The world of a seed is that of the original simulator: bit for bit if all numbers of its items are dyadic fractions. Every
    action moves the agent by one cell; an item in a cell it enters is collected. Terrain is generated when the agent first comes
    near, and stays; collected items do not return.

    Steps overwrite the arrays `views`, `collected_now`, `places` and `collected`: copy them to keep them.
    """

    def __init__(self, rules: JellyBean, seeds: Sequence[int], threads: int = 1) -> None:
        """`threads`: how many threads generate terrain in parallel; results do not depend on it."""
        for seed in seeds:
            if not 0 <= seed < MODULUS or seed != int(seed):
                raise UserError(f"a seed must be a whole number, at least 0 and less than 2³¹ − 1; got {seed}")
        if 0 in seeds:
            warnings.warn("seed 0 is the same Jelly Bean World as seed 1", stacklevel=2)
        self._prepare(rules, len(seeds), threads)
        everyone = np.ones(len(seeds), bool)
        self._memory = memories.with_room(memories.empty_memory(rules, len(seeds)), rules, everyone)
        self._memory.rng[:] = [seeded(int(seed)) for seed in seeds]
        with first_one_at_a_time("terrain"):
            self._make_terrain(list(range(len(seeds))), FIRST_TIMES * rules.iterations)
            look(self._memory, self._sight, rules.patch_size, self.views)

    def _prepare(self, rules: JellyBean, lanes: int, threads: int) -> None:
        if lanes < 1:
            raise UserError("at least one seed is needed: one for each world")
        if threads < 1:
            raise UserError(f"at least one thread is needed; got {threads}")
        self.rules, self.lanes = rules, lanes
        self.views = np.zeros((lanes, rules.view, rules.view), np.uint8)
        self.collected_now = np.zeros(lanes, np.uint8)
        self._sight = blank_sight(rules, lanes)
        self._energy, self._colours = energy(rules), rules.colours
        self._workspaces = [workspace(rules) for _ in range(min(threads, lanes))]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    @property
    def places(self) -> np.ndarray:
        """[lanes, 2] the agents' positions, x to the right and y upwards."""
        return self._memory.place

    @property
    def collected(self) -> np.ndarray:
        """[lanes, kinds] items of each kind collected since the beginning."""
        return self._memory.collected

    @property
    def time(self) -> np.ndarray:
        """[lanes] steps taken."""
        return self._memory.time

    def observe(self) -> np.ndarray:
        """[lanes, view, view] the agents' views, by x and by y upwards: 0 for nothing, else 1 + the kind of the item."""
        return self.views

    def paint(self, views: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """[..., 3] red, green and blue of a view, as float32, or written to `out` in its dtype."""
        colours = self._colours if out is None else self._colours.astype(out.dtype)
        return np.take(colours, views, axis=0, out=out, mode="clip")

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moves every agent: 0 up, 1 left, 2 right, 3 down.

        Returns: the next views, as `observe`, and what was collected, [lanes]: 0 for nothing, else 1 + the kind of the item.
        """
        self._walk(np.asarray(actions)[None], self.views[None], self.collected_now[None])
        return self.views, self.collected_now

    def walk(self, actions: np.ndarray, views: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Many steps in one call, [steps, lanes]; equal to repeated `step`.

        Returns: all views, [steps, lanes, view, view], or only the last one, [lanes, view, view]; collected items, [steps, lanes].
        """
        actions = np.asarray(actions)
        seen = np.empty((len(actions) if views else 1, *self.views.shape), np.uint8)
        collected_now = np.zeros(actions.shape, np.uint8)
        if len(actions):
            self._walk(actions, seen, collected_now)
            self.views[:], self.collected_now[:] = seen[-1], collected_now[-1]
        return seen if views else self.views, collected_now

    def _walk(self, actions: np.ndarray, views: np.ndarray, collected_now: np.ndarray) -> None:
        if actions.shape[1:] != (self.lanes,):
            raise UserError(f"{self.lanes} worlds need as many actions; got the shape {actions.shape[1:]}")
        if actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() >= len(ACTIONS):
            raise UserError("actions are 0 (up), 1 (left), 2 (right) and 3 (down)")
        rules = self.rules
        actions = actions.astype(np.int8, copy=False)
        self._sight.taken[:] = 0
        while not walk(
            self._memory, self._sight, actions, rules.patch_size, rules.deleted_item_lifetime, views, collected_now
        ):
            status = self._sight.status
            if (status == TOO_FAR).any():
                raise UserError("agents cannot go farther than 2³¹ cells or steps: start a new world")
            self._memory = memories.with_room(self._memory, rules, status != DONE)
            self._make_terrain(np.flatnonzero(status == NO_TERRAIN).tolist(), rules.iterations)

    def publish(self, number: int) -> None:
        """Lets the handler in `direct.py` step this map, which has one lane."""
        directory.publish(number, self.rules, self._memory, self._sight)

    def _make_terrain(self, lanes: list[int], iterations: int) -> None:
        """Generates the terrain these lanes wait for."""
        shares = min(len(self._workspaces), len(lanes))

        def work(share: int) -> None:
            for lane in lanes[share::shares]:
                make_terrain(self._memory, lane, self._sight.ahead, iterations, self._energy, self._workspaces[share])

        if self._pool and shares > 1:
            list(self._pool.map(work, range(shares)))
        elif shares:
            work(0)

    def terrain(
        self, lane: int, left: int, bottom: int, width: int, height: int, collected: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """A rectangle of the current map, by x and y.

        Args: collected: whether to show collected items that still affect new terrain.
        Returns:
            [width, height] the items, as in `observe`; and 0 where there is no map yet, 1 where it may change, else 2.
        """
        size, memory = self.rules.patch_size, self._memory
        first_x, first_y = left // size, bottom // size
        across, up = (left + width - 1) // size - first_x + 1, (bottom + height - 1) // size - first_y + 1
        codes, certainty = np.zeros((2, across * size, up * size), np.uint8)
        for i, j in np.ndindex(across, up):
            patch = find(memory, lane, first_x + i, first_y + j)
            if patch >= 0:
                kinds, x, y = memories.items(memory, self.rules, lane, patch, collected)
                codes[i * size + x, j * size + y] = 1 + kinds
                certainty[i * size : (i + 1) * size, j * size : (j + 1) * size] = 1 + memory.patch_fixed[lane, patch]
        part = (
            slice(left - first_x * size, left - first_x * size + width),
            slice(bottom - first_y * size, bottom - first_y * size + height),
        )
        return codes[part], certainty[part]

    def state(self) -> dict[str, np.ndarray]:
        """The full state as plain arrays."""
        return memories.pack(self._memory)

    @classmethod
    def restore(cls, rules: JellyBean, state: Mapping[str, np.ndarray], threads: int = 1) -> JellyBeanWorlds:
        """Worlds restored from a `state`; they continue bit for bit."""
        worlds = cls.__new__(cls)
        memory = memories.unpack(state, rules)
        worlds._prepare(rules, len(memory.time), threads)
        worlds._memory = memory
        if not look(memory, worlds._sight, rules.patch_size, worlds.views):
            raise UserError("this state of a Jelly Bean World is damaged: there is no map at an agent's position")
        return worlds
