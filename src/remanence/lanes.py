"""Many lives at once: mapped over lanes, sharded over devices, run in chunks by an ordinary Python loop.

Lanes step together in *rounds* of a few steps. After a round, measurements are taken for lanes whose episode has ended and
their next episode begins; a lane therefore waits for half a round per episode, and the probe is paid once per
round instead of at every step. When enough lanes of a device rest, those that are due consolidate: all of them where
lanes take equally long, fewer where the slowest would keep the others waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from remanence import life as lives
from remanence.life import Life, Setting
from remanence.lockstep import LANES
from remanence.random import make_key
from remanence.types import Hypers

SECONDS_PER_CHUNK = 1.0  # how often a person hears of progress


class Progress(NamedTuple):
    """How far a run has come, over all lanes."""

    episodes: int
    steps: int


@dataclass(frozen=True)
class Outcome:
    """What a run of lanes leaves behind."""

    record: Any  # pytree of numpy arrays [lanes, episodes, ...]: what the probe measured
    steps: np.ndarray  # [lanes]
    samples_lost: np.ndarray  # [lanes]
    agents: Any  # pytree of numpy arrays [lanes, ...]: the agents as they were at the end


class _Carry(NamedTuple):
    life: Life
    record: Any


class Driver:
    """A compiled program for lanes that share agent, world, stream and probe, and differ in hyper-parameters and seed."""

    def __init__(
        self, setting: Setting, round_steps: int = 8, meet_at: float = 1.0, rounds_per_chunk: int | None = None
    ) -> None:
        setting.check()
        self.setting = setting
        self.rounds_per_chunk = rounds_per_chunk
        self.mesh = Mesh(np.array(jax.devices()), (LANES,))
        spread = partial(jax.shard_map, mesh=self.mesh, check_vma=False, out_specs=PartitionSpec(LANES))
        by_lane, shared = PartitionSpec(LANES), PartitionSpec()
        self._begin = jax.jit(spread(partial(_begin, setting), in_specs=(by_lane, by_lane)))
        self._advance = jax.jit(
            spread(partial(_advance, setting, round_steps, meet_at), in_specs=(by_lane, by_lane, shared)),
            donate_argnums=1,
        )

    def run(
        self, hypers: Sequence[Hypers], seeds: Sequence[int], on_progress: Callable[[Progress], None] | None = None
    ) -> Outcome:
        """Lives `len(seeds)` whole lives; lane i has `hypers[i]` and `seeds[i]`. Lanes of equal seed share their luck."""
        count = len(seeds)
        filling = (
            -count % self.mesh.size
        )  # devices hold equally many lanes: the last lane is repeated, and dropped again below
        spread = NamedSharding(self.mesh, PartitionSpec(LANES))
        padded = list(hypers) + [hypers[-1]] * filling
        all_hypers = jax.device_put(jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *padded), spread)
        all_seeds = jax.device_put(np.array([*seeds, *[seeds[-1]] * filling], np.uint32), spread)

        carry = self._begin(all_hypers, all_seeds)
        rounds = self.rounds_per_chunk or 64
        while True:
            started = time.monotonic()
            carry = self._advance(all_hypers, carry, jnp.int32(rounds))
            episodes = np.asarray(carry.life.episode)[:count]
            if on_progress is not None:
                on_progress(Progress(int(episodes.sum()), int(np.asarray(carry.life.step)[:count].sum(dtype=np.int64))))
            if episodes.min() >= self.setting.episodes:
                break
            if self.rounds_per_chunk is None and time.monotonic() - started < SECONDS_PER_CHUNK / 2:
                rounds *= 2
        own = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], (carry.record, carry.life.step, carry.life.agent))
        lost = np.asarray(jax.vmap(self.setting.agent.samples_lost)(carry.life.agent))
        lost = np.broadcast_to(lost, (count + filling,))[:count]
        return Outcome(record=own[0], steps=own[1], samples_lost=lost, agents=own[2])


def _begin(setting: Setting, hypers: Hypers, seeds: Array) -> _Carry:
    life = jax.vmap(lambda h, seed: lives.born(setting, h, make_key(seed)))(hypers, seeds)
    measured = jax.eval_shape(jax.vmap(lambda one: setting.probe(lives.moment(setting, one))), life)
    record = jax.tree.map(
        lambda leaf: jnp.zeros((leaf.shape[0], setting.episodes, *leaf.shape[1:]), leaf.dtype), measured
    )
    return _Carry(life, record)


def _advance(
    setting: Setting, round_steps: int, meet_at: float, hypers: Hypers, carry: _Carry, rounds: Array
) -> _Carry:
    """Up to `rounds` rounds for the lanes of one device, consolidating whenever enough of them rest."""

    def every_lane(function: Callable, *arguments: Any) -> Any:
        return jax.vmap(partial(function, setting), axis_name=LANES)(*arguments)

    def play_round(carry: _Carry) -> _Carry:
        def step(life: Life, _: None) -> tuple[Life, None]:
            return every_lane(lives.interact, hypers, life), None

        life, _ = jax.lax.scan(step, carry.life, None, round_steps)
        measured = every_lane(lambda setting, one: setting.probe(lives.moment(setting, one)), life)
        # Lanes in the middle of an episode write beyond the end of the record, where nothing is kept.
        page = jnp.where(life.ended, life.episode, setting.episodes)
        record = jax.tree.map(
            lambda kept, new: jax.vmap(lambda k, p, n: k.at[p].set(n, mode="drop"))(kept, page, new),
            carry.record,
            measured,
        )
        return _Carry(every_lane(lives.turn_page, life), record)

    def live_until_enough_rest(state: tuple[_Carry, Array]) -> tuple[_Carry, Array]:
        carry, done = jax.lax.while_loop(
            lambda state: (jnp.mean(state[0].life.resting) < meet_at) & (state[1] < rounds),
            lambda state: (play_round(state[0]), state[1] + 1),
            state,
        )
        return carry._replace(life=every_lane(lives.consolidate, hypers, carry.life)), done

    def more_to_live(state: tuple[_Carry, Array]) -> Array:
        carry, done = state
        return ~jnp.all(every_lane(lives.is_over, carry.life)) & (done < rounds)

    return jax.lax.while_loop(more_to_live, live_until_enough_rest, (carry, jnp.int32(0)))[0]
