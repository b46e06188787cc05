"""Many lives in parallel: mapped over lanes, sharded over devices, run in chunks by a Python loop.

Lanes step together in *rounds* of a few steps. After a round, lanes whose window is full are measured and their window is closed.
A lane therefore waits for half a round per window on average, and the probe is computed once per round instead of at every step.
When all lanes of a device wait, those that are due consolidate together, with one loop bound for all (see `core/masking.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from remanence.core.backend import first_devices
from remanence.core.masking import LANES
from remanence.core.prng import make_key, unwrap_keys
from remanence.core.tree_utils import tree_nbytes, tree_where
from remanence.engine import life as lives
from remanence.engine.batch import Batch, Carry, Outcome, Progress
from remanence.engine.life import Life, LifeConfig

__all__ = ["ROUNDS_PER_BREAK", "Batch", "Driver", "Outcome", "Progress"]

# Rounds after which new lanes take the rows of lanes that are done.
ROUNDS_PER_BREAK = 512


class Driver:
    """A compiled program for lanes that share agent, world, stream and probe, and differ in hyper-parameters and seed."""

    def __init__(
        self,
        config: LifeConfig,
        round_steps: int = 8,
        rounds_per_chunk: int | None = None,
        rounds_per_break: int = ROUNDS_PER_BREAK,
        devices: int | None = None,
    ) -> None:
        """`devices`: how many devices share the lanes; default: all. The number of rows is a multiple of it."""
        config.check()
        self.config = config
        self.round_steps = round_steps
        self.rounds_per_chunk = rounds_per_chunk
        self.rounds_per_break = rounds_per_break
        self.mesh = Mesh(np.array(first_devices(devices)), (LANES,))
        by_device = partial(jax.shard_map, mesh=self.mesh, check_vma=False, out_specs=PartitionSpec(LANES))
        by_lane, shared = PartitionSpec(LANES), PartitionSpec()
        self.init_rows = jax.jit(by_device(partial(_init_rows, config), in_specs=(by_lane, by_lane)))
        """(hypers, seeds) -> lives before the first step"""
        self.advance_rows = jax.jit(
            by_device(partial(_advance_rows, config, round_steps), in_specs=(by_lane, by_lane, shared)),
            donate_argnums=1,
        )
        """(hypers, carry, rounds) -> carry"""
        self.replace_rows = jax.jit(
            lambda fresh, new, old: jax.vmap(tree_where)(fresh, new, old), donate_argnums=(1, 2)
        )
        """(fresh [rows], new, old) -> carry"""
        self.clocks = jax.jit(
            jax.vmap(lambda life: (lives.windows(config, life), life.step, lives.is_done(config, life)))
        )
        """(lives) -> [rows] closed windows, steps, and whether a lane is done"""

    def run(
        self, hypers: Sequence[Any], seeds: Sequence[int], on_progress: Callable[[Progress], None] | None = None
    ) -> Outcome:
        """Runs `len(seeds)` complete lives."""
        outcomes: dict[int, Outcome] = {}
        for some in self.iter_finished(hypers, seeds, on_progress):
            outcomes |= some
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(outcomes[lane] for lane in range(len(seeds))))

    def iter_finished(
        self,
        hypers: Sequence[Any],
        seeds: Sequence[int],
        on_progress: Callable[[Progress], None] | None = None,
        at_once: int | None = None,
    ) -> Iterator[dict[int, Outcome]]:
        """The same, but yields lanes as they finish."""
        batch = Batch(self, hypers, seeds, at_once)
        while not batch.done:
            finished = batch.advance()
            if on_progress is not None:
                on_progress(batch.progress)
            if finished:
                yield finished

    def bytes_per_lane(self, hypers: Any) -> int:
        """Memory per lane; computed without compiling."""
        return tree_nbytes(self.plain_shapes(hypers, self.mesh.size)) // self.mesh.size

    def metrics(self, hypers: Any) -> list[str]:
        """The names of the curves that the probe records; computed without compiling."""
        return list(self.shapes(hypers, self.mesh.size).record["curves"])

    def shapes(self, hypers: Any, rows: int) -> Carry:
        """Shapes and dtypes of the state of n rows."""
        columns = jax.tree.map(lambda _: jax.ShapeDtypeStruct((rows,), np.float32), hypers)
        return jax.eval_shape(self.init_rows, columns, jax.ShapeDtypeStruct((rows,), np.uint32))

    def plain_shapes(self, hypers: Any, rows: int) -> Carry:
        """The same with keys as plain integers, as checkpoints hold them."""
        return jax.eval_shape(unwrap_keys, self.shapes(hypers, rows))

    def shard(self, tree: Any) -> Any:
        """Distributes rows over the devices."""
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec(LANES)))


def _init_rows(config: LifeConfig, hypers: Any, seeds: Array) -> Carry:
    life = jax.vmap(lambda h, seed: lives.init_life(config, h, make_key(seed)))(hypers, seeds)
    measured = jax.eval_shape(jax.vmap(lambda one: config.probe(lives.probe_input(config, one))), life)
    record = jax.tree.map(
        lambda leaf: jnp.zeros((leaf.shape[0], config.windows, *leaf.shape[1:]), leaf.dtype), measured
    )
    return Carry(life, record)


def _advance_rows(config: LifeConfig, round_steps: int, hypers: Any, carry: Carry, rounds: Array) -> Carry:
    """Up to `rounds` rounds for the lanes of one device, consolidating whenever all of them wait, and after the last round."""

    def every_lane(function: Callable, *arguments: Any) -> Any:
        return jax.vmap(partial(function, config), axis_name=LANES)(*arguments)

    step_lanes = jax.vmap(partial(lives.step, config), axis_name=LANES)

    def play_round(state: tuple[Carry, Array]) -> tuple[Carry, Array]:
        carry, played = state

        def step(life: Life, _: None) -> tuple[Life, None]:
            return step_lanes(hypers, life), None

        life, _ = jax.lax.scan(step, carry.life, None, round_steps)
        if config.by_steps:  # in most rounds no window ends, and the probe may be expensive
            record = jax.lax.cond(jnp.any(life.ended), write_windows, lambda _, record: record, life, carry.record)
        else:
            record = write_windows(life, carry.record)
        return Carry(every_lane(lives.close_window, life), record), played + 1

    def write_windows(life: Life, record: Any) -> Any:
        """Measures all lanes. Those in the middle of a window write past the end of the record, and that write is dropped."""
        measured = every_lane(lambda config, one: config.probe(lives.probe_input(config, one)), life)
        window = jnp.where(life.ended, every_lane(lives.windows, life), config.windows)
        return jax.tree.map(
            lambda old, new: jax.vmap(lambda k, w, n: k.at[w].set(n, mode="drop"))(old, window, new), record, measured
        )

    def all_wait(life: Life) -> Array:
        """Whether every lane that is not done waits to consolidate; also true when all are done."""
        return jnp.all(life.waiting | every_lane(lives.is_done, life))

    def some_wait(life: Life) -> Array:
        return jnp.any(life.waiting & ~every_lane(lives.is_done, life))

    def consolidate_waiting(life: Life) -> Life:
        return every_lane(lives.consolidate, hypers, life)

    def play_until_all_wait(state: tuple[Carry, Array]) -> tuple[Carry, Array]:
        carry, played = jax.lax.while_loop(
            lambda state: ~all_wait(state[0].life) & (state[1] < rounds),
            play_round,
            state,
        )
        if config.consolidate_every is None:
            return carry, played
        # Lanes that wait also consolidate when the rounds run out: they do not wait longer than a chunk takes for slower ones. When
        # a lane consolidates does not change its results, so neither does the way in which a run is split into chunks.
        life = jax.lax.cond(some_wait(carry.life), consolidate_waiting, lambda life: life, carry.life)
        return carry._replace(life=life), played

    def more_to_play(state: tuple[Carry, Array]) -> Array:
        return jnp.any(~every_lane(lives.is_done, state[0].life)) & (state[1] < rounds)

    return jax.lax.while_loop(more_to_play, play_until_all_wait, (carry, jnp.int32(0)))[0]
