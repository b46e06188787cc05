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

from remanence.agents.base import check_hypers
from remanence.core.errors import UserError
from remanence.core.masking import LANES
from remanence.core.prng import make_key, unwrap_keys, wrap_keys
from remanence.core.tree_utils import named_leaves, tree_nbytes, tree_where
from remanence.core.types import Hypers
from remanence.engine import life as lives
from remanence.engine.life import Life, LifeConfig
from remanence.worlds.base import Hosted

# Rounds between two looks from outside: few at first, and never more than some seconds' worth, so that a person soon hears of
# progress and little is lost when a run is cut off.
FIRST_CHUNK, LAST_CHUNK, CHUNK_SECONDS = 64, 512, 5.0
# Rounds after which lanes that are over make room.
ROUNDS_PER_BREAK = 512
# The share of waiting lanes that consolidate at once, those with least to do, where not all lanes must meet.
SERVED = 0.75
# The share of rows whose lane is over that is worth a break to harvest them.
TURNOVER = 1 / 8
# When only 1 of SHRINK rows still lives and none waits to begin, the batch shrinks, but not below the smallest.
SHRINK, SMALLEST_BATCH = 4, 16
EMPTY_ROW = -1


class Progress(NamedTuple):
    """How far a run has come, over all lanes."""

    windows: int  # episodes, or windows of steps
    steps: int


class Outcome(NamedTuple):
    """What a run of lanes leaves behind, as numpy arrays."""

    record: Any  # leaves [lanes, episodes, ...]: what the probe measured; NaN where a lane was stopped before
    steps: np.ndarray  # [lanes]
    samples_dropped: np.ndarray  # [lanes]
    agents: Any  # leaves [lanes, ...]: the agents as they were at the end; None if they are not kept


class _Carry(NamedTuple):
    life: Life
    record: Any


class Driver:
    """A compiled program for lanes that share agent, world, stream and probe, and differ in hyper-parameters and seed."""

    def __init__(
        self,
        setting: LifeConfig,
        round_steps: int = 8,
        meet_at: float = 1.0,
        rounds_per_chunk: int | None = None,
        rounds_per_break: int = ROUNDS_PER_BREAK,
        devices: int | None = None,
    ) -> None:
        """`devices`: how many share the lanes; all there are if not given. Rows are filled up to a multiple of it."""
        setting.check()
        if not 0.0 < meet_at <= 1.0:
            raise UserError(f"the share of lanes that meet must be above 0 and at most 1; got {meet_at}")
        self.setting = setting
        self.rounds_per_chunk = rounds_per_chunk
        self.rounds_per_break = rounds_per_break
        self.mesh = Mesh(np.array(jax.devices()[:devices]), (LANES,))
        spread = partial(jax.shard_map, mesh=self.mesh, check_vma=False, out_specs=PartitionSpec(LANES))
        by_lane, shared = PartitionSpec(LANES), PartitionSpec()
        self._begin = jax.jit(spread(partial(_begin, setting), in_specs=(by_lane, by_lane)))
        self._advance = jax.jit(
            spread(partial(_advance, setting, round_steps, meet_at), in_specs=(by_lane, by_lane, shared)),
            donate_argnums=1,
        )
        self._replace = jax.jit(lambda fresh, new, old: jax.vmap(tree_where)(fresh, new, old), donate_argnums=(1, 2))

    def begin(
        self, hypers: Sequence[Hypers], seeds: Sequence[int], at_once: int | None = None, keep_agents: bool = True
    ) -> Batch:
        """Whole lives, not yet lived; lane i has `hypers[i]` and `seeds[i]`. Lanes of equal seed share their luck.

        Args:
            at_once: how many lanes live at a time; all if not given.
            keep_agents: whether outcomes hold the agents as they were at the end.
        """
        return Batch(self, hypers, seeds, at_once or len(seeds), keep_agents)

    def run(
        self, hypers: Sequence[Hypers], seeds: Sequence[int], on_progress: Callable[[Progress], None] | None = None
    ) -> Outcome:
        """Lives `len(seeds)` whole lives."""
        lived: dict[int, Outcome] = {}
        for some in self.iter_finished(hypers, seeds, on_progress):
            lived |= some
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(lived[lane] for lane in range(len(seeds))))

    def iter_finished(
        self,
        hypers: Sequence[Hypers],
        seeds: Sequence[int],
        on_progress: Callable[[Progress], None] | None = None,
        at_once: int | None = None,
    ) -> Iterator[dict[int, Outcome]]:
        """The same, giving lanes back as they finish."""
        batch = self.begin(hypers, seeds, at_once)
        while not batch.over:
            finished = batch.advance()
            if on_progress is not None:
                on_progress(batch.progress)
            if finished:
                yield finished

    def bytes_per_lane(self, hypers: Hypers) -> int:
        """What a lane needs in memory, known without compiling anything."""
        return tree_nbytes(self._plain_shapes(hypers, self.mesh.size)) // self.mesh.size

    def metrics(self, hypers: Hypers) -> list[str]:
        """The names of the curves that the probe records, known without compiling anything."""
        return list(self._shapes(hypers, self.mesh.size).record["curves"])

    def _shapes(self, hypers: Hypers, rows: int) -> _Carry:
        """The form of the state of so many rows."""
        columns = jax.tree.map(lambda _: jax.ShapeDtypeStruct((rows,), np.float32), hypers)
        return jax.eval_shape(self._begin, columns, jax.ShapeDtypeStruct((rows,), np.uint32))

    def _plain_shapes(self, hypers: Hypers, rows: int) -> _Carry:
        """The same with keys as plain words, which is how they are kept."""
        return jax.eval_shape(unwrap_keys, self._shapes(hypers, rows))

    def _spread(self, tree: Any) -> Any:
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec(LANES)))


class Batch:
    """Lanes under way: which lane lives in which row, and all that decides their future, to be kept and restored.

    At most `at_once` lanes live at a time. Some may live many times longer than others; they never hold up the rest: new
    lanes take the place of those that are over, and when none is left to begin, the last ones go on in a smaller batch.
    Both happen after a fixed number of rounds, never by the clock on the wall: what a lane lives through, and in which company,
    depends neither on the machine's speed nor on how often a run was interrupted.
    """

    def __init__(
        self, driver: Driver, hypers: Sequence[Hypers], seeds: Sequence[int], at_once: int, keep_agents: bool
    ) -> None:
        for own in {id(one): one for one in hypers}.values():
            check_hypers(own)
        self.driver, self.setting, self.keep_agents = driver, driver.setting, keep_agents
        self.over = False
        self._hypers = jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *hypers)
        self._seeds = np.asarray(seeds, np.uint32)
        self._lanes = np.full(self._whole(min(at_once, len(seeds))), EMPTY_ROW)  # the lane that lives in each row
        self._begun = 0  # lanes that live or have lived; they begin in their order
        self._clocks = np.zeros((2, len(seeds)), np.int64)  # pages and steps of every lane
        self._rounds = 0  # since the last break
        self._carry: _Carry | None = None
        self._rows: Hypers = self._hypers_by_row()
        self._chunk = driver.rounds_per_chunk or FIRST_CHUNK

    @property
    def progress(self) -> Progress:
        return Progress(*map(int, self._clocks.sum(axis=1)))

    def advance(self) -> dict[int, Outcome]:
        """Lives on for some seconds at most; returns the lanes whose lives ended, once enough of them did."""
        self._fill_rows()
        assert self._carry is not None
        rounds = min(self._chunk, self.driver.rounds_per_break - self._rounds)
        began = time.monotonic()
        self._carry = carry = self.driver._advance(self._rows, self._carry, jnp.int32(rounds))
        self._rounds += rounds
        lived_in = self._lanes != EMPTY_ROW
        windows, steps = self._windows_done(), np.asarray(carry.life.step)
        self._clocks[:, self._lanes[lived_in]] = windows[lived_in], steps[lived_in]
        if self.driver.rounds_per_chunk is None:
            slow = time.monotonic() - began > CHUNK_SECONDS  # the first time, with compiling: it soon grows again
            self._chunk = max(self._chunk // 2, 1) if slow else min(2 * self._chunk, LAST_CHUNK)
        over = lived_in & np.asarray(jax.vmap(partial(lives.is_done, self.setting))(carry.life))
        alive = int(lived_in.sum() - over.sum())
        if alive and self._rounds < self.driver.rounds_per_break:
            return {}
        self._rounds = 0
        if alive and over.sum() < len(self._lanes) * TURNOVER:
            return {}  # too few to be worth a break
        finished = self._outcomes(np.flatnonzero(over))
        if isinstance(self.setting.world, Hosted):
            self.setting.world.drop(jax.tree.map(lambda leaf: np.asarray(leaf)[over], carry.life.world))
        self._lanes[over] = EMPTY_ROW
        self.over = not alive and self._begun == len(self._seeds)
        self._shrink(alive)
        return finished

    def state(self) -> dict[str, np.ndarray]:
        """Everything that decides the future, as named arrays."""
        kept = {f"life{name}": leaf for name, leaf in named_leaves(unwrap_keys(self._carry))} if self._carry else {}
        if self._carry and isinstance(self.setting.world, Hosted):
            kept |= {f"host.{name}": leaf for name, leaf in self.setting.world.save(self._carry.life.world).items()}
        own = {"lanes": self._lanes, "begun": self._begun, "clocks": self._clocks, "rounds": self._rounds}
        own["devices"] = self.driver.mesh.size
        return {name: np.asarray(leaf) for name, leaf in (kept | own).items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Goes on from what `state` gave, in this process or another."""
        begun_with, here = int(state["devices"]), self.driver.mesh.size
        if begun_with != here:  # another number of lanes on each device would change the last bits
            raise UserError(
                f"this was begun with {begun_with} cores per process, here are {here}: give --cores-per-group {begun_with}, "
                "or begin anew with --restart"
            )
        self._lanes, self._clocks = np.array(state["lanes"]), np.array(state["clocks"])
        self._begun, self._rounds = int(state["begun"]), int(state["rounds"])
        self._rows = self._hypers_by_row()
        form = self.driver._shapes(self._hypers, len(self._lanes))
        unwrapped = self.driver._plain_shapes(self._hypers, len(self._lanes))
        leaves = [state.get(f"life{name}") for name, _ in named_leaves(unwrapped)]
        for (name, wanted), found in zip(named_leaves(unwrapped), leaves, strict=True):
            if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                raise UserError(
                    f"the checkpoint does not fit this program (it differs in {name}): begin anew with --restart"
                )
        carry: _Carry = jax.tree.unflatten(jax.tree.structure(unwrapped), leaves)
        if isinstance(self.setting.world, Hosted):
            host = {name.removeprefix("host."): leaf for name, leaf in state.items() if name.startswith("host.")}
            carry = carry._replace(life=carry.life._replace(world=self.setting.world.load(carry.life.world, host)))
        self._carry = self.driver._spread(wrap_keys(carry, form))

    def under_way(self) -> Iterator[tuple[int, int, Any]]:
        """For each lane that lives: its number, how many pages it has filled, and its record so far."""
        if self._carry is None:
            return
        record = jax.tree.map(np.asarray, self._carry.record)
        for row in np.flatnonzero(self._lanes != EMPTY_ROW):
            lane = int(self._lanes[row])
            yield lane, int(self._clocks[0, lane]), jax.tree.map(lambda leaf, row=row: leaf[row], record)

    def size(self) -> int:
        """Bytes of the state."""
        return tree_nbytes(self.driver._plain_shapes(self._hypers, len(self._lanes)))

    def _fill_rows(self) -> None:
        """Lets lanes begin where nobody lives."""
        free = np.flatnonzero(self._lanes == EMPTY_ROW)
        beginning = np.arange(self._begun, min(self._begun + free.size, len(self._seeds)))
        if not beginning.size:
            return
        self._lanes[free[: beginning.size]] = beginning
        self._begun += beginning.size
        self._rows = self._hypers_by_row()
        newborn = self.driver._begin(self._rows, self.driver._spread(self._seeds[np.maximum(self._lanes, 0)]))
        if self._carry is None:
            self._carry = newborn
        else:
            fresh = np.isin(self._lanes, beginning)
            if isinstance(self.setting.world, Hosted):  # rows that live on need no second one
                self.setting.world.drop(jax.tree.map(lambda leaf: np.asarray(leaf)[~fresh], newborn.life.world))
            self._carry = self.driver._replace(self.driver._spread(fresh), newborn, self._carry)

    def _shrink(self, alive: int) -> None:
        """Goes on with fewer rows when few lanes are left and none waits to begin."""
        smaller = self._whole(max(len(self._lanes) // SHRINK, SMALLEST_BATCH))
        if self.over or self._begun < len(self._seeds) or not alive <= smaller <= len(self._lanes) // 2:
            return
        kept = np.flatnonzero(self._lanes != EMPTY_ROW)
        kept = np.concatenate([kept, np.flatnonzero(self._lanes == EMPTY_ROW)[: smaller - kept.size]])
        self._carry = self.driver._spread(jax.tree.map(lambda leaf: leaf[kept], self._carry))
        self._lanes = self._lanes[kept]
        self._rows = self._hypers_by_row()

    def _whole(self, size: int) -> int:
        """The next size that all devices can share equally."""
        return -(-size // self.driver.mesh.size) * self.driver.mesh.size

    def _hypers_by_row(self) -> Hypers:
        """A row where nobody lives borrows lane 0's."""
        return self.driver._spread(jax.tree.map(lambda leaf: leaf[np.maximum(self._lanes, 0)], self._hypers))

    def _windows_done(self) -> np.ndarray:
        assert self._carry is not None
        return np.asarray(jax.vmap(partial(lives.windows, self.setting))(self._carry.life))

    def _outcomes(self, rows: np.ndarray) -> dict[int, Outcome]:
        """What the lanes in these rows leave behind."""
        assert self._carry is not None
        life, record = self._carry
        lost = jax.vmap(self.setting.agent.samples_dropped, axis_size=len(self._lanes))(life.agent)
        agents = life.agent if self.keep_agents else None
        everything = Outcome(*jax.tree.map(np.array, (record, life.step, lost, agents)))
        windows = self._windows_done()
        for row in rows[windows[rows] < self.setting.windows]:  # lanes that were stopped
            for leaf in jax.tree.leaves(everything.record):
                leaf[row, windows[row] :] = np.nan
        return {int(self._lanes[row]): jax.tree.map(lambda leaf, row=row: leaf[row].copy(), everything) for row in rows}


def _begin(setting: LifeConfig, hypers: Hypers, seeds: Array) -> _Carry:
    life = jax.vmap(lambda h, seed: lives.init_life(setting, h, make_key(seed)))(hypers, seeds)
    measured = jax.eval_shape(jax.vmap(lambda one: setting.probe(lives.moment(setting, one))), life)
    record = jax.tree.map(
        lambda leaf: jnp.zeros((leaf.shape[0], setting.windows, *leaf.shape[1:]), leaf.dtype), measured
    )
    return _Carry(life, record)


def _advance(
    setting: LifeConfig, round_steps: int, meet_at: float, hypers: Hypers, carry: _Carry, rounds: Array
) -> _Carry:
    """Up to `rounds` rounds for the lanes of one device, consolidating whenever enough of them rest."""

    def every_lane(function: Callable, *arguments: Any) -> Any:
        return jax.vmap(partial(function, setting), axis_name=LANES)(*arguments)

    def play_round(carry: _Carry) -> _Carry:
        def step(life: Life, _: None) -> tuple[Life, None]:
            return every_lane(lives.step_life, hypers, life), None

        life, _ = jax.lax.scan(step, carry.life, None, round_steps)
        measured = every_lane(lambda setting, one: setting.probe(lives.moment(setting, one)), life)
        # Lanes in the middle of a page write beyond the end of the record, where nothing is kept.
        page = jnp.where(life.ended, every_lane(lives.windows, life), setting.windows)
        record = jax.tree.map(
            lambda kept, new: jax.vmap(lambda k, p, n: k.at[p].set(n, mode="drop"))(kept, page, new),
            carry.record,
            measured,
        )
        return _Carry(every_lane(lives.close_window, life), record)

    def alive(life: Life) -> Array:
        return ~every_lane(lives.is_done, life)

    def enough_wait(life: Life) -> Array:
        """Whether enough of the lanes that still live wait to consolidate; true as well when none lives any more."""
        living = alive(life)
        return jnp.sum(life.waiting & living) >= meet_at * jnp.sum(living)

    def consolidate_waiting(life: Life) -> Life:
        """Lanes that wait consolidate, but for those with most to do where not all must meet: they wait for more of their kind."""
        waiting = life.waiting & alive(life)
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
        # When rounds run out first, nobody meets: what happens must not depend on where a run is cut.
        life = jax.lax.cond(enough_wait(carry.life), consolidate_waiting, lambda life: life, carry.life)
        return carry._replace(life=life), done

    def more_to_live(state: tuple[_Carry, Array]) -> Array:
        return jnp.any(alive(state[0].life)) & (state[1] < rounds)

    return jax.lax.while_loop(more_to_live, live_until_enough_wait, (carry, jnp.int32(0)))[0]
