"""Who lives the groups of a run: this process, several, or the workers of a Ray cluster. All do the same work the same way.

What workers tell each other goes through the run's directory: every group writes how far it is, and a file named `stop`
asks all of them to keep what they have and stop.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
from rich.console import Console

from remanence.agents.base import program_of
from remanence.core.errors import Stopped, UserError
from remanence.engine.lanes import Driver
from remanence.runs import signals
from remanence.runs.execution import RAY, Execution
from remanence.runs.jobs import make_driver, memory_needed
from remanence.runs.progress import track
from remanence.runs.worker import GroupJob, live

# How often a group may lose its process before something must be wrong with it, and how long its successor waits for it to be gone.
RETRIES, PATIENCE = 10, 300.0
SECONDS_TO_STOP = 120.0
STOP = "stop"

OnDone = Callable[[GroupJob], None]


def run_all(works: Sequence[GroupJob], execution: Execution, on_done: OnDone, console: Console) -> None:
    """Lives all groups, calling `on_done` for each one that is finished."""
    if execution.on == RAY:
        _connected(execution)  # before we catch signals: Ray sets a handler of its own
    with signals.caught() as asked_to_stop:
        if execution.on == RAY:
            with _ray(execution) as start:
                _together(works, start, on_done, asked_to_stop, console)
        elif execution.jobs > 1:
            with _processes(execution) as start:
                _together(works, start, on_done, asked_to_stop, console)
        else:
            _one_by_one(works, on_done, asked_to_stop, console)


def workers(execution: Execution) -> int:
    """How many groups can live at the same time."""
    if execution.on != RAY:
        return execution.jobs
    ray = _connected(execution)
    return max(1, int(ray.cluster_resources().get("CPU", 1)) // execution.cores)


def _one_by_one(works: Sequence[GroupJob], on_done: OnDone, asked_to_stop: Callable[[], int], console: Console) -> None:
    drivers: dict[Hashable, Driver] = {}  # groups of one program share what was compiled
    for work in works:
        _stop_if(asked_to_stop())
        program = program_of(work.group.config)
        if program not in drivers:
            drivers[program] = make_driver(work.plan, work.group.config)
        with track(console, work.group.label, work.windows) as advance:
            live(work, drivers[program], asked_to_stop, advance, partial(_warn, console))
        on_done(work)
    _stop_if(asked_to_stop())


def _warn(console: Console, text: str) -> None:
    console.print(f"warning: {text}", style="yellow")


def _stop_if(number: int) -> None:
    if number:
        raise Stopped(number)


def _together(
    works: Sequence[GroupJob],
    start: Callable[[GroupJob], Future],
    on_done: OnDone,
    asked_to_stop: Callable[[], int],
    console: Console,
) -> None:
    """Starts all groups and waits for them, showing how far they are together."""
    stop = _stop_file(works[0])
    stop.unlink(missing_ok=True)
    running = {start(work): work for work in works}
    windows = {work.path: 0 for work in works}
    total = sum(work.windows for work in works)
    halted = 0  # the signal that made us or a worker stop
    until = math.inf  # when workers have had time enough, once we were asked to
    with track(console, f"{len(works)} groups", total) as advance:
        while running:
            if until == math.inf and asked_to_stop():
                halted, until = asked_to_stop(), time.monotonic() + SECONDS_TO_STOP
                stop.touch()
            finished, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            rate = 0.0
            for work in running.values():
                status = work.directory.progress()
                windows[work.path] = status.get("windows", 0)
                rate += status.get("steps_per_second", 0.0)
            for future in finished:
                work, error = running.pop(future), _answer(future)
                for line in work.directory.warnings():
                    _warn(console, line)
                if error is None:
                    windows[work.path] = work.windows
                    on_done(work)
                elif isinstance(error, Stopped):
                    halted = halted or error.signal
                else:
                    stop.touch()  # what failed here would fail elsewhere
                    raise error
            advance(sum(windows.values()), rate)
            if running and time.monotonic() > until:
                raise UserError("some workers did not stop in time: what they did since their last checkpoint is lost")
    _stop_if(halted or asked_to_stop())


def _answer(future: Future) -> Exception | None:
    """What a worker handed back, or what became of it."""
    try:
        return future.result()
    except Exception as lost:  # Ray gave up on it
        return UserError(
            f"a group was lost: {str(lost).splitlines()[0]}. The same command goes on from its last checkpoint"
        )


def _worker(payload: bytes, asked_to_stop: Callable[[], int]) -> Exception | None:
    """What every worker does; errors are handed back, not raised across processes.

    `payload` comes from the process that started us, through a pipe or Ray, and is never on disk: plans are made of functions, which
    only a pickle can carry. Files that are read, results and checkpoints, hold nothing that can run.
    """
    work: GroupJob = cloudpickle.loads(payload)
    stop = _stop_file(work)

    def asked() -> int:
        return asked_to_stop() or (signal.SIGINT if stop.exists() else 0)

    def warn(text: str) -> None:
        work.directory.log("warning", text=text)

    try:
        if asked():  # it waited for its turn until the others were stopped
            raise Stopped(asked())
        live(work, make_driver(work.plan, work.group.config), asked, lambda *_: None, warn, PATIENCE)
    except Exception as error:
        if isinstance(error, UserError | Stopped):
            return error
        return RuntimeError(traceback.format_exc())  # as text: not every error can travel
    return None


def _stop_file(work: GroupJob) -> Path:
    return work.path.parent.parent / STOP


@contextlib.contextmanager
def _processes(execution: Execution) -> Iterator[Callable[[GroupJob], Future]]:
    """Processes on this machine, each with cores of its own."""
    context = multiprocessing.get_context("spawn")
    everything, cores = sorted(os.sched_getaffinity(0)), execution.cores
    shares = [[everything[(n * cores + i) % len(everything)] for i in range(cores)] for n in range(execution.jobs)]
    alive: set[Any] = set()
    closing = threading.Event()

    def in_a_process(payload: bytes) -> Exception | None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: our parent decides what Ctrl-C means
        cores = shares.pop()
        try:
            for _ in range(RETRIES):
                if closing.is_set():
                    return Stopped(signal.SIGTERM)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_in_process, args=(payload, theirs, os.getpid()), daemon=True)
                os.sched_setaffinity(0, cores)  # of this thread: the process it starts inherits it
                process.start()
                alive.add(process)
                theirs.close()
                # One that dies without a word is followed by one that goes on from the last checkpoint.
                with contextlib.suppress(EOFError):
                    return ours.recv()
                process.join()
            return UserError(
                f"a group lost its process {RETRIES} times: if memory is short, try fewer --lanes-per-group"
            )
        finally:
            shares.append(cores)

    with ThreadPoolExecutor(execution.jobs) as pool:
        try:
            yield lambda work: pool.submit(in_a_process, cloudpickle.dumps(work))
        finally:
            closing.set()
            for process in list(alive):
                if process.is_alive():
                    process.terminate()  # it keeps all it has and ends
            pool.shutdown(wait=False, cancel_futures=True)


def _in_process(payload: bytes, answer: Any, parent: int) -> None:
    with signals.caught(patient=True) as asked_to_stop:
        orphaned = lambda: 0 if os.getppid() == parent else signal.SIGTERM  # noqa: E731
        error = _worker(payload, lambda: asked_to_stop() or orphaned())
        with contextlib.suppress(OSError):  # nobody is left to hear it
            answer.send(error)


def _connected(execution: Execution) -> Any:
    try:
        import ray
    except ImportError as error:
        raise UserError("--on ray needs Ray: pip install 'remanence[cluster]'") from error
    if not ray.is_initialized():
        try:
            ray.init(
                address=execution.address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(f"no Ray cluster at '{execution.address}': {error}") from error
    return ray


@contextlib.contextmanager
def _ray(execution: Execution) -> Iterator[Callable[[GroupJob], Future]]:
    """Tasks on a Ray cluster. A task whose node or process dies is started again elsewhere, and goes on from its checkpoint."""
    ray = _connected(execution)
    task = ray.remote(
        num_cpus=execution.cores,
        max_retries=RETRIES,
        max_calls=1,  # a process of its own: memory goes with it
        runtime_env={"env_vars": {"JAX_NUM_CPU_DEVICES": str(execution.cores)}},
    )(_on_ray)
    tasks = []

    def start(work: GroupJob) -> Future:
        tasks.append(task.options(memory=_memory(work)).remote(cloudpickle.dumps(work), execution.cores))
        return tasks[-1].future()

    try:
        yield start
    finally:
        for one in tasks:
            with contextlib.suppress(Exception):
                ray.cancel(one, force=True)
        ray.shutdown()


def _memory(work: GroupJob) -> int:
    return work.group.at_once * memory_needed(work.plan, work.group.config)


def _on_ray(payload: bytes, cores: int) -> Exception | None:
    with _own_cores(cores):
        return _worker(payload, lambda: 0)


@contextlib.contextmanager
def _own_cores(count: int) -> Iterator[None]:
    """Binds this process to cores that no other one of ours on this machine has; to none in particular if too few are free."""
    with contextlib.ExitStack() as held:
        claimed = []
        for core in sorted(os.sched_getaffinity(0)):
            ticket = held.enter_context(
                (Path(tempfile.gettempdir()) / f"remanence-core-{os.getuid()}-{core}").open("w")
            )
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(ticket, fcntl.LOCK_EX | fcntl.LOCK_NB)
                claimed.append(core)
            if len(claimed) == count:
                os.sched_setaffinity(0, claimed)
                break
        yield
