"""Lanes of a run in progress: which lane is in which row of the program, and the state that checkpoints hold."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from remanence.agents.base import check_hypers
from remanence.core.errors import UserError
from remanence.core.prng import unwrap_keys, wrap_keys
from remanence.core.tree_utils import named_leaves, tree_nbytes
from remanence.engine.life import Life
from remanence.worlds.base import HostedWorld

if TYPE_CHECKING:
    from remanence.engine.lanes import Driver

# Steps of the first call of the program, rounds of the longest, and the time that a call should take: progress is shown early, and
# an interrupted run stops soon and loses little.
FIRST_STEPS, LAST_CHUNK, CHUNK_SECONDS = 512, 512, 5.0
# The same where every step calls an environment, which may be slow.
SLOW_FIRST_STEPS, SLOW_CHUNK_SECONDS = 1, 2.0
# The share of rows that must be done before we pause to collect them.
TURNOVER = 1 / 8
# When only 1 of SHRINK rows is in use and no lane is left to start, the batch shrinks, but not below SMALLEST_BATCH.
SHRINK, SMALLEST_BATCH = 4, 16
EMPTY = -1  # a row without a lane
RECENT = 5  # windows


class Progress(NamedTuple):
    """Progress of a run, summed over lanes."""

    windows: int
    steps: int


class Outcome(NamedTuple):
    """The results of lanes, as numpy arrays."""

    record: Any  # leaves [lanes, windows, ...]: what the probe measured; NaN from where a lane was stopped
    steps: np.ndarray  # [lanes]
    samples_dropped: np.ndarray  # [lanes]
    agents: Any  # leaves [lanes, ...]: the agents' final states; None if they are not kept
    policy: Any = None  # the part of the final state that acting needs, of a lane whose policy is kept
    notes: Any = None  # what a hosted world knows of the lane


class Carry(NamedTuple):
    """The state of the program between calls; leaves [rows, ...]."""

    life: Life
    record: Any


class Batch:
    """Running lanes: which lane is in which row, and their complete state, which can be saved and restored.

    At most `at_once` lanes run at a time. Some may take many times longer than others, and the rest do not wait for them: new
    lanes take the rows of lanes that are done, and when no lane is left to start, the last ones continue in a smaller batch.
    Both happen after a fixed number of rounds, never by wall-clock time: which lanes run together depends neither on the machine's
    speed nor on how often a run is interrupted.
    """

    def __init__(
        self,
        driver: Driver,
        hypers: Sequence[Any],
        seeds: Sequence[int],
        at_once: int | None = None,
        keep_agents: bool = True,
        keep_policies: Collection[int] = (),
    ) -> None:
        """Lives before the first step; lane i has `hypers[i]` and `seeds[i]`. Lanes with the same seed share random numbers.

        Args:
            at_once: how many lanes run at a time; default: all.
            keep_agents: whether outcomes hold the agents' final states.
            keep_policies: lanes whose outcomes hold the part of it that acting needs.
        """
        for distinct in {id(one): one for one in hypers}.values():
            check_hypers(distinct)
        self.driver, self.config = driver, driver.config
        self.keep_agents, self.keep_policies = keep_agents, frozenset(keep_policies)
        self.done = False
        self._hypers = jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *hypers)
        self._seeds = np.asarray(seeds, np.uint32)
        self._lanes = np.full(self._rounded_up(min(at_once or len(seeds), len(seeds))), EMPTY)  # the lane in each row
        self._begun = 0  # lanes that have started; they start in order
        self._clocks = np.zeros((2, len(seeds)), np.int64)  # windows and steps of each lane
        self._rounds = 0  # since the last break
        self._carry: Carry | None = None
        self._rows: Any = self._hypers_by_row()
        slow = self.config.world.row_by_row
        first_steps = SLOW_FIRST_STEPS if slow else FIRST_STEPS
        self._chunk = driver.rounds_per_chunk or max(first_steps // driver.round_steps, 1)
        self._chunk_seconds = SLOW_CHUNK_SECONDS if slow else CHUNK_SECONDS

    @property
    def progress(self) -> Progress:
        return Progress(*map(int, self._clocks.sum(axis=1)))

    def advance(self) -> dict[int, Outcome]:
        """Runs for a few seconds at most; returns the lanes that are done, once there are enough of them."""
        self._fill_rows()
        assert self._carry is not None
        rounds = min(self._chunk, self.driver.rounds_per_break - self._rounds)
        began = time.monotonic()
        self._carry = carry = self.driver.advance_rows(self._rows, self._carry, np.int32(rounds))
        self._rounds += rounds
        in_use = self._lanes != EMPTY
        windows, steps, ended = map(np.asarray, self.driver.clocks(carry.life))
        self._clocks[:, self._lanes[in_use]] = windows[in_use], steps[in_use]
        if self.driver.rounds_per_chunk is None:
            slow = (
                time.monotonic() - began > self._chunk_seconds
            )  # the first call includes compilation; the chunk soon grows again
            self._chunk = max(self._chunk // 2, 1) if slow else min(2 * self._chunk, LAST_CHUNK)
        done = in_use & ended
        running = int(in_use.sum() - done.sum())
        if running and self._rounds < self.driver.rounds_per_break:
            return {}
        self._rounds = 0
        if running and done.sum() < len(self._lanes) * TURNOVER:
            return {}  # too few to be worth a break
        finished = self._outcomes(np.flatnonzero(done))
        if isinstance(self.config.world, HostedWorld):
            self.config.world.drop(jax.tree.map(lambda leaf: np.asarray(leaf)[done], carry.life.world))
        self._lanes[done] = EMPTY
        self.done = not running and self._begun == len(self._seeds)
        self._shrink(running)
        return finished

    def state(self) -> dict[str, np.ndarray]:
        """The complete state, as named arrays."""
        arrays = {"lanes": self._lanes, "begun": self._begun, "clocks": self._clocks, "rounds": self._rounds}
        arrays["devices"] = self.driver.mesh.size
        if self._carry:
            arrays |= {f"life{name}": leaf for name, leaf in named_leaves(unwrap_keys(self._carry))}
        if self._carry and isinstance(self.config.world, HostedWorld):
            arrays |= {f"host.{name}": leaf for name, leaf in self.config.world.save(self._carry.life.world).items()}
        return {name: np.asarray(leaf) for name, leaf in arrays.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Continues from a saved `state`, of this process or another."""
        devices, here = int(state["devices"]), self.driver.mesh.size
        if devices != here:  # another number of lanes per device would change the last bits
            raise UserError(
                f"this run started with {devices} cores per process, here it has {here}: give --cores-per-group {devices}, "
                "or start over with --restart"
            )
        self._lanes, self._clocks = np.array(state["lanes"]), np.array(state["clocks"])
        self._begun, self._rounds = int(state["begun"]), int(state["rounds"])
        self._rows = self._hypers_by_row()
        shapes = self.driver.shapes(self._hypers, len(self._lanes))
        plain = self.driver.plain_shapes(self._hypers, len(self._lanes))
        leaves = [state.get(f"life{name}") for name, _ in named_leaves(plain)]
        for (name, wanted), found in zip(named_leaves(plain), leaves, strict=True):
            if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                raise UserError(
                    f"the checkpoint does not fit this program (it differs in {name}): start over with --restart"
                )
        carry: Carry = jax.tree.unflatten(jax.tree.structure(plain), leaves)
        if isinstance(self.config.world, HostedWorld):
            host = {name.removeprefix("host."): leaf for name, leaf in state.items() if name.startswith("host.")}
            carry = carry._replace(life=carry.life._replace(world=self.config.world.load(carry.life.world, host)))
        self._carry = self.driver.shard(wrap_keys(carry, shapes))

    def under_way(self) -> Iterator[tuple[int, int, Any]]:
        """For each running lane: its number, the number of closed windows, and its record so far."""
        if self._carry is None:
            return
        record = jax.tree.map(np.asarray, self._carry.record)
        for row in np.flatnonzero(self._lanes != EMPTY):
            lane = int(self._lanes[row])
            yield lane, int(self._clocks[0, lane]), jax.tree.map(lambda leaf, row=row: leaf[row], record)

    def so_far(self) -> dict[int, Outcome]:
        """The running lanes as they are now; the record of a lane that is not done ends with its last closed window."""
        if self._carry is None:
            return {}
        rows = np.flatnonzero(self._lanes != EMPTY)
        windows, _, ended = map(np.asarray, self.driver.clocks(self._carry.life))
        found = self._outcomes(rows)
        for row in rows[~ended[rows]]:
            lane = int(self._lanes[row])
            record = jax.tree.map(lambda leaf, row=row: leaf[: windows[row]], found[lane].record)
            found[lane] = found[lane]._replace(record=record)
        return found

    @property
    def metrics(self) -> list[str]:
        """The names of the curves; empty before the first step."""
        record = self._carry.record if self._carry else {}
        return list(record.get("curves", {})) if isinstance(record, dict) else []

    def recent(self, metric: str) -> float | None:
        """The mean over running lanes and their last windows; None if no window is closed."""
        if self._carry is None:
            return None
        rows = np.flatnonzero(self._lanes != EMPTY)
        curves, windows = np.asarray(self._carry.record["curves"][metric]), self._clocks[0, self._lanes[rows]]
        means = [
            curves[row, max(0, count - RECENT) : count].mean()
            for row, count in zip(rows, windows, strict=True)
            if count
        ]
        return float(np.mean(means)) if means else None

    def size(self) -> int:
        """Bytes of the state."""
        return tree_nbytes(self.driver.plain_shapes(self._hypers, len(self._lanes)))

    def _fill_rows(self) -> None:
        """Starts lanes in empty rows."""
        free = np.flatnonzero(self._lanes == EMPTY)
        beginning = np.arange(self._begun, min(self._begun + free.size, len(self._seeds)))
        if not beginning.size:
            return
        self._lanes[free[: beginning.size]] = beginning
        self._begun += beginning.size
        self._rows = self._hypers_by_row()
        new = self.driver.init_rows(self._rows, self.driver.shard(self._seeds[np.maximum(self._lanes, 0)]))
        if self._carry is None:
            self._carry = new
        else:
            fresh = np.isin(self._lanes, beginning)
            if isinstance(self.config.world, HostedWorld):  # the other rows keep their environments
                self.config.world.drop(jax.tree.map(lambda leaf: np.asarray(leaf)[~fresh], new.life.world))
            self._carry = self.driver.replace_rows(self.driver.shard(fresh), new, self._carry)

    def _shrink(self, running: int) -> None:
        """Continues with fewer rows when few lanes are left and none is left to start."""
        smaller = self._rounded_up(max(len(self._lanes) // SHRINK, SMALLEST_BATCH))
        if self.done or self._begun < len(self._seeds) or not running <= smaller <= len(self._lanes) // 2:
            return
        rows = np.flatnonzero(self._lanes != EMPTY)
        rows = np.concatenate([rows, np.flatnonzero(self._lanes == EMPTY)[: smaller - rows.size]])
        self._carry = self.driver.shard(jax.tree.map(lambda leaf: leaf[rows], self._carry))
        self._lanes = self._lanes[rows]
        self._rows = self._hypers_by_row()

    def _rounded_up(self, rows: int) -> int:
        """The next number of rows that all devices can share equally."""
        return -(-rows // self.driver.mesh.size) * self.driver.mesh.size

    def _hypers_by_row(self) -> Any:
        """Hyper-parameters of each row; an empty row has those of lane 0."""
        return self.driver.shard(jax.tree.map(lambda leaf: leaf[np.maximum(self._lanes, 0)], self._hypers))

    def _outcomes(self, rows: np.ndarray) -> dict[int, Outcome]:
        """The results of the lanes in these rows."""
        assert self._carry is not None
        life, record = self._carry
        dropped = jax.vmap(self.config.agent.samples_dropped, axis_size=len(self._lanes))(life.agent)
        agents = life.agent if self.keep_agents else None
        everything = Outcome(*jax.tree.map(np.array, (record, life.step, dropped, agents)))
        windows = np.asarray(self.driver.clocks(life)[0])
        for row in rows[windows[rows] < self.config.windows]:  # lanes that were stopped
            for leaf in jax.tree.leaves(everything.record):
                leaf[row, windows[row] :] = np.nan
        outcomes = {
            int(self._lanes[row]): jax.tree.map(lambda leaf, row=row: leaf[row].copy(), everything) for row in rows
        }
        kept = [row for row in rows if self._lanes[row] in self.keep_policies]
        needed = jax.tree.map(np.asarray, self.config.agent.policy_state(life.agent)) if kept else ()
        for row in kept:
            policy = jax.tree.map(lambda leaf, row=row: leaf[row].copy(), needed)
            outcomes[int(self._lanes[row])] = outcomes[int(self._lanes[row])]._replace(policy=policy)
        if isinstance(self.config.world, HostedWorld):
            states = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], life.world)
            for row, notes in zip(rows, self.config.world.notes(states), strict=True):
                outcomes[int(self._lanes[row])] = outcomes[int(self._lanes[row])]._replace(notes=notes)
        return outcomes
