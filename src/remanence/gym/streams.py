"""The paper's streams of tasks as Gymnasium environments; every part of a schedule can be overridden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from remanence.core.types import Duration, Episodes, Steps
from remanence.gym.jellybean import JellyBeanEnv
from remanence.gym.switching import RANDOM, TaskSwitching
from remanence.gym.worlds import (
    ContinuousGridEnv,
    CornerGridEnv,
    CornerGridImageEnv,
    ItemRoomsEnv,
    MinAtarGamesEnv,
    SlipperyGridEnv,
    TwoRoomsEnv,
)


@dataclass(frozen=True)
class StreamOf:
    """Makes an environment with a stream of tasks; further arguments are passed to the environment."""

    make: Callable[..., Any]
    segment_length: Duration
    order: Sequence[int] | str | None = None
    truncate_on_switch: bool = False

    @property
    def metadata(self) -> dict[str, Any]:
        env_class = self.make.func if isinstance(self.make, partial) else self.make
        return env_class.metadata  # type: ignore[union-attr]

    def __call__(
        self,
        episodes: int | None = None,
        steps: int | None = None,
        order: Sequence[int] | str | None = None,
        truncate_on_switch: bool | None = None,
        observe_task: bool = False,
        **world: Any,
    ) -> TaskSwitching:
        """Arguments that are None are as in the paper."""
        if episodes is None and steps is None:
            episodes, steps = (
                (self.segment_length.count, None)
                if isinstance(self.segment_length, Episodes)
                else (None, self.segment_length.count)
            )
        return TaskSwitching(
            self.make(**world),
            episodes=episodes,
            steps=steps,
            order=self.order if order is None else order,
            truncate_on_switch=self.truncate_on_switch if truncate_on_switch is None else truncate_on_switch,
            observe_task=observe_task,
        )


corner_grid = StreamOf(CornerGridEnv, Episodes(50))
corner_grid_image = StreamOf(CornerGridImageEnv, Episodes(100))
continuous_grid = StreamOf(ContinuousGridEnv, Episodes(200))
slippery_grid = StreamOf(SlipperyGridEnv, Episodes(50))
item_rooms = StreamOf(ItemRoomsEnv, Episodes(75), RANDOM)
two_rooms = StreamOf(TwoRoomsEnv, Episodes(500))
minatar = StreamOf(MinAtarGamesEnv, Steps(500_000), RANDOM, truncate_on_switch=True)
jelly_bean = StreamOf(partial(JellyBeanEnv, switch_every=None), Steps(150_000))
