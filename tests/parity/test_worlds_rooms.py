"""Rooms against the real Minigrid, step by step, and by hand where Minigrid has nothing to say."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Wall
from minigrid.core.world_object import Goal as MinigridGoal
from minigrid.minigrid_env import MiniGridEnv
from minigrid.wrappers import OneHotPartialObsWrapper

from conftest import key_stub
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.worlds import ITEM_ROOMS_TASKS, TWO_ROOMS_TASKS, Goal, Items, Rooms, RoomsState, item_rooms, two_rooms
from remanence.worlds.rooms.sight import COLOURS
from remanence.worlds.rooms.world import FORWARD, LEFT, RIGHT, Start

Cell = tuple[int, int]
DIRECTIONS = {">": 0, "v": 1, "<": 2, "^": 3}
ITEM_SIGNS = {"b": "blue", "r": "red", "y": "yellow", "p": "purple"}


# --- the oracle ------------------------------------------------------------------------------------------------------------


class Treat(Ball):
    """A ball that can be walked over."""

    def can_overlap(self) -> bool:
        return True


class Oracle(MiniGridEnv):
    """The same rooms in Minigrid, which moves the agent, ends and cuts episodes, and draws the view."""

    def __init__(self, rooms: Rooms, task: np.ndarray, place: Cell, direction: int) -> None:
        self.rooms, self.place, self.facing = rooms, place, direction
        things = [(goal.cell, goal.prize) for goal in rooms.goals]
        things += [(cell, kind.prize) for kind in rooms.items for cell in kind.cells]
        self.pays = {cell: 0.0 if prize is None else float(task[prize]) for cell, prize in things}
        super().__init__(
            MissionSpace(mission_func=lambda: "walk"),
            width=rooms.width,
            height=rooms.height,
            max_steps=rooms.step_limit or 10**9,
            agent_view_size=rooms.view,
            see_through_walls=False,
        )

    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = Grid(width, height)
        for x, y in self.rooms.walls:
            self.grid.set(x, y, Wall())
        for goal in self.rooms.goals:
            self.grid.set(*goal.cell, MinigridGoal())
        for kind in self.rooms.items:
            for x, y in kind.cells:
                self.grid.set(x, y, Treat(kind.colour))
        self.agent_pos, self.agent_dir = self.place, self.facing

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.rooms.turns_also_move and action != FORWARD:  # two of Minigrid's actions in one step
            super().step(action)
            self.step_count -= 1
            action = FORWARD
        before = tuple(self.agent_pos)
        _, _, terminated, truncated, _ = super().step(action)
        here = (int(self.agent_pos[0]), int(self.agent_pos[1]))
        reward = self.pays.get(here, 0.0) if here != before and self.grid.get(*here) is not None else 0.0
        if isinstance(self.grid.get(*here), Treat):
            self.grid.set(*here, None)
        return self.gen_obs(), reward, terminated, truncated, {}


def things(symbols: np.ndarray) -> np.ndarray:
    """[n, n, 5] the encoding "things", cell by cell from Minigrid's numbers (ball 6, goal 8; red 0, blue 2, purple 3, yellow 4)."""
    channel = {(6, 2): 0, (6, 0): 1, (6, 4): 2, (6, 3): 3, (8, 1): 4}
    encoded = np.zeros((*symbols.shape[:2], 5), bool)
    for i, j in np.ndindex(symbols.shape[:2]):
        what = channel.get((int(symbols[i, j, 0]), int(symbols[i, j, 1])))
        if what is not None:
            encoded[i, j, what] = True
    return encoded


@partial(jax.jit, static_argnums=0)
def walk(rooms: Rooms, start: Start, actions: jax.Array, tasks: jax.Array) -> tuple[Any, Any]:
    """(obs, symbols) at the start of all lanes, [lanes, ...], and (states, time steps, symbols) after it, [lanes, steps, ...].

    Goes on after the end of an episode.
    """

    def lane(start: Start, actions: jax.Array, task: jax.Array) -> tuple[Any, Any]:
        def one(state: RoomsState, action: jax.Array) -> tuple[RoomsState, tuple[Any, Any, Any]]:
            state, seen = rooms.step(key_stub(), state, action, task)
            return state, (state, seen, rooms.symbols(state))

        state, obs = rooms.begin(start)
        return (obs, rooms.symbols(state)), jax.lax.scan(one, state, actions)[1]

    return jax.vmap(lane)(start, actions, tasks)


def free_cells(rooms: Rooms) -> np.ndarray:
    """[free] the numbers of all cells without walls, goals or items."""
    filled = {
        *rooms.walls,
        *(goal.cell for goal in rooms.goals),
        *(cell for kind in rooms.items for cell in kind.cells),
    }
    every = [(x, y) for y in range(rooms.height) for x in range(rooms.width)]
    return np.array([rooms.cell(cell) for cell in every if cell not in filled])


def compare(rooms: Rooms, tasks: np.ndarray, lanes: int, steps: int, seed: int) -> Counter[str]:
    """Random episodes, the first half from proper starts, the others from anywhere; counts what happened in them."""
    chance = np.random.default_rng(seed)
    drawn = jax.vmap(rooms.draw)(jax.random.split(make_key(seed), lanes))
    proper = np.arange(lanes) < lanes // 2
    start = Start(
        jnp.where(proper, drawn.cell, chance.choice(free_cells(rooms), lanes)),
        jnp.where(proper, drawn.direction, chance.integers(4, size=lanes)),
    )
    actions = chance.choice([LEFT, RIGHT, FORWARD], p=[0.2, 0.2, 0.6], size=(lanes, steps))
    task = tasks[np.arange(lanes) % len(tasks)]
    begun = walk(rooms, start, jnp.asarray(actions), jnp.asarray(task))
    (obs, symbols), walked = jax.tree.map(np.asarray, begun)

    happened: Counter[str] = Counter()
    for lane in range(lanes):
        y, x = divmod(int(start.cell[lane]), rooms.width)
        oracle = Oracle(rooms, task[lane], (x, y), int(start.direction[lane]))
        one_hot = OneHotPartialObsWrapper(oracle)

        def same_view(seen: dict[str, Any], symbols: np.ndarray, obs: np.ndarray, one_hot: Any = one_hot) -> None:
            np.testing.assert_array_equal(symbols, seen["image"])
            encoded = things(seen["image"]) if rooms.encoding == "things" else one_hot.observation(seen)["image"]
            np.testing.assert_array_equal(obs, encoded.astype(bool))

        same_view(oracle.reset()[0], symbols[lane], obs[lane])
        for t in range(steps):
            state, ours, symbol = jax.tree.map(lambda leaf, lane=lane, t=t: leaf[lane, t], walked)
            seen, reward, terminated, truncated, _ = oracle.step(actions[lane, t])
            same_view(seen, symbol, ours.obs)
            assert divmod(state.cell, rooms.width)[::-1] == tuple(oracle.agent_pos)
            assert (state.direction, state.steps) == (oracle.agent_dir, oracle.step_count)
            assert state.items.sum() == sum(isinstance(thing, Treat) for thing in oracle.grid.grid)
            assert ours.reward == reward
            assert ours.last == (terminated or truncated)
            assert ours.discount == (0 if terminated else np.float32(rooms.discount))
            happened["goal"] += terminated
            happened["cut"] += truncated and not terminated
            happened["bump"] += actions[lane, t] == FORWARD and t > 0 and state.cell == walked[0].cell[lane, t - 1]
            if ours.last:
                break
        happened["item"] += rooms.num_items - int(state.items.sum())
    return happened


@pytest.mark.parametrize(
    ("rooms", "tasks", "steps"),
    [
        (item_rooms(), ITEM_ROOMS_TASKS, 120),
        (item_rooms(released=True, encoding="minigrid"), ITEM_ROOMS_TASKS, 80),
        (item_rooms(view=7, step_limit=40, encoding="minigrid"), ITEM_ROOMS_TASKS, 40),
        (two_rooms(), TWO_ROOMS_TASKS, 100),
        (two_rooms(view=7, step_limit=30, encoding="things"), TWO_ROOMS_TASKS, 30),
    ],
    ids=["item rooms", "released item rooms", "item rooms, view 7", "two rooms", "two rooms, view 7"],
)
def test_the_rooms_of_the_paper_are_minigrid(rooms: Rooms, tasks: np.ndarray, steps: int) -> None:
    happened = compare(rooms, tasks, lanes=40, steps=steps, seed=0)
    assert happened["goal"] > 3
    assert happened["bump"] > 40
    assert (happened["item"] > 100) == bool(rooms.items)
    assert (happened["cut"] > 3) == (rooms.step_limit is not None)


def random_rooms(seed: int) -> Rooms:
    """Walls, goals and items strewn over a small grid with a border; some pay nothing, some share a prize."""
    chance = np.random.default_rng(seed)
    width, height = chance.integers(6, 11, size=2).tolist()
    inner = [(x, y) for x in range(1, width - 1) for y in range(1, height - 1)]
    border = [(x, y) for x in range(width) for y in range(height) if (x, y) not in inner]
    mixed = [inner[i] for i in chance.permutation(len(inner))]
    quarter = len(inner) // 4
    walls, rest = mixed[:quarter], mixed[quarter:]
    return Rooms(
        width=width,
        height=height,
        starts=tuple(inner),
        walls=(*border, *walls),
        goals=(Goal(rest[0], 0), Goal(rest[1], 1), Goal(rest[2])),
        items=(
            Items("green" if seed % 2 else "yellow", tuple(rest[3:6]), 1),
            Items("red", tuple(rest[6:8]), 2),
            Items("purple", (rest[8],)),
        ),
        view=(3, 5, 7)[seed % 3],
        step_limit=25,
        discount=0.5,
        encoding=("things", "minigrid")[seed % 2],
        turns_also_move=seed % 4 == 3,
    )


def test_random_rooms_are_minigrid() -> None:
    tasks = np.array([[1, 2, 4], [-1, 0.5, 0.25]], np.float32)
    happened = sum((compare(random_rooms(seed), tasks, lanes=10, steps=25, seed=seed) for seed in range(8)), Counter())
    assert min(happened["goal"], happened["item"], happened["cut"], happened["bump"]) > 15


# --- by hand ---------------------------------------------------------------------------------------------------------------


def draw_rooms(drawing: str, **options: Any) -> tuple[Rooms, RoomsState]:
    """Rooms as drawn, and the state with the agent where its arrow is. Colours pay in the order b r y p, then goals."""
    rows = drawing.split()
    at: dict[str, tuple[Cell, ...]] = {}
    for y, row in enumerate(rows):
        for x, sign in enumerate(row):
            at[sign] = (*at.get(sign, ()), (x, y))
    items = tuple(Items(name, at[sign]) for sign, name in ITEM_SIGNS.items() if sign in at)
    items = tuple(kind._replace(prize=prize) for prize, kind in enumerate(items))
    goals = tuple(Goal(cell, len(items) + number) for number, cell in enumerate(at.get("G", ())))
    (arrow,) = set(DIRECTIONS) & set(at)
    rooms = Rooms(len(rows[0]), len(rows), starts=at[arrow], walls=at.get("#", ()), goals=goals, items=items, **options)
    return rooms, rooms.begin(Start(jnp.int32(rooms.cell(at[arrow][0])), jnp.int32(DIRECTIONS[arrow])))[0]


def sketch(symbols: jax.Array) -> list[str]:
    """A view as it is drawn, from far to near."""
    signs = {(0, 0): "?", (1, 0): ".", (2, 5): "#", (8, 1): "G"}
    signs |= {(6, COLOURS.index(name)): sign for sign, name in ITEM_SIGNS.items()}
    assert not np.asarray(symbols)[..., 2].any()
    rows = np.asarray(symbols)[..., :2].swapaxes(0, 1).tolist()
    return ["".join(signs[kind, colour] for kind, colour in row) for row in rows]


def run(rooms: Rooms, state: RoomsState, actions: list[int], task: list[float]) -> tuple[RoomsState, list[Any]]:
    """The state after some actions, and (reward, discount, last) of each."""
    boundaries_known = []
    for action in actions:
        state, seen = rooms.step(key_stub(), state, jnp.int32(action), jnp.float32(task))
        boundaries_known.append((float(seen.reward), pytest.approx(float(seen.discount)), bool(seen.last)))
    return state, boundaries_known


def test_walls_hide_what_is_behind_them() -> None:
    """Light comes through the gap in the wall and goes on; it does not come back towards the agent."""
    rooms, state = draw_rooms(
        """
        b#..G
        ....y
        r#...
        .#...
        .#^..
        """
    )
    assert sketch(rooms.symbols(state)) == ["b#..G", "....y", "?#...", "?#...", "?#..."]


def test_the_view_turns_with_the_agent() -> None:
    """Looking right, the far row is the column on the right, and what is up is on the left; outside looks like walls."""
    rooms, state = draw_rooms(
        """
        b.r
        >..
        #pG
        """,
        view=3,
    )
    assert sketch(rooms.symbols(state)) == ["r.G", "..p", "b.#"]
    state, _ = run(rooms, state, [LEFT], [0] * 4)
    assert sketch(rooms.symbols(state)) == ["###", "#b.", "#.."]
    state, _ = run(rooms, state, [RIGHT, RIGHT], [0] * 4)
    assert sketch(rooms.symbols(state)) == ["##?", "p##", "..#"]


def test_an_item_pays_once() -> None:
    rooms, state = draw_rooms(">b.", discount=0.5)
    state, boundaries_known = run(rooms, state, [FORWARD, FORWARD, RIGHT, RIGHT, FORWARD, FORWARD], [3.0])
    assert boundaries_known == [(3, 0.5, False)] + [(0, 0.5, False)] * 5
    assert (int(state.cell), state.items.tolist(), int(state.steps)) == (0, [False], 6)


def test_an_item_that_was_taken_is_seen_no_more() -> None:
    rooms, state = draw_rooms(">b.", view=3, encoding="things")
    assert rooms.observe(state)[1, 1].tolist() == [True, False, False, False, False]
    state, _ = run(rooms, state, [FORWARD, FORWARD, LEFT, LEFT], [3.0])
    assert sketch(rooms.symbols(state)) == ["#.#", "#.#", "#.#"]
    assert not rooms.observe(state).any()


def test_each_prize_is_paid_from_its_place() -> None:
    """Blue pays place 0, purple place 1, the goals 2 and 3; what has no place pays nothing."""
    rooms, state = draw_rooms(">bpG", discount=0.5)
    assert rooms.num_prizes == 3
    assert run(rooms, state, [FORWARD] * 3, [1, 2, 4])[1] == [(1, 0.5, False), (2, 0.5, False), (4, 0, True)]
    unpaid = Rooms(3, 1, starts=((0, 0),), goals=(Goal((2, 0)),), items=(Items("red", ((1, 0),)),), discount=0.5)
    assert unpaid.num_prizes == 0
    assert run(unpaid, state._replace(items=jnp.ones(1, bool)), [FORWARD] * 2, [])[1] == [(0, 0.5, False), (0, 0, True)]


def test_a_cut_episode_goes_on_in_the_values() -> None:
    """At the step limit `last` is true but the discount stays; a goal in the very last step is an end all the same."""
    rooms, state = draw_rooms(">..G", step_limit=3, discount=0.5)
    assert run(rooms, state, [FORWARD, LEFT, RIGHT], [7.0])[1] == [(0, 0.5, False), (0, 0.5, False), (0, 0.5, True)]
    assert run(rooms, state, [FORWARD] * 3, [7.0])[1] == [(0, 0.5, False), (0, 0.5, False), (7, 0, True)]
    endless, state = draw_rooms(">..G", discount=0.5)
    assert run(endless, state._replace(steps=jnp.int32(10_000)), [LEFT], [7.0])[1] == [(0, 0.5, False)]


def test_a_turn_may_also_move() -> None:
    """First the turn, then the step: from the middle, a left turn of an agent that looks right leads up."""
    rooms, state = draw_rooms("... .>. ...", turns_also_move=True)
    cells = {action: int(run(rooms, state, [action], [])[0].cell) for action in (LEFT, RIGHT, FORWARD)}
    assert cells == {LEFT: 1, RIGHT: 7, FORWARD: 5}
    rooms, state = draw_rooms("... .>. ...")
    cells = {action: int(run(rooms, state, [action], [])[0].cell) for action in (LEFT, RIGHT, FORWARD)}
    assert cells == {LEFT: 4, RIGHT: 4, FORWARD: 5}


def test_the_edge_is_a_wall() -> None:
    """Rooms without a border are the same as with one."""
    open_rooms, state = draw_rooms("b.G .>. #.r")
    walled, walled_state = draw_rooms("##### #b.G# #.>.# ##.r# #####")
    actions = jnp.asarray(np.random.default_rng(0).integers(3, size=(1, 200)))
    tasks = jnp.float32([[1, 2, 4]])

    def begin(state: RoomsState) -> Start:
        return Start(state.cell[None], state.direction[None])

    _, (_, seen, symbols) = walk(open_rooms, begin(state), actions, tasks)
    _, (_, other, other_symbols) = walk(walled, begin(walled_state), actions, tasks)
    np.testing.assert_array_equal(symbols, other_symbols)
    jax.tree.map(np.testing.assert_array_equal, seen, other)
    assert seen.last.any()


@pytest.mark.parametrize(
    ("rooms", "starts"),
    [
        (item_rooms(), "33 44 54 64 45 55 65 46 56 66"),
        (item_rooms(released=True), "33 73 44 54 64 84 45 55 65 46 56 66 86 37 77 48 68 88"),
        (two_rooms(), "19 29 39 49"),
    ],
    ids=["item rooms", "released item rooms", "two rooms"],
)
def test_episodes_start_in_free_cells_and_look_anywhere(rooms: Rooms, starts: str) -> None:
    """All free start cells, each written as x and y, and all directions are equally likely."""
    expected = {(rooms.cell((int(x), int(y))), direction) for x, y in starts.split() for direction in range(4)}
    keys = jax.random.split(make_key(0), 100 * len(expected))
    state, _ = jax.jit(jax.vmap(rooms.reset, in_axes=(0, None)))(keys, jnp.zeros(rooms.num_prizes))
    count = Counter(zip(np.asarray(state.cell).tolist(), np.asarray(state.direction).tolist(), strict=True))
    assert set(count) == expected
    assert 60 < min(count.values()) <= max(count.values()) < 140
    assert state.items.all()
    assert not state.steps.any()


def test_layouts() -> None:
    """The coordinates of the released code, written out."""
    rooms = item_rooms()
    arms = "51 52 53 57 58 59 15 25 35 75 85 95"
    items = {
        "blue": "21 41 12 32 23 43 14 34",
        "red": "16 36 27 47 18 38 29 49",
        "yellow": "61 81 72 92 63 83 74 94",
        "purple": "76 96 67 87 78 98 69 89",
    }

    def cells(written: str) -> set[Cell]:
        return {(int(x), int(y)) for x, y in written.split()}

    border = {(x, y) for x in range(11) for y in range(11) if x in (0, 10) or y in (0, 10)}
    assert set(rooms.walls) == border | cells(arms)
    assert [(kind.colour, set(kind.cells), kind.prize) for kind in rooms.items] == [
        (name, cells(written), prize) for prize, (name, written) in enumerate(items.items())
    ]
    assert {goal.cell for goal in rooms.goals} == cells("11 91 19 99")
    assert {goal.prize for goal in rooms.goals} == {None}
    assert (rooms.num_prizes, rooms.num_items, rooms.discount, rooms.step_limit) == (4, 32, 0.9, None)

    rooms = two_rooms()
    border = {(x, y) for x in range(15) for y in range(11) if x in (0, 14) or y in (0, 10)}
    block = {(x, y) for x in range(5, 15) for y in range(4, 11)}
    assert set(rooms.walls) == border | block | cells("34 44")
    assert rooms.goals == (Goal((7, 1), 0), Goal((9, 3), 1))
    assert (rooms.num_prizes, rooms.num_items, rooms.discount, rooms.step_limit) == (2, 0, 0.99, 100)


def test_rewards_of_the_paper() -> None:
    """App. C.1.2 and C.1.3: blue, red, yellow, purple; then first and second goal."""
    assert ITEM_ROOMS_TASKS.tolist() == [[-1, 1, 1, 1], [1, 1, 0.5, 1], [1, 1, 1, -1], [-1, 1, 0.5, -1]]
    assert TWO_ROOMS_TASKS.tolist() == [[5, 0], [0, 5]]


def test_rooms_are_values() -> None:
    """Equal rooms are interchangeable, also after one of them was used."""
    used, fresh = item_rooms(), item_rooms()
    _, obs = used.reset(make_key(0), jnp.zeros(4))
    assert (obs.shape, obs.dtype) == (used.observation.shape, bool)
    assert (used, hash(used)) == (fresh, hash(fresh))
    assert used != item_rooms(view=7)
    assert item_rooms(view=7, encoding="minigrid").observation.shape == (7, 7, 20)


PLAIN: dict[str, Any] = {"width": 4, "height": 3, "starts": ((0, 0),), "walls": ((1, 1),)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"goals": (Goal((1, 1)),)}, r"cell \(1, 1\) cannot hold both a wall and a goal"),
        ({"items": (Items("red", ((2, 2), (1, 1))),)}, r"cell \(1, 1\) cannot hold both a wall and a red item"),
        ({"walls": ((4, 0),)}, r"cell \(4, 0\) lies outside rooms of 4 by 3"),
        ({"goals": (Goal((0, 3)),)}, r"cell \(0, 3\) lies outside"),
        ({"items": (Items("red", ((-1, 0),)),)}, r"cell \(-1, 0\) lies outside"),
        ({"starts": ((0, 0), (9, 9))}, r"cell \(9, 9\) lies outside"),
        ({"starts": ((1, 1),)}, "no start cell is free"),
        ({"starts": ()}, "no start cell is free"),
        ({"goals": (Goal((0, 0)),)}, "no start cell is free"),
        ({"items": (Items("red", ((0, 0),)),)}, "no start cell is free"),
        ({"view": 4}, "odd size of at least 3.*got 4"),
        ({"view": 1}, "odd size of at least 3.*got 1"),
        ({"width": 0}, "at least one cell; got 0 by 3"),
        ({"step_limit": 0}, "step limit must be at least 1.*got 0"),
        ({"discount": 1.5}, "discount.*got 1.5"),
        ({"encoding": "thing"}, "unknown encoding 'thing': did you mean 'things'"),
        ({"items": (Items("puple", ((2, 2),)),)}, "unknown colour 'puple': did you mean 'purple'"),
        ({"items": (Items("grey", ((2, 2),)),), "encoding": "things"}, "'things' shows items in .*, not in grey"),
        ({"goals": (Goal((2, 2), 1),)}, r"without a gap; got \[1\]"),
        ({"goals": (Goal((2, 2), -1),)}, r"without a gap; got \[-1\]"),
    ],
)
def test_rooms_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        Rooms(**{**PLAIN, **wrong})
    assert "\n" not in str(error.value)
