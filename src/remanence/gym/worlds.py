"""The paper's worlds as Gymnasium environments. Further arguments are passed to the world, such as its discount."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from jax import Array
from numpy.typing import ArrayLike

from remanence.core.errors import UserError
from remanence.gym.export import WorldEnv
from remanence.theory.task_diameter import REWARD_NOISE, task_diameter_process
from remanence.worlds import (
    ITEM_ROOMS_TASKS,
    TWO_ROOMS_TASKS,
    Chain,
    ContinuousGrid,
    CornerGrid,
    MinAtar,
    MinAtarGames,
    Rooms,
    SlipperyGrid,
    corner_grid_pictures,
    item_rooms,
    minatar_picture,
    rooms_picture,
    two_rooms,
)
from remanence.worlds.chain_rendering import chain_scene, chain_text
from remanence.worlds.grids.corner import CORNER_TASKS
from remanence.worlds.grids.rendering import (
    continuous_grid_scene,
    corner_grid_scene,
    corner_grid_text,
    slippery_grid_scene,
    slippery_grid_text,
)
from remanence.worlds.grids.slippery import SWAPPED_GOALS
from remanence.worlds.rooms.rendering import rooms_text

DRAWN: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}
DRAWN_AND_WRITTEN: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 10}
CHAIN_DIAMETER, CHAIN_LENGTH = 1.0, 100


class CornerGridEnv(WorldEnv):
    """A goal in each corner of a square of cells. Observation: the cell. Actions: up, down, left, right.

    Tasks: the rewards of the corners top-left, top-right, bottom-left and bottom-right; the paper's four by default.
    """

    metadata = DRAWN_AND_WRITTEN
    world: CornerGrid

    def __init__(
        self, tasks: ArrayLike = CORNER_TASKS, task: int = 0, render_mode: str | None = None, **shape: Any
    ) -> None:
        super().__init__(CornerGrid(**shape), _rewards(tasks, 4), task, render_mode)

    def picture(self) -> np.ndarray:
        return corner_grid_scene(self.world, int(self.state), self.live_task)

    def text(self) -> str:
        return corner_grid_text(self.world, int(self.state), self.live_task)


class CornerGridImageEnv(CornerGridEnv):
    """The same grid as an image. Observation: [48, 48, 3], uint8. Rewards of the paper's tasks are ten times as large here."""

    def __init__(self, tasks: ArrayLike = 10 * CORNER_TASKS, task: int = 0, render_mode: str | None = None) -> None:
        super().__init__(tasks, task, render_mode)
        self.pictures = corner_grid_pictures(self.world)
        self.observation_space = spaces.Box(0, 255, self.pictures.shape[1:], np.uint8)

    def _seen(self, obs: Array) -> np.ndarray:
        return self.pictures[np.asarray(obs)].copy()


class ContinuousGridEnv(WorldEnv):
    """A goal region in each corner of the unit square. Observation: the point, x and y. Actions: up, down, left, right.

    Tasks: as in the corner grid.
    """

    metadata = DRAWN
    world: ContinuousGrid

    def __init__(
        self, tasks: ArrayLike = CORNER_TASKS, task: int = 0, render_mode: str | None = None, **shape: Any
    ) -> None:
        square = spaces.Box(0.0, 1.0, (2,), np.float32)
        super().__init__(ContinuousGrid(**shape), _rewards(tasks, 4), task, render_mode, square)

    def picture(self) -> np.ndarray:
        return continuous_grid_scene(self.world, np.asarray(self.state), self.live_task)


class SlipperyGridEnv(WorldEnv):
    """Two goals at the far end of a slippery grid. Observation: the cell. Actions: up, down, left, right.

    Tasks: the rewards of the two goals; by default one is positive and the other negative, and they swap.
    """

    metadata = DRAWN_AND_WRITTEN
    world: SlipperyGrid

    def __init__(
        self, tasks: ArrayLike = SWAPPED_GOALS, task: int = 0, render_mode: str | None = None, **shape: Any
    ) -> None:
        world = SlipperyGrid(**shape)
        super().__init__(world, _rewards(tasks, len(world.goals)), task, render_mode)

    def picture(self) -> np.ndarray:
        return slippery_grid_scene(self.world, int(self.state), self.live_task)

    def text(self) -> str:
        return slippery_grid_text(self.world, int(self.state), self.live_task)


class ChainEnv(WorldEnv):
    """A Markov reward process, for prediction: the only action has no effect.

    Observation: the state. It never terminates; episodes are truncated after `length` steps. By default the process and the
    seven tasks are those of the paper's task-diameter experiment (App. C.2), with tasks at distance 1 from each other.
    Tasks: the expected reward on leaving each state.
    """

    metadata = DRAWN_AND_WRITTEN
    world: Chain

    def __init__(
        self,
        transitions: Sequence[Sequence[float]] | None = None,
        tasks: ArrayLike | None = None,
        length: int = CHAIN_LENGTH,
        noise: float = REWARD_NOISE,
        task: int = 0,
        render_mode: str | None = None,
        **shape: Any,
    ) -> None:
        """`transitions` and `tasks` go together: give both or none."""
        if (transitions is None) != (tasks is None):
            raise UserError("transitions and tasks go together: give both or none")
        if transitions is None or tasks is None:
            process = task_diameter_process(CHAIN_DIAMETER)
            tasks, shape = process.rewards, {"discount": process.discount, **shape}
        rows = tuple(tuple(map(float, row)) for row in (process.transitions[0] if transitions is None else transitions))
        super().__init__(Chain(rows, length, noise, **shape), _rewards(tasks, len(rows)), task, render_mode)

    def picture(self) -> np.ndarray:
        return chain_scene(self.world, int(self.state.place), self.live_task)

    def text(self) -> str:
        return chain_text(self.world, int(self.state.place), self.live_task)


class RoomsEnv(WorldEnv):
    """Rooms with partial observations: the cells in front of the agent as bits, [view, view, channels].

    Actions: turn left, turn right, forward. Tasks: the rewards that goals and items refer to by index.
    """

    metadata = DRAWN_AND_WRITTEN
    world: Rooms

    def __init__(self, rooms: Rooms, tasks: ArrayLike, task: int = 0, render_mode: str | None = None) -> None:
        super().__init__(rooms, _rewards(tasks, rooms.num_prizes), task, render_mode)

    def picture(self) -> np.ndarray:
        return rooms_picture(self.world, self.state)

    def text(self) -> str:
        return rooms_text(self.world, self.state)


class ItemRoomsEnv(RoomsEnv):
    """Four rooms with items of four colours (paper, App. C.1.2). Tasks: the rewards of blue, red, yellow and purple items."""

    def __init__(
        self, tasks: ArrayLike = ITEM_ROOMS_TASKS, task: int = 0, render_mode: str | None = None, **shape: Any
    ) -> None:
        super().__init__(item_rooms(**shape), tasks, task, render_mode)


class TwoRoomsEnv(RoomsEnv):
    """Two rooms with two goals (paper, App. C.1.3); episodes are truncated after 100 steps. Tasks: the rewards of the goals."""

    def __init__(
        self, tasks: ArrayLike = TWO_ROOMS_TASKS, task: int = 0, render_mode: str | None = None, **shape: Any
    ) -> None:
        super().__init__(two_rooms(**shape), tasks, task, render_mode)


class MinAtarEnv(WorldEnv):
    """A game of MinAtar. Observation: bits, [10, 10, channels]. Actions: no-op, left, up, right, down, fire. One task."""

    metadata = DRAWN
    world: MinAtar

    def __init__(self, game: str, render_mode: str | None = None, **shape: Any) -> None:
        super().__init__(MinAtar(game, **shape), np.zeros(1), render_mode=render_mode)

    def picture(self) -> np.ndarray:
        return minatar_picture(self.world.game, self.world.observe(self.state))


class MinAtarGamesEnv(WorldEnv):
    """Several games of MinAtar with the same observation shape; each game is a task."""

    metadata = DRAWN
    world: MinAtarGames

    def __init__(
        self,
        games: Sequence[str] = MinAtarGames.games,
        task: int = 0,
        render_mode: str | None = None,
        ramping: bool = False,
        **shape: Any,
    ) -> None:
        """By default without difficulty ramping, as in the paper's stream."""
        world = MinAtarGames(tuple(games), ramping=ramping, **shape)
        super().__init__(world, np.arange(len(world.games), dtype=np.int32), task, render_mode)

    def picture(self) -> np.ndarray:
        return minatar_picture(self.world.games[self.task], self.world.observe(self.state, self.live_task))


def _rewards(tasks: ArrayLike, count: int) -> np.ndarray:
    """[tasks, count]"""
    rewards = np.asarray(tasks, np.float32)
    if rewards.ndim != 2 or rewards.shape[1] != count or not len(rewards):
        raise UserError(f"every task needs {count} rewards, as in [[…], […]]; got an array of shape {rewards.shape}")
    return rewards
