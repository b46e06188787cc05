"""Rooms with a first-person view (paper, §5.1 and §5.2); `layouts.py` has the paper's two.

The rules and the view are those of Minigrid (https://minigrid.farama.org), which is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core.errors import UserError, unknown
from remanence.core.prng import randint
from remanence.core.types import Key, ObsSpec, TimeStep
from remanence.worlds.base import World
from remanence.worlds.rooms.sight import (
    COLOURS,
    EMPTY,
    ENCODINGS,
    GOAL,
    ITEM_COLOURS,
    UNSEEN,
    WALL,
    encode,
    symbol,
    visible,
)

Cell: TypeAlias = tuple[int, int]  # x from the left, y from the top

LEFT, RIGHT, FORWARD = range(3)
TURNS = np.array([-1, 1, 0])  # what each action adds to the direction
AHEAD = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # right, down, left, up, as (x, y) with y downwards


class Goal(NamedTuple):
    """A cell that ends the episode. `prize` is the index of its reward in a task; None: reward 0."""

    cell: Cell
    prize: int | None = None


class Items(NamedTuple):
    """Items of one kind: balls of one of the `COLOURS`. `prize` is the index of their reward in a task; None: reward 0."""

    colour: str
    cells: tuple[Cell, ...]
    prize: int | None = None


class Start(NamedTuple):
    """The random start of an episode."""

    cell: Array  # []
    direction: Array  # []


class RoomsState(NamedTuple):
    """The state of an episode."""

    cell: Array  # []  x + width · y
    direction: Array  # []  0 right, 1 down, 2 left, 3 up
    items: Array  # [items]  whether each item is still there
    steps: Array  # []  taken in this episode


class _Tables(NamedTuple):
    """Lookup tables. Where there is no item, `item` is the number of items; without a prize, likewise.

    Tables over cells have one more row, for the outside.
    """

    starts: np.ndarray  # [starts]  the free ones
    successors: np.ndarray  # [cells, directions]  the next cell of a step forward
    goal: np.ndarray  # [cells]  whether the episode ends there
    item: np.ndarray  # [cells]  the item in each cell
    prize: np.ndarray  # [cells]  index of the cell's reward in the task
    symbols: np.ndarray  # [cells, directions, n, n, 3]  the view while all items are there
    codes: np.ndarray  # [cells, directions, n, n, channels]  the same, encoded
    items_in_view: np.ndarray  # [cells, directions, n, n]  the visible item


@dataclass(frozen=True)
class Rooms(World):
    """A rectangle of cells with walls, goals and items, of which the agent sees the part in front of it.

    Actions: turn left, turn right, one cell forward. Walls and the edge stop the agent. Entering the cell of an item removes it
    and gives the reward of its kind; entering a goal gives its reward and ends the episode. After `step_limit` steps the
    episode is truncated: `last` is true, but the discount is not 0. An episode starts in one of the cells of `starts` that are
    free of walls, goals and items, in a random direction, all equally likely. With `turns_also_move`, a turn is followed by a
    step forward, as (by mistake) in the released item rooms.

    The view is a square of `view`² cells, the agent in the middle of its last row, looking towards the first. Its axes are
    Minigrid's: [across from left to right, from far to near]. Walls hide the cells behind them, cells outside look like walls,
    and the agent's cell looks empty.

    Observation: bool, [view, view, channels]. Encoding "minigrid" has 20 channels: one-hot type (11), colour (6) and
    state (3), as Minigrid's `OneHotPartialObsWrapper`. Encoding "things" has 5: a blue, red, yellow or purple item, a goal; floor,
    walls and unseen cells are all zero. It is our reading of the paper's 5×5×5: four kinds of item and one more channel.

    Task: the rewards, [num_prizes], indexed by the prizes of `items` and `goals`.
    """

    width: int
    height: int
    starts: tuple[Cell, ...]
    walls: tuple[Cell, ...] = ()
    goals: tuple[Goal, ...] = ()
    items: tuple[Items, ...] = ()
    view: int = 5
    step_limit: int | None = None
    discount: float = 0.99
    encoding: str = "minigrid"
    turns_also_move: bool = False
    num_actions = 3
    rewards_of_task = True

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise UserError(f"rooms need at least one cell; got {self.width} by {self.height}")
        if self.view < 3 or self.view % 2 == 0:
            raise UserError(f"the view needs an odd size of at least 3, so that it has a middle; got {self.view}")
        if self.step_limit is not None and self.step_limit < 1:
            raise UserError(f"the step limit must be at least 1, or None for no limit; got {self.step_limit}")
        if not 0.0 <= self.discount <= 1.0:
            raise UserError(f"the discount must be in [0, 1]; got {self.discount}")
        if self.encoding not in ENCODINGS:
            raise unknown("encoding", self.encoding, ENCODINGS)
        self._check_items()
        self._check_prizes()
        self._check_cells()

    def _check_items(self) -> None:
        for kind in self.items:
            if kind.colour not in COLOURS:
                raise unknown("colour", kind.colour, COLOURS)
            if self.encoding == "things" and kind.colour not in ITEM_COLOURS:
                raise UserError(
                    f"the encoding 'things' shows items in {', '.join(ITEM_COLOURS)}, not in {kind.colour}: "
                    "use the encoding 'minigrid'"
                )

    def _check_prizes(self) -> None:
        prizes = self._prizes
        if prizes != list(range(len(prizes))):
            raise UserError(f"the prizes of rooms are numbered 0, 1, … without a gap; got {prizes}")

    def _check_cells(self) -> None:
        filled: dict[Cell, str] = {}
        for what, cell in self._contents():
            self._check_inside(cell)
            if cell in filled:
                raise UserError(f"cell {cell} cannot hold both {filled[cell]} and {what}")
            filled[cell] = what
        for cell in self.starts:
            self._check_inside(cell)
        if set(self.starts) <= set(filled):
            raise UserError("no start cell is free of walls, goals and items")

    def _check_inside(self, cell: Cell) -> None:
        x, y = cell
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise UserError(f"cell {cell} lies outside rooms of {self.width} by {self.height}")

    def _contents(self) -> Iterable[tuple[str, Cell]]:
        """The content of each cell."""
        yield from (("a wall", cell) for cell in self.walls)
        yield from (("a goal", goal.cell) for goal in self.goals)
        yield from ((f"a {kind.colour} item", cell) for kind in self.items for cell in kind.cells)

    @property
    def _prizes(self) -> list[int]:
        return sorted({thing.prize for thing in (*self.items, *self.goals) if thing.prize is not None})

    @property
    def num_prizes(self) -> int:
        return len(self._prizes)

    @property
    def num_items(self) -> int:
        return sum(len(kind.cells) for kind in self.items)

    @property
    def observation(self) -> ObsSpec:
        return ObsSpec((self.view, self.view, ENCODINGS[self.encoding]), "bool")

    def cell(self, place: Cell) -> int:
        """The number of a cell."""
        return place[0] + self.width * place[1]

    def reset(self, key: Key, task: Array) -> tuple[RoomsState, Array]:
        del task
        return self.begin(self.draw(key))

    def draw(self, key: Key) -> Start:
        starts = self._tables.starts
        number = randint(key, len(starts) * len(AHEAD))
        return Start(jnp.asarray(starts)[number // len(AHEAD)], number % len(AHEAD))

    def begin(self, start: Start) -> tuple[RoomsState, Array]:
        """The start of an episode, given the draws."""
        items = jnp.ones(self.num_items, bool)
        state = RoomsState(jnp.int32(start.cell), jnp.int32(start.direction), items, jnp.int32(0))
        return state, self.observe(state)

    def step(self, key: Key, state: RoomsState, action: Array, task: Array) -> tuple[RoomsState, TimeStep]:
        del key
        return self.apply(state, action, task)

    def apply(self, state: RoomsState, action: Array, task: Array) -> tuple[RoomsState, TimeStep]:
        """A step; it is deterministic."""
        tables = self._tables
        direction = (state.direction + jnp.asarray(TURNS, jnp.int32)[action]) % len(AHEAD)
        ahead = jnp.asarray(tables.successors)[state.cell, direction]
        cell = jnp.where(self.turns_also_move | (action == FORWARD), ahead, state.cell)
        taken = state.items & (jnp.arange(self.num_items) == jnp.asarray(tables.item)[cell])  # [items]
        after = RoomsState(cell, direction, state.items & ~taken, state.steps + 1)

        ended = jnp.asarray(tables.goal)[cell]
        cut = False if self.step_limit is None else after.steps >= self.step_limit
        paid = (jnp.arange(self.num_prizes) == jnp.asarray(tables.prize)[cell]) & (ended | jnp.any(taken))
        reward = jnp.sum(jnp.where(paid, task, 0.0))
        return after, TimeStep(self.observe(after), reward, jnp.where(ended, 0.0, self.discount), ended | cut)

    def observe(self, state: RoomsState) -> Array:
        """[view, view, channels] the agent's view, encoded."""
        return self._look(state, self._tables.codes, encode(EMPTY, self.encoding))

    def symbols(self, state: RoomsState) -> Array:
        """[view, view, 3] the agent's view as Minigrid's numbers of type, color and state, uint8."""
        return self._look(state, self._tables.symbols, EMPTY)

    def _look(self, state: RoomsState, views: np.ndarray, without_items: np.ndarray) -> Array:
        """The agent's view, with `empty` in place of collected items."""
        view = jnp.asarray(views)[state.cell, state.direction]
        if not self.num_items:
            return view
        item = jnp.asarray(self._tables.items_in_view)[state.cell, state.direction]
        unchanged = state.items.at[item].get(mode="fill", fill_value=True)  # [view, view]
        return jnp.where(unchanged[..., None], view, jnp.asarray(without_items))

    @cached_property
    def _tables(self) -> _Tables:
        outside = self.width * self.height  # the number of the outside: it looks like a wall and blocks like one
        symbols = np.tile(EMPTY, (outside + 1, 1))
        item = np.full(outside + 1, self.num_items, np.int32)
        prize = np.full(outside + 1, self.num_prizes, np.int32)
        symbols[[outside, *map(self.cell, self.walls)]] = WALL
        wall = np.all(symbols == WALL, axis=-1)
        for goal in self.goals:
            symbols[self.cell(goal.cell)] = GOAL
            prize[self.cell(goal.cell)] = self.num_prizes if goal.prize is None else goal.prize
        item[[self.cell(cell) for kind in self.items for cell in kind.cells]] = np.arange(self.num_items)
        for kind in self.items:
            cells = [self.cell(cell) for cell in kind.cells]
            symbols[cells] = symbol("ball", kind.colour)
            prize[cells] = self.num_prizes if kind.prize is None else kind.prize

        window, middle, last = self._window(), self.view // 2, self.view - 1
        seen = visible(wall[window])
        views = np.where(seen[..., None], symbols[window], UNSEEN)
        views[..., middle, last, :] = EMPTY
        items_in_view = np.where(seen, item[window], self.num_items)
        items_in_view[..., middle, last] = self.num_items
        here, ahead = window[..., middle, last], window[..., middle, last - 1]
        free = [self.cell(cell) for cell in dict.fromkeys(self.starts) if (symbols[self.cell(cell)] == EMPTY).all()]
        return _Tables(
            starts=np.array(free, np.int32),
            successors=np.where(wall[ahead], here, ahead),
            goal=np.all(symbols == GOAL, axis=-1),
            item=item,
            prize=prize,
            symbols=views,
            codes=encode(views, self.encoding),
            items_in_view=items_in_view,
        )

    def _window(self) -> np.ndarray:
        """[cells, directions, n, n] the cell at each position of the view, and one number for the outside."""
        y, x = np.divmod(np.arange(self.width * self.height), self.width)
        places = np.stack([x, y], axis=-1)
        across = np.arange(self.view)[:, None, None] - self.view // 2  # [n, 1, 1]
        away = self.view - 1 - np.arange(self.view)[:, None]  # [n, 1]
        to_the_right = np.roll(AHEAD, -1, axis=0)[:, None, None]  # [directions, 1, 1, 2]
        seen = places[:, None, None, None] + across * to_the_right + away * AHEAD[:, None, None]
        inside = np.all((seen >= 0) & (seen < [self.width, self.height]), axis=-1)
        return np.where(inside, seen[..., 0] + self.width * seen[..., 1], len(places)).astype(np.int32)
