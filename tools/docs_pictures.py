"""Draws the images of worlds for the documentation: `make docs-pictures`.

Worlds that can render themselves are rendered; the others are drawn from their parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from remanence.experiments.prediction import GOAL_REWARDS
from remanence.theory.task_diameter import TRANSITIONS
from remanence.worlds import (
    ContinuousGrid,
    CornerGrid,
    MinAtar,
    Rooms,
    SlipperyGrid,
    corner_grid_pictures,
    item_rooms,
    minatar_picture,
    rooms_picture,
    two_rooms,
)
from remanence.worlds.grids.continuous import CORNERS
from remanence.worlds.jellybean import JellyBeanWorlds, preset
from remanence.worlds.jellybean.pictures import view_picture, world_picture
from remanence.worlds.minatar import GAMES
from remanence.worlds.rooms.world import Start

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "worlds"
GAP = 12  # white pixels between images in a row
FLOOR, LINE, WALL, GOAL, OTHER_GOAL, START, INK = "#fff", "#c9ced6", "#5f6b7a", "#2e9e6b", "#d9822b", "#c0392b", "#222"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        drawn = draw()
        if isinstance(drawn, str):
            (FOLDER / f"{name}.svg").write_text(drawn, encoding="utf-8")
        else:
            Image.fromarray(drawn).quantize(64).save(FOLDER / f"{name}.png", optimize=True)
        print(name)


def corner_grid() -> str:
    """The four tasks, side by side: the reward of each corner."""
    grid, cell = CornerGrid(), 34
    parts = []
    for task, rewards in enumerate(GOAL_REWARDS):
        left = task * (grid.size * cell + 24)
        parts.append(text(left + grid.size * cell / 2, 14, f"task {task + 1}"))
        for state in range(grid.num_states):
            row, column = divmod(state, grid.size)
            place = (left + column * cell, 22 + row * cell)
            corner = np.flatnonzero(grid.corners == state)
            paid = rewards[corner[0]] if corner.size else 0.0
            parts.append(square(*place, cell, GOAL if paid else "#a9b3bd" if corner.size else FLOOR))
            if corner.size:
                parts.append(text(place[0] + cell / 2, place[1] + cell / 2 + 5, f"{paid:g}", "#fff"))
            if state == grid.start:
                parts.append(dot(place[0] + cell / 2, place[1] + cell / 2, 8, START))
    return svg(4 * grid.size * cell + 3 * 24, 22 + grid.size * cell, parts)


def slippery_grid() -> str:
    grid, cell = SlipperyGrid(), 46
    parts = []
    for number in range(grid.num_states):
        y, x = divmod(number, grid.width)
        goal = grid.goals.index((x, y)) if (x, y) in grid.goals else None
        colour = WALL if (x, y) in grid.walls else FLOOR if goal is None else (GOAL, OTHER_GOAL)[goal]
        place = (x * cell, (grid.height - 1 - y) * cell)
        parts.append(square(*place, cell, colour))
        if goal is not None:
            parts.append(text(place[0] + cell / 2, place[1] + cell / 2 + 5, ("±1", "∓1")[goal], "#fff"))
        if (x, y) == grid.start:
            parts.append(dot(place[0] + cell / 2, place[1] + cell / 2, 10, START))
    return svg(grid.width * cell, grid.height * cell, parts)


def continuous_grid() -> str:
    """The square, its goal regions, the evaluation points, the start region, and one episode."""
    grid, side, seed = ContinuousGrid(), 320, 4
    parts = [square(0, 0, side, FLOOR)]

    def at(point: Sequence[float] | np.ndarray) -> tuple[float, float]:
        return float(point[0]) * side, (1 - float(point[1])) * side

    for corner in CORNERS:
        inward = np.where(corner > 0, -grid.goal_radius, grid.goal_radius)
        region = [corner, corner + inward * (1, 0), corner + inward * (0, 1)]
        parts.append(polygon(map(at, region), GOAL))
    low = 0.5 - grid.start_halfwidth
    x, y = at((low, 1 - low))
    parts.append(f'<rect x="{x:g}" y="{y:g}" width="{side * 0.1:g}" height="{side * 0.1:g}" fill="#f3c7c1"/>')
    parts += [dot(*at(point), 1.6, "#9aa4af") for point in grid.evaluation_points()]
    walk = [at(point) for point in episode(grid, jax.random.key(seed))]
    parts.append(
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in walk)}" fill="none" stroke="{START}" stroke-width="1.5"/>'
    )
    parts.append(dot(*walk[0], 5, START))
    return svg(side, side, parts)


def episode(world: ContinuousGrid, key: jax.Array) -> list[np.ndarray]:
    """The points of one episode of the random policy."""
    k_reset, key = jax.random.split(key)
    state, point = world.reset(k_reset, jnp.zeros(4))
    step = jax.jit(world.step)
    points, over = [np.asarray(point)], False
    while not over:
        key, k_act, k_step = jax.random.split(key, 3)
        state, seen = step(k_step, state, jax.random.randint(k_act, (), 0, 4), jnp.zeros(4))
        points.append(np.asarray(seen.obs))
        over = bool(seen.last)
    return points


def chain() -> str:
    """The transitions of App. C.2 as a matrix: rows sum to 1."""
    cell, left, top = 46, 60, 44
    side = len(TRANSITIONS)
    parts = [text(left + side * cell / 2, 16, "to state"), text(8, top - 10, "from", anchor="start")]
    for row in range(side):
        parts.append(text(left + (row + 0.5) * cell, top - 8, str(row + 1)))
        parts.append(text(left - 16, top + (row + 0.5) * cell + 5, str(row + 1)))
        for column, chance in enumerate(TRANSITIONS[row]):
            place = (left + column * cell, top + row * cell)
            shade = 255 - int(330 * chance)
            parts.append(square(*place, cell, f"rgb({shade},{(255 + shade) // 2},255)"))
            ink = "#fff" if chance > 0.4 else INK
            parts.append(text(place[0] + cell / 2, place[1] + cell / 2 + 5, f"{chance:.2f}", ink, size=12))
    return svg(left + side * cell + 8, top + side * cell + 8, parts)


def image_grid() -> np.ndarray:
    """Three of the 25 observations: at the start, on the way, next to a goal."""
    pictures = corner_grid_pictures(CornerGrid())
    return beside(larger(pictures[state], 4) for state in (12, 7, 1))


def rooms(layout: Rooms, cell: tuple[int, int], direction: int, pixels: int) -> np.ndarray:
    """From above, and the agent's view beside it: the agent is below the middle of the last row, unseen cells are dark grey."""
    state, _ = layout.begin(Start(jnp.int32(layout.cell(cell)), jnp.int32(direction)))
    above = rooms_picture(layout, state, pixels)
    kinds, paints = np.asarray(layout.symbols(state)).swapaxes(0, 1), np.zeros((layout.view, layout.view, 3), np.uint8)
    for row, column in np.ndindex(layout.view, layout.view):
        paints[row, column] = colour_of(*kinds[row, column, :2])
    view = np.full((layout.view * pixels + 2, layout.view * pixels + 2, 3), 255, np.uint8)
    view[1:-1, 1:-1] = larger(paints, pixels)
    bottom, middle = (layout.view - 1) * pixels + 1 + pixels // 4, layout.view // 2 * pixels + 1 + pixels // 4
    view[bottom : bottom + pixels // 2, middle : middle + pixels // 2] = (255, 0, 0)
    return beside([above, view])


def colour_of(kind: int, colour: int) -> tuple[int, int, int]:
    """Minigrid's numbers as colors: unseen, floor, wall, ball, goal."""
    balls = ((255, 0, 0), (0, 255, 0), (60, 60, 255), (150, 60, 220), (255, 255, 0), (190, 190, 190))
    return {0: (60, 60, 60), 1: (0, 0, 0), 2: (128, 128, 128), 6: balls[colour], 8: (0, 200, 0)}[kind]


def jelly_bean(name: str) -> np.ndarray:
    """The world of seed 3 after 400 steps towards visible items, and the agent's view."""
    worlds = JellyBeanWorlds(preset(name), [3])
    path = []
    for turn in range(400):
        path.append(tuple(worlds.places[0].tolist()))
        worlds.step(np.array([towards_the_nearest(worlds.views[0], turn)]))
    above = world_picture(worlds, radius=40, path=path, pixels=5)
    return beside([above, view_picture(worlds.views[0], worlds.rules.colours, 16)])


def towards_the_nearest(view: np.ndarray, turn: int) -> int:
    """The action, up, left, right or down, towards the nearest visible item; alternating directions if there is none."""
    middle = len(view) // 2
    items = np.argwhere(view > 0) - middle
    items = items[np.abs(items).sum(axis=1) > 0]
    if not len(items):
        return (0, 2)[turn // 20 % 2]
    x, y = items[np.abs(items).sum(axis=1).argmin()]
    return (2 if x > 0 else 1) if abs(x) >= abs(y) else (0 if y > 0 else 3)


def minatar() -> np.ndarray:
    """Each game after at least 60 steps of random play."""
    return beside(minatar_picture(game, played(MinAtar(game), 60), pixels=18) for game in GAMES)


def played(world: MinAtar, steps: int) -> np.ndarray:
    """The observation after `steps` steps, in the first episode of random play that lasts that long."""

    @jax.jit
    def live(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: tuple, key: jax.Array) -> tuple[tuple, jax.Array]:
            state, _ = carry
            k_act, k_step = jax.random.split(key)
            state, seen = world.step(k_step, state, jax.random.randint(k_act, (), 0, world.num_actions), jnp.int32(0))
            return (state, seen.obs), seen.last

        (_, obs), ends = jax.lax.scan(step, world.reset(key, jnp.int32(0)), jax.random.split(key, steps))
        return obs, jnp.any(ends)

    for seed in range(10_000):
        obs, ended = live(jax.random.key(seed))
        if not ended:
            return np.asarray(obs)
    raise RuntimeError(f"no episode of {world.game} lasted {steps} steps")


def larger(picture: np.ndarray, pixels: int) -> np.ndarray:
    return picture.repeat(pixels, axis=0).repeat(pixels, axis=1)


def beside(pictures: Iterable[np.ndarray]) -> np.ndarray:
    """Images in a row on white, vertically centered."""
    row = list(pictures)
    height, width = max(len(one) for one in row), sum(one.shape[1] for one in row) + GAP * (len(row) - 1)
    sheet, left = np.full((height, width, 3), 255, np.uint8), 0
    for one in row:
        top = (height - len(one)) // 2
        sheet[top : top + len(one), left : left + one.shape[1]] = one
        left += one.shape[1] + GAP
    return sheet


def svg(width: float, height: float, parts: Iterable[str], margin: int = 8) -> str:
    box = f"{-margin} {-margin} {width + 2 * margin:g} {height + 2 * margin:g}"
    size = f'width="{width + 2 * margin:g}" height="{height + 2 * margin:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {size} font-family="Helvetica, Arial, sans-serif">\n'
        f'<rect x="{-margin}" y="{-margin}" width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def square(x: float, y: float, side: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}" fill="{fill}" stroke="{LINE}"/>'


def dot(x: float, y: float, radius: float, fill: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}"/>'


def polygon(points: Iterable[tuple[float, float]], fill: str) -> str:
    return f'<polygon points="{" ".join(f"{x:g},{y:g}" for x, y in points)}" fill="{fill}"/>'


def text(x: float, y: float, words: str, fill: str = INK, size: int = 14, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{words}</text>'


PICTURES: dict[str, Callable[[], str | np.ndarray]] = {
    "corner-grid": corner_grid,
    "image-grid": image_grid,
    "continuous-grid": continuous_grid,
    "slippery-grid": slippery_grid,
    "chain": chain,
    "item-rooms": lambda: rooms(item_rooms(encoding="minigrid"), (5, 5), 3, 28),
    "two-rooms": lambda: rooms(two_rooms(), (2, 5), 3, 28),
    "jelly-bean-paper": lambda: jelly_bean("paper"),
    "jelly-bean-released": lambda: jelly_bean("released"),
    "minatar": minatar,
}


if __name__ == "__main__":
    main()
