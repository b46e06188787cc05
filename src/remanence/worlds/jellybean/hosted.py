"""Jelly Bean World for the engine: maps are on the host, and the compiled loop calls the host at every step."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.core import hostcall
from remanence.core.masking import is_active
from remanence.core.types import Key, TimeStep
from remanence.worlds.jellybean.items import JellyBean
from remanence.worlds.jellybean.rewards import DISCOUNT
from remanence.worlds.jellybean.world import ACTIONS, JellyBeanWorlds

SEEDS = 2**31 - 3  # seeds of distinct worlds in the original, from 1 upwards

# The maps of this process. A lane's state holds only the number of its map.
_maps: dict[int, JellyBeanWorlds] = {}
_numbers = itertools.count()
NO_MAP = -1


class HostState(NamedTuple):
    """The state of one lane's world, on the device."""

    map: Array  # []
    time: Array  # [] steps taken
    collected: Array  # [kinds] items collected since the beginning


@dataclass(frozen=True)
class JellyBeanWorld:
    """A continuing walk on an infinite map. Task: the reward of each kind of item, [kinds].

    An observation is the view as bits, flattened: [view · view · 3], by x, by y upwards, by red, green and blue.

    Steps are host calls that change the map, so each must run once and in order. Every call passes the number of steps before
    it; a repeated or early call is an error.
    """

    rules: JellyBean
    discount: float = DISCOUNT
    endless: bool = True

    @property
    def num_actions(self) -> int:
        return len(ACTIONS)

    @property
    def num_bits(self) -> int:
        return self.rules.view**2 * 3

    @property
    def example_obs(self) -> np.ndarray:
        return np.zeros(self.num_bits, bool)

    def reset(self, key: Key, task: Array) -> tuple[HostState, Array]:  # noqa: ARG002
        seed = 1 + jax.random.randint(key, (), 0, SEEDS)
        forms = (jax.ShapeDtypeStruct((), np.int32), self._view_form())
        number, view = jax.pure_callback(self._begin, forms, seed, vmap_method="broadcast_all")
        return HostState(number, jnp.int32(0), jnp.zeros(self.rules.num_kinds, jnp.int32)), self._bits(view)

    def step(self, key: Key, state: HostState, action: Array, task: Array) -> tuple[HostState, TimeStep]:  # noqa: ARG002
        asked = jnp.stack([state.map, state.time, action.astype(jnp.int32), is_active().astype(jnp.int32)])
        cells = self.rules.view**2
        told = hostcall.call("remanence_jellybean_step", _step, jax.ShapeDtypeStruct((cells + 1,), np.uint8), asked)
        view, find = told[:cells].reshape(self.rules.view, self.rules.view), told[cells]
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
            own = {name.removeprefix(f"{row}."): array for name, array in saved.items() if name.startswith(f"{row}.")}
            numbers.append(_keep(JellyBeanWorlds.restore(self.rules, own)) if own else NO_MAP)
        return states._replace(map=np.array(numbers, np.int32))

    def drop(self, states: HostState) -> None:
        """Frees the maps of finished lanes."""
        for number in np.asarray(states.map).tolist():
            _maps.pop(number, None)

    def _view_form(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((self.rules.view, self.rules.view), np.uint8)

    def _bits(self, view: Array) -> Array:
        """Red, green and blue of every cell."""
        colours = self.rules.colours[1:] > 0.5  # [kinds, 3]
        return jnp.any((view[..., None, None] == 1 + np.arange(len(colours))[:, None]) & colours, axis=-2).ravel()

    def _begin(self, seeds: Any) -> tuple[np.ndarray, np.ndarray]:
        """One map per seed, for seeds of any shape."""
        seeds = np.asarray(seeds)
        made = [JellyBeanWorlds(self.rules, [int(seed)]) for seed in seeds.ravel()]
        numbers = np.array([_keep(one) for one in made], np.int32).reshape(seeds.shape)
        return numbers, np.stack([one.views[0] for one in made]).reshape(*seeds.shape, *self._view_form().shape)


def _step(asked: np.ndarray, told: np.ndarray) -> None:
    """[lanes, (map, time, action, active)] -> [lanes, (view, collected)]. Inactive lanes do not move."""
    told[...] = 0
    for (number, time, action, active), answer in zip(
        asked.reshape(-1, 4), told.reshape(-1, told.shape[-1]), strict=True
    ):
        if active:
            one = _maps[int(number)]
            if one.time[0] != time:
                raise RuntimeError(f"step {time} of a map that is at step {one.time[0]}")
            one.step(action.reshape(1))
            answer[:-1], answer[-1] = one.views[0].ravel(), one.collected_now[0]


def _keep(one: JellyBeanWorlds) -> int:
    number = next(_numbers)
    _maps[number] = one
    return number
