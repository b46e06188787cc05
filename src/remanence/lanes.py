"""Many lives at once: mapped over lanes, sharded over devices, run in chunks by an ordinary Python loop.

Lanes step together in *rounds* of a few steps. After a round, measurements are taken for lanes whose episode has ended and
their next episode begins; a lane therefore waits for half a round per episode, and the probe is paid once per
round instead of at every step. When enough lanes of a device rest, those that are due consolidate: all of them where
lanes take equally long, fewer where the slowest would keep the others waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from remanence import life as lives
from remanence.agents.base import check_hypers
from remanence.errors import UserError
from remanence.life import Life, Setting
from remanence.lockstep import LANES
from remanence.random import make_key
from remanence.trees import choose
from remanence.types import Hypers

# Rounds between two looks from outside: few at first, and never more than some seconds' worth, so that a person soon hears of
# progress and a lane that is over makes room.
FIRST_CHUNK, LAST_CHUNK, CHUNK_SECONDS = 64, 512, 5.0
# The share of waiting lanes that consolidate at once, those with least to do, where not all lanes must meet.
SERVED = 0.75
# The share of rows whose lane is over that is worth a break to harvest them.
TURNOVER = 1 / 8
# When only 1 of SHRINK rows still lives and none waits to begin, the batch shrinks, but not below the smallest.
SHRINK, SMALLEST_BATCH = 4, 16
NOBODY = -1


class Progress(NamedTuple):
    """How far a run has come, over all lanes."""

    pages: int  # episodes, or windows of steps
    steps: int


class Outcome(NamedTuple):
    """What a run of lanes leaves behind, as numpy arrays."""

    record: Any  # leaves [lanes, episodes, ...]: what the probe measured; NaN where a lane was stopped before
    steps: np.ndarray  # [lanes]
    samples_lost: np.ndarray  # [lanes]
    agents: Any  # leaves [lanes, ...]: the agents as they were at the end


class _Carry(NamedTuple):
    life: Life
    record: Any


class Driver:
    """A compiled program for lanes that share agent, world, stream and probe, and differ in hyper-parameters and seed."""

    def __init__(
        self, setting: Setting, round_steps: int = 8, meet_at: float = 1.0, rounds_per_chunk: int | None = None
    ) -> None:
        setting.check()
        if not 0.0 < meet_at <= 1.0:
            raise UserError(f"the share of lanes that meet must be above 0 and at most 1; got {meet_at}")
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
        self._replace = jax.jit(lambda fresh, new, old: jax.vmap(choose)(fresh, new, old), donate_argnums=(1, 2))

    def run(
        self, hypers: Sequence[Hypers], seeds: Sequence[int], on_progress: Callable[[Progress], None] | None = None
    ) -> Outcome:
        """Lives `len(seeds)` whole lives; lane i has `hypers[i]` and `seeds[i]`. Lanes of equal seed share their luck."""
        lived: dict[int, Outcome] = {}
        for some in self.as_they_finish(hypers, seeds, on_progress):
            lived |= some
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(lived[lane] for lane in range(len(seeds))))

    def as_they_finish(
        self,
        hypers: Sequence[Hypers],
        seeds: Sequence[int],
        on_progress: Callable[[Progress], None] | None = None,
        batch: int | None = None,
    ) -> Iterator[dict[int, Outcome]]:
        """The same, giving lanes back as they finish. At most `batch` live at a time; who finishes makes room for the next.

        Some lanes may live many times longer than others. They never hold up the rest: new lanes take the place of those that
        are over, and when none is left to begin, the last ones go on in a smaller batch.
        """
        for own in {id(one): one for one in hypers}.values():
            check_hypers(own)
        all_hypers = jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *hypers)
        all_seeds = np.asarray(seeds, np.uint32)
        waiting = np.arange(len(seeds))
        size = self._whole(min(batch or len(seeds), len(seeds)))
        lanes = np.full(size, NOBODY)  # the lane that lives in each row
        carry, rows = None, self._hypers(all_hypers, lanes)
        clocks = np.zeros((2, len(seeds)), np.int64)  # pages and steps of every lane
        rounds = self.rounds_per_chunk or FIRST_CHUNK
        while True:
            free = np.flatnonzero(lanes == NOBODY)
            if waiting.size and free.size:
                beginning, waiting = waiting[: free.size], waiting[free.size :]
                lanes[free[: beginning.size]] = beginning
                rows = self._hypers(all_hypers, lanes)
                newborn = self._begin(rows, self._spread(all_seeds[np.maximum(lanes, 0)]))
                if carry is None:
                    carry = newborn
                else:
                    fresh = np.isin(lanes, beginning)
                    carry = self._replace(self._spread(fresh), newborn, carry)
            assert carry is not None
            began = time.monotonic()
            carry = self._advance(rows, carry, jnp.int32(rounds))
            lived_in = lanes != NOBODY
            clocks[:, lanes[lived_in]] = self._pages(carry)[lived_in], np.asarray(carry.life.step)[lived_in]
            if self.rounds_per_chunk is None:
                slow = time.monotonic() - began > CHUNK_SECONDS  # the first time, with compiling: it soon grows again
                rounds = max(rounds // 2, 1) if slow else min(2 * rounds, LAST_CHUNK)
            if on_progress is not None:
                on_progress(Progress(*map(int, clocks.sum(axis=1))))
            over = lived_in & np.asarray(jax.vmap(partial(lives.is_over, self.setting))(carry.life))
            alive = int(lived_in.sum() - over.sum())
            if alive and over.sum() < len(lanes) * TURNOVER:
                continue  # too few to be worth a break
            yield self._outcomes(carry, lanes, np.flatnonzero(over))
            lanes[over] = NOBODY
            if not alive and not waiting.size:
                return
            smaller = self._whole(max(len(lanes) // SHRINK, SMALLEST_BATCH))
            if not waiting.size and alive <= smaller <= len(lanes) // 2:
                kept = np.flatnonzero(lanes != NOBODY)
                kept = np.concatenate([kept, np.flatnonzero(lanes == NOBODY)[: smaller - kept.size]])
                carry = self._spread(jax.tree.map(lambda leaf, kept=kept: leaf[kept], carry))
                lanes = lanes[kept]
                rows = self._hypers(all_hypers, lanes)

    def _whole(self, size: int) -> int:
        """The next size that all devices can share equally."""
        return -(-size // self.mesh.size) * self.mesh.size

    def _hypers(self, all_hypers: Hypers, lanes: np.ndarray) -> Hypers:
        """Hyper-parameters row by row; a row where nobody lives borrows lane 0's."""
        return self._spread(jax.tree.map(lambda leaf: leaf[np.maximum(lanes, 0)], all_hypers))

    def _spread(self, tree: Any) -> Any:
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec(LANES)))

    def _pages(self, carry: _Carry) -> np.ndarray:
        return np.asarray(jax.vmap(partial(lives.pages, self.setting))(carry.life))

    def _outcomes(self, carry: _Carry, lanes: np.ndarray, rows: np.ndarray) -> dict[int, Outcome]:
        """What the lanes in these rows leave behind."""
        lost = jax.vmap(self.setting.agent.samples_lost, axis_size=len(lanes))(carry.life.agent)
        everything = Outcome(*jax.tree.map(np.array, (carry.record, carry.life.step, lost, carry.life.agent)))
        pages = self._pages(carry)
        for row in rows[pages[rows] < self.setting.pages]:  # lanes that were stopped
            for leaf in jax.tree.leaves(everything.record):
                leaf[row, pages[row] :] = np.nan
        return {int(lanes[row]): jax.tree.map(lambda leaf, row=row: leaf[row].copy(), everything) for row in rows}


def _begin(setting: Setting, hypers: Hypers, seeds: Array) -> _Carry:
    life = jax.vmap(lambda h, seed: lives.born(setting, h, make_key(seed)))(hypers, seeds)
    measured = jax.eval_shape(jax.vmap(lambda one: setting.probe(lives.moment(setting, one))), life)
    record = jax.tree.map(lambda leaf: jnp.zeros((leaf.shape[0], setting.pages, *leaf.shape[1:]), leaf.dtype), measured)
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
        # Lanes in the middle of a page write beyond the end of the record, where nothing is kept.
        page = jnp.where(life.ended, every_lane(lives.pages, life), setting.pages)
        record = jax.tree.map(
            lambda kept, new: jax.vmap(lambda k, p, n: k.at[p].set(n, mode="drop"))(kept, page, new),
            carry.record,
            measured,
        )
        return _Carry(every_lane(lives.turn_page, life), record)

    def alive(life: Life) -> Array:
        return ~every_lane(lives.is_over, life)

    def enough_wait(life: Life) -> Array:
        """Whether enough of the lanes that still live wait to consolidate; true as well when none lives any more."""
        living = alive(life)
        return jnp.sum(life.resting & living) >= meet_at * jnp.sum(living)

    def meet(life: Life) -> Life:
        """Lanes that wait consolidate, but for those with most to do where not all must meet: they wait for more of their kind."""
        waiting = life.resting & alive(life)
        load = every_lane(lambda setting, one: setting.agent.workload(one.agent), life)
        served = jnp.ceil(jnp.sum(waiting) * (1.0 if meet_at == 1.0 else SERVED)).astype(jnp.int32)
        most = jnp.sort(jnp.where(waiting, load, jnp.iinfo(jnp.int32).max))[jnp.maximum(served - 1, 0)]
        return every_lane(lives.consolidate, hypers, life, waiting & (load <= most))

    def live_until_enough_wait(state: tuple[_Carry, Array]) -> tuple[_Carry, Array]:
        carry, done = jax.lax.while_loop(
            lambda state: ~enough_wait(state[0].life) & (state[1] < rounds),
            lambda state: (play_round(state[0]), state[1] + 1),
            state,
        )
        return carry._replace(life=meet(carry.life)), done

    def more_to_live(state: tuple[_Carry, Array]) -> Array:
        return jnp.any(alive(state[0].life)) & (state[1] < rounds)

    return jax.lax.while_loop(more_to_live, live_until_enough_wait, (carry, jnp.int32(0)))[0]
