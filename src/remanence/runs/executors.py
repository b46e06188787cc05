"""Executors of a run's groups: this process, several processes, or a Ray cluster. All call the same `worker.live`.

Workers communicate through the run's directory: each group writes its progress, and a file named `stop` asks all of them to
save a checkpoint and stop.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import math
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from multiprocessing import spawn
from pathlib import Path
from typing import Any

import cloudpickle
import jax
from rich.console import Console

from remanence.agents.base import program_of
from remanence.core import backend
from remanence.core.errors import BY_CALLBACK, Stopped, UserError, with_place
from remanence.engine.lanes import Driver
from remanence.runs import signals
from remanence.runs.execution import RAY, Execution
from remanence.runs.jobs import devices_for, make_driver, memory_needed
from remanence.runs.progress import UnderWay, track
from remanence.runs.worker import GroupJob, live

# How many times a group is restarted after its process died, and how many seconds the new process waits for the old one to exit.
RETRIES, PATIENCE = 10, 300.0
SECONDS_TO_STOP = 120.0
STOP = "stop"
_starting = threading.Lock()

OnDone = Callable[[GroupJob], None]


def run_all(jobs: Sequence[GroupJob], execution: Execution, on_done: OnDone, console: Console) -> None:
    """Runs all groups and calls `on_done` for each finished one."""
    if execution.on == RAY:
        _connected(execution)  # before we catch signals: Ray sets a handler of its own
    with signals.caught() as asked_to_stop:
        if execution.on == RAY:
            with _ray(execution) as start:
                _together(jobs, start, on_done, asked_to_stop, console, workers(execution))
        elif execution.jobs > 1:
            with _processes(execution) as start:
                _together(jobs, start, on_done, asked_to_stop, console, workers(execution))
        else:
            _one_by_one(jobs, on_done, asked_to_stop, console)


def workers(execution: Execution) -> int:
    """How many groups can run at the same time."""
    if execution.on != RAY:
        return execution.jobs
    ray = _connected(execution)
    return max(1, int(ray.cluster_resources().get("CPU", 1)) // execution.cores)


def devices(execution: Execution) -> int:
    """Devices of the process of each group. They divide its lanes, so another number of them may change the last bits."""
    if execution.on == RAY:
        return execution.cores
    if jax.default_backend() != "cpu" or not execution.spread:
        return len(jax.devices())
    return int(os.environ.get("JAX_NUM_CPU_DEVICES", execution.cores))


def _one_by_one(jobs: Sequence[GroupJob], on_done: OnDone, asked_to_stop: Callable[[], int], console: Console) -> None:
    drivers: dict[Hashable, Driver] = {}  # groups of one program share what was compiled
    with jobs[0].plan.world.opened():
        for job in jobs:
            _stop_if(asked_to_stop())
            program = program_of(job.group.config), job.learner, devices_for(job.plan, job.group.at_once)
            if program not in drivers:
                drivers[program] = make_driver(job.plan, job.group.config, job.learner, job.group.at_once)
            with track(console, job.group.label, job.total, job.unit) as advance:
                stop = live(job, drivers[program], asked_to_stop, advance, partial(_warn, console))
            on_done(job)
            _stop_if(BY_CALLBACK if stop and job is not jobs[-1] else 0)
    _stop_if(asked_to_stop())


def _warn(console: Console, text: str) -> None:
    console.print(f"warning: {text}", style="yellow")


def _stop_if(number: int) -> None:
    if number:
        raise Stopped(number)


def _together(
    jobs: Sequence[GroupJob],
    start: Callable[[GroupJob], Future],
    on_done: OnDone,
    asked_to_stop: Callable[[], int],
    console: Console,
    at_once: int,
) -> None:
    """Starts all groups and waits for them, showing their total progress."""
    stop = _stop_file(jobs[0])
    stop.unlink(missing_ok=True)
    running = {start(job): job for job in jobs}
    done = {job.path: 0 for job in jobs}
    total = sum(job.total for job in jobs)
    halted = 0  # the signal that made us or a worker stop
    until = math.inf  # deadline for the workers, once we were asked to stop
    under_way = UnderWay(at_once)
    with track(console, f"{len(jobs)} groups", total, jobs[0].unit) as advance:
        while running:
            if until == math.inf and asked_to_stop():
                halted, until = asked_to_stop(), time.monotonic() + SECONDS_TO_STOP
                stop.touch()
            finished, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            rate = 0.0
            for job in running.values():
                status = job.directory.progress()
                done[job.path] = status.get("done", 0)
                rate += under_way.rate(job.path, status)
            for future in finished:
                job, error = running.pop(future), _answer(future)
                for line in job.directory.warnings():
                    _warn(console, line)
                if error is None or (isinstance(error, Stopped) and len(job.directory.lanes()) == len(job.group.lanes)):
                    done[job.path] = job.total
                    on_done(job)
                if error is None:
                    continue
                if isinstance(error, Stopped):
                    halted = halted or error.signal
                    if error.signal == BY_CALLBACK:
                        stop.touch()
                else:
                    stop.touch()  # what failed here would fail elsewhere
                    raise error
            advance(sum(done.values()), rate, waiting=under_way.waiting(len(running)))
            if running and time.monotonic() > until:
                raise UserError("some workers did not stop in time: their progress since the last checkpoint is lost")
    _stop_if(halted or asked_to_stop())


def _answer(future: Future) -> Exception | None:
    """The error a worker returned, if any."""
    try:
        return future.result()
    except Exception as failure:  # Ray gave up on it
        return UserError(
            f"a group failed: {str(failure).splitlines()[0]}. The same command resumes from its last checkpoint"
        )


def _payload(job: GroupJob) -> bytes:
    try:
        return cloudpickle.dumps(job)
    except Exception as error:
        raise UserError(
            f"what is run cannot be sent to other processes ({type(error).__name__}: {error}): let functions make such objects"
        ) from error


def _worker(payload: bytes, asked_to_stop: Callable[[], int]) -> Exception | None:
    """What every worker runs. Errors are returned, not raised across processes.

    `payload` is a pickle, because plans contain functions. It comes from our parent process, through a pipe or Ray, and is never
    written to disk. The files we read, results and checkpoints, contain no code.
    """
    job: GroupJob = cloudpickle.loads(payload)
    stop = _stop_file(job)

    def asked() -> int:
        return asked_to_stop() or (signal.SIGINT if stop.exists() else 0)

    def warn(text: str) -> None:
        job.directory.log("warning", text=text)

    try:
        if asked():  # the run was stopped while this group was queued
            raise Stopped(asked())
        with job.plan.world.opened():
            driver = make_driver(job.plan, job.group.config, job.learner, job.group.at_once)
            if live(job, driver, asked, lambda *_, **__: None, warn, PATIENCE):
                return Stopped(BY_CALLBACK)
    except Exception as error:
        if isinstance(error, UserError):
            return with_place(error)
        if isinstance(error, Stopped):
            return error
        return RuntimeError(traceback.format_exc())  # as text: not every error can be pickled
    return None


def _stop_file(job: GroupJob) -> Path:
    return job.path.parent.parent / STOP


@contextlib.contextmanager
def _processes(execution: Execution) -> Iterator[Callable[[GroupJob], Future]]:
    """Processes on this machine, each with cores of its own."""
    context = multiprocessing.get_context("spawn")
    everything, cores, count = sorted(os.sched_getaffinity(0)), execution.cores, devices(execution)
    shares = [[everything[(n * cores + i) % len(everything)] for i in range(cores)] for n in range(execution.jobs)]
    alive: set[Any] = set()
    closing = threading.Event()

    def in_a_process(payload: bytes) -> Exception | None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: the parent handles Ctrl-C
        cores = shares.pop()
        try:
            for _ in range(RETRIES):
                if closing.is_set():
                    return Stopped(signal.SIGTERM)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_in_process, args=(payload, theirs, os.getpid(), count), daemon=True)
                os.sched_setaffinity(0, cores)  # of this thread; the child process inherits it
                with _without_main():
                    process.start()
                alive.add(process)
                theirs.close()
                # If the process dies without an answer, the next one resumes from the last checkpoint.
                with contextlib.suppress(EOFError):
                    return ours.recv()
                process.join()
            return UserError(
                f"the process of a group died {RETRIES} times: if memory is short, use fewer --lanes-per-group"
            )
        finally:
            shares.append(cores)

    with ThreadPoolExecutor(execution.jobs) as pool:
        try:
            yield lambda job: pool.submit(in_a_process, _payload(job))
        finally:
            closing.set()
            for process in list(alive):
                if process.is_alive():
                    process.terminate()  # it saves a checkpoint and exits
            pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Starts processes that do not import the program that started them: a script that calls `live` would call it again."""
    with _starting:
        usual = spawn.get_preparation_data

        def prepared(name: str) -> dict[str, Any]:
            return {key: value for key, value in usual(name).items() if not key.startswith("init_main")}

        spawn.get_preparation_data = prepared
        try:
            yield
        finally:
            spawn.get_preparation_data = usual


def _in_process(payload: bytes, answer: Any, parent: int, count: int) -> None:
    backend.use_cores(count)
    with signals.caught(patient=True) as asked_to_stop:
        orphaned = lambda: 0 if os.getppid() == parent else signal.SIGTERM  # noqa: E731
        error = _worker(payload, lambda: asked_to_stop() or orphaned())
        with contextlib.suppress(OSError):  # the parent is dead
            answer.send(error)


def _connected(execution: Execution) -> Any:
    try:
        import ray
    except ImportError as error:
        raise UserError("--on ray needs Ray: pip install 'remanence[cluster]'") from error
    if not ray.is_initialized():
        try:
            ray.init(
                **_where(execution.address), log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(f"no Ray cluster at '{execution.address}': {error}") from error
    return ray


def _where(address: str | None) -> dict[str, Any]:
    """A cluster, or a new one on this machine, with its files in a directory of ours alone. It listens on all networks."""
    if address is not None:
        return {"address": address}
    private = tempfile.mkdtemp(prefix="ray-")  # 0700, and short: it holds sockets
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return {"address": "local", "_temp_dir": private}


@contextlib.contextmanager
def _ray(execution: Execution) -> Iterator[Callable[[GroupJob], Future]]:
    """Tasks on the CPUs of a Ray cluster. If a node or process dies, Ray restarts its task elsewhere; it resumes from its
    checkpoint."""
    ray = _connected(execution)
    task = ray.remote(
        num_cpus=execution.cores,
        max_retries=RETRIES,
        max_calls=1,  # a new process for each task, so that its memory is freed
        runtime_env={"env_vars": {"JAX_NUM_CPU_DEVICES": str(execution.cores), "JAX_PLATFORMS": "cpu"}},
    )(_on_ray)
    tasks = []

    def start(job: GroupJob) -> Future:
        tasks.append(task.options(memory=_memory(job)).remote(_payload(job), execution.cores))
        return tasks[-1].future()

    try:
        yield start
    finally:
        for one in tasks:
            with contextlib.suppress(Exception):
                ray.cancel(one, force=True)
        ray.shutdown()


def _memory(job: GroupJob) -> int:
    return job.group.at_once * memory_needed(job.plan, job.group.config)


def _on_ray(payload: bytes, cores: int) -> Exception | None:
    with _claimed_cores(cores):
        return _worker(payload, lambda: 0)


@contextlib.contextmanager
def _claimed_cores(count: int) -> Iterator[None]:
    """Binds this process to cores that no other worker on this machine uses; to no cores if too few are free."""
    tickets = backend.cache_directory("cores", socket.gethostname())  # ours alone
    with contextlib.ExitStack() as held:
        claimed = []
        for core in sorted(os.sched_getaffinity(0)):
            if tickets is None:
                break
            with contextlib.suppress(OSError):  # another worker has it, or the file system has no locks
                ticket = os.open(tickets / str(core), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
                held.callback(os.close, ticket)
                fcntl.flock(ticket, fcntl.LOCK_EX | fcntl.LOCK_NB)
                claimed.append(core)
            if len(claimed) == count:
                os.sched_setaffinity(0, claimed)
                break
        yield
