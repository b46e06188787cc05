"""The plan of an experiment: agents, world, stream, and what is measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from remanence.agents.base import Agent, AgentConfig
from remanence.agents.configs import KINDS
from remanence.agents.shares import with_fields
from remanence.core.describe import parse
from remanence.core.errors import UserError, unknown
from remanence.core.types import EnvSpec, Steps
from remanence.engine.life import Probe
from remanence.streams import Stream
from remanence.worlds.base import World

if TYPE_CHECKING:
    from remanence.gym.spaces import Spaces

FINER = 50  # a shortened run may have windows this much shorter, if they divide a segment


@dataclass(frozen=True)
class Contender:
    """An agent of an experiment."""

    config: AgentConfig
    search: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """the values that the paper searched, by field of the configuration"""
    one_at_a_time: bool = False
    """whether one field is searched at a time, while the others keep the values of the configuration"""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the results of an experiment, except seeds."""

    world: World
    stream: Stream
    contenders: Mapping[str, Contender]
    probe: Callable[[Agent], Probe]
    truth: Mapping[str, Any] = field(default_factory=dict)
    """how the true values are computed: part of the description of a run"""
    seeds: int = 30
    round_steps: int | None = 8
    """steps per round of the program; None: fitted to the window and the consolidations of each agent"""
    max_steps: int | None = None
    """a lane that needs more steps is stopped, and counts as diverged"""
    lanes_at_once: int = 1500
    """how many lanes of a sweep run at a time: enough to fill vector units, few enough for their buffers to fit in memory"""
    window: int = 1
    """steps per point of a curve, if the stream counts steps"""
    maps: Callable[[Agent], Probe] | None = None
    """the probe of value maps: values of every point"""
    map_windows: tuple[int, ...] = ()
    """windows after which maps are recorded"""
    watch_parts: bool = False
    """whether to record what becomes of the permanent and the transient part (`engine/probes.py: parts_of_value`)"""
    curves: tuple[str, ...] = ()
    """the curves that are kept, in this order; default: all"""
    same_for_all: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """curves that are known beforehand, such as a parameter of the environment: [windows]"""
    spaces: Spaces | None = None
    """of a Gymnasium environment: then the policies of all lanes are kept, and act on its observations"""

    @property
    def spec(self) -> EnvSpec:
        """What agents are built for."""
        return EnvSpec(self.world.observation, self.world.num_actions, self.stream.num_tasks, self.world.discount)

    def select(self, names: Iterable[str]) -> Plan:
        """The same plan with some of its contenders."""
        wanted = list(names)
        for name in wanted:
            if name not in self.contenders:
                raise unknown("agent", name, self.contenders)
        return dataclasses.replace(self, contenders={name: self.contenders[name] for name in wanted})

    def shortened(
        self, segments: int | None = None, segment_length: int | None = None, steps: int | None = None
    ) -> Plan:
        """The same plan with fewer or shorter segments, or a total number of steps."""
        if steps is not None:
            segments, segment_length = self._of_steps(steps, segments, segment_length)
        for what, asked, most in (
            ("segments", segments, self.stream.segments),
            ("segment-length", segment_length, self.stream.segment_length.count),
        ):
            if asked is not None and not 1 <= asked <= most:
                raise UserError(f"--{what} must be between 1 and {most} here; got {asked}")
        stream = self.stream.shortened(
            segments or self.stream.segments, segment_length or self.stream.segment_length.count
        )
        window = _fitting(self.window, stream.segment_length.count)
        last = stream.windows(window)
        return dataclasses.replace(
            self,
            stream=stream,
            window=window,
            map_windows=tuple(sorted({min(window, last) for window in self.map_windows})),
        )

    def _of_steps(self, steps: int, segments: int | None, segment_length: int | None) -> tuple[int, int]:
        """A total number of steps, as the number and length of segments."""
        if not isinstance(self.stream.segment_length, Steps):
            raise UserError(
                "--steps is for experiments that count steps: this one counts episodes, use --segments and --segment-length"
            )
        if segments is not None or segment_length is not None:
            raise UserError("give either --steps, or --segments and --segment-length")
        segment_length = min(self.stream.segment_length.count, max(steps, 1))
        if steps < 1 or steps % segment_length or steps // segment_length > self.stream.segments:
            raise UserError(
                f"--steps must be at most {segment_length}, or a multiple of it up to "
                f"{segment_length * self.stream.segments}; got {steps}"
            )
        return steps // segment_length, segment_length

    def override(self, contender: str, name: str, value: Any) -> Plan:
        """The same plan with one field of one agent changed; a string is parsed as on the command line."""
        return self.override_all(contender, {name: value})

    def override_all(self, contender: str, fields: Mapping[str, Any]) -> Plan:
        """The same with several fields of one agent changed at once: some depend on each other."""
        if contender not in self.contenders:
            raise unknown("agent", contender, self.contenders)
        old = self.contenders[contender]
        names = [item.name for item in dataclasses.fields(old.config)]  # type: ignore[arg-type]
        for field_name in fields:
            if field_name not in names:
                raise unknown(f"field of {contender}", field_name, names)
        values = {one: parse(text, KINDS) if isinstance(text, str) else text for one, text in fields.items()}
        try:
            config = with_fields(old.config, **values)
        except UserError as error:
            where = "." if str(error).startswith(tuple(fields)) else ": "
            raise UserError(f"{contender}{where}{error}") from None
        new = dataclasses.replace(old, config=config)
        return dataclasses.replace(self, contenders={**self.contenders, contender: new})

    def one_at_a_time(self) -> Plan:
        """The same plan, in which a sweep searches one field at a time."""
        contenders = {
            name: dataclasses.replace(one, one_at_a_time=len(one.search) > 1) for name, one in self.contenders.items()
        }
        return dataclasses.replace(self, contenders=contenders)

    def with_grid(self, contender: str, name: str, values: tuple[float, ...]) -> Plan:
        """The same plan with another search grid for one field."""
        if not values:
            raise UserError(f"the grid of {contender}.{name} is empty: give at least one value")
        for value in values:
            self.override(contender, name, value)  # checks names and value
        old = self.contenders[contender]
        new = dataclasses.replace(old, search={**old.search, name: values})
        return dataclasses.replace(self, contenders={**self.contenders, contender: new})


def _fitting(window: int, segment_length: int) -> int:
    """The window of a run with shorter segments: one that divides a segment, unless that is far shorter than before."""
    usual = min(window, segment_length)
    dividing = math.gcd(window, segment_length)
    return dividing if FINER * dividing >= usual else usual


def shrink(plan: Plan, segments: int, segment_length: int, seeds: int) -> Plan:
    """The same plan in seconds: fewer and shorter segments, fewer seeds."""
    return dataclasses.replace(plan.shortened(segments, segment_length), seeds=seeds)
