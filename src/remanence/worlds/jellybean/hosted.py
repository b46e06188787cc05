"""Jelly Bean World for the engine: maps are on the host, and the compiled loop calls the host at every step.

Steps on existing terrain are made without Python (`direct.py`), where XLA can call compiled functions.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core import hostcall
from remanence.core.types import Key, ObsSpec, TimeStep
from remanence.worlds import jellybean
from remanence.worlds.base import HostedWorld
from remanence.worlds.jellybean import directory
from remanence.worlds.jellybean.items import ACTIONS, JellyBean
from remanence.worlds.jellybean.rewards import DISCOUNT

if TYPE_CHECKING:
    from remanence.worlds.jellybean.world import JellyBeanWorlds

SEEDS = 2**31 - 3  # seeds of distinct worlds in the original, from 1 upwards

# The maps of this process. A lane's state holds only the number of its map.
_maps: dict[int, JellyBeanWorlds] = {}
_numbers = itertools.count()
_rules: list[JellyBean] = []  # a program knows the rules of its maps by their place in this list
_lock = threading.Lock()
NO_MAP = -1


class HostState(NamedTuple):
    """The state of one lane's world, on the device."""

    map: Array  # []
    time: Array  # [] steps taken
    collected: Array  # [kinds] items collected since the beginning


@dataclass(frozen=True)
class JellyBeanWorld(HostedWorld):
    """An endless walk in an infinite map; a task is what each kind of item is worth, [kinds].

    An observation is the view as bits, flattened: [view · view · 3], by x, by y upwards, by red, green and blue.

    Steps change the map: each call happens once and in order. It says how many steps were taken before, and one that comes twice or
    too early is an error.
    """

    rules: JellyBean
    discount: float = DISCOUNT
    endless = True

    @property
    def num_actions(self) -> int:
        return len(ACTIONS)

    @property
    def observation(self) -> ObsSpec:
        return ObsSpec((self.rules.view**2 * 3,), "bool")

    def reset(self, key: Key, task: Array) -> tuple[HostState, Array]:  # noqa: ARG002
        seed = 1 + jax.random.randint(key, (), 0, SEEDS)
        asked = jnp.stack([jnp.int32(_number(self.rules)), seed])
        number, view = hostcall.call(
            "remanence_jellybean_begin",
            _begin,
            [jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((self.rules.view,) * 2, np.uint8)],
            asked,
        )
        return HostState(number, jnp.int32(0), jnp.zeros(self.rules.num_kinds, jnp.int32)), self._bits(view)

    def step_active(
        self, key: Key, state: HostState, action: Array, task: Array, active: Array
    ) -> tuple[HostState, TimeStep]:
        del key
        asked = jnp.stack([state.map, state.time, action.astype(jnp.int32), active.astype(jnp.int32)])
        cells = self.rules.view**2
        answer = jax.ShapeDtypeStruct((cells + 1,), np.uint8)
        result = hostcall.call("remanence_jellybean_step", _step, answer, asked, compiled=_compiled_step)
        view, find = result[:cells].reshape(self.rules.view, self.rules.view), result[cells]
        reward = jnp.where(find > 0, task[jnp.maximum(find.astype(jnp.int32) - 1, 0)], 0.0)
        seen = TimeStep(self._bits(view), reward, jnp.float32(self.discount), jnp.bool_(False))
        collected = state.collected + (find == 1 + np.arange(self.rules.num_kinds))
        return HostState(state.map, state.time + 1, collected), seen

    def save(self, states: HostState) -> dict[str, np.ndarray]:
        """The maps of some lanes as arrays; leaves of `states` have a lane axis."""
        return {
            f"{row}.{name}": array
            for row, number in enumerate(np.asarray(states.map).tolist())
            if number in _maps
            for name, array in _maps[number].state().items()
        }

    def load(self, states: HostState, saved: dict[str, np.ndarray]) -> HostState:
        """The same lanes, with maps restored from the arrays of `save`."""
        numbers = []
        for row in range(len(states.map)):
            arrays = {
                name.removeprefix(f"{row}."): array for name, array in saved.items() if name.startswith(f"{row}.")
            }
            numbers.append(_keep(jellybean.JellyBeanWorlds.restore(self.rules, arrays)) if arrays else NO_MAP)
        return states._replace(map=np.array(numbers, np.int32))

    def drop(self, states: HostState) -> None:
        """Deletes the maps of lanes that are done."""
        for number in np.asarray(states.map).tolist():
            directory.withdraw(number)
            _maps.pop(number, None)

    def _bits(self, view: Array) -> Array:
        """Red, green and blue of every cell."""
        colours = self.rules.colours[1:] > 0.5  # [kinds, 3]
        return jnp.any((view[..., None, None] == 1 + np.arange(len(colours))[:, None]) & colours, axis=-2).ravel()


def _begin(asked: np.ndarray, numbers: np.ndarray, views: np.ndarray) -> None:
    """[lanes, (rules, seed)] -> a map for each lane: its number [lanes], and its first view [lanes, view, view]."""
    asked = asked.reshape(-1, 2)
    new_worlds = [jellybean.JellyBeanWorlds(_rules[rules], [seed]) for rules, seed in asked.tolist()]
    numbers.reshape(-1)[...] = [_keep(one) for one in new_worlds]
    views.reshape(len(asked), -1)[...] = [one.views[0].ravel() for one in new_worlds]


def _step(asked: np.ndarray, result: np.ndarray) -> None:
    """[lanes, (map, time, action, active)] -> [lanes, (view, find)]. Lanes that are not active stay where they are."""
    result[...] = 0
    result[..., -1] = np.where(asked[..., -1], directory.LEFT, 0)
    _finish(asked, result)


def _finish(asked: np.ndarray, result: np.ndarray) -> None:
    """The steps that are left."""
    for (number, time, action, _), answer in zip(
        asked.reshape(-1, 4).tolist(), result.reshape(-1, result.shape[-1]), strict=True
    ):
        if answer[-1] == directory.LEFT:
            one = _maps[number]
            if one.time[0] != time:
                raise RuntimeError(f"step {time} of a map that is at step {one.time[0]}")
            one.step(np.array([action]))
            answer[:-1], answer[-1] = one.views[0].ravel(), one.collected_now[0]
            one.publish(number)


def _compiled_step() -> int:
    """The address of the handler that makes steps without Python, where it can."""
    from remanence.core.native.compiling import one_at_a_time  # imports Numba, which is slow

    with one_at_a_time():
        from remanence.worlds.jellybean import direct

    return direct.address(hostcall.handler("remanence_jellybean_finish", _finish))


def _number(rules: JellyBean) -> int:
    with _lock:
        if rules not in _rules:
            _rules.append(rules)
        return _rules.index(rules)


def _keep(one: JellyBeanWorlds) -> int:
    number = next(_numbers)
    _maps[number] = one
    one.publish(number)
    return number
