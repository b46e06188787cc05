"""Configures jax for many small programs in parallel: one host device per core, single-threaded kernels.

Lanes are sharded over host devices, so each core runs its own lanes. Multi-threaded kernels would compete for the cores
(measured: more than twice as slow on a busy machine). Both options must be set before jax starts its backend; options set
by the user are not overridden, and accelerators are not affected. Compiled programs are cached on disk: a resumed run, or a
group in another process, need not compile again.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import importlib.util
import multiprocessing
import os
import platform
import resource
import stat
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from platformdirs import user_cache_dir

_SINGLE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def _compiled_programs() -> Path | None:
    """The cache for programs compiled for this kind of processor: a home directory may be shared by different machines."""
    try:
        about = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        about = platform.processor()
    kind = hashlib.sha256(f"{platform.machine()} {about}".encode()).hexdigest()[:12]
    return cache_directory("compiled", kind)


def cache_directory(*names: str) -> Path | None:
    """A directory in our cache, `REMANENCE_CACHE` or the user's; None if it cannot be used: then nothing is cached.

    The cache is ours alone (0700), because Numba's files are pickles: whoever can write there can run code as us.
    """
    root = Path(os.environ.get("REMANENCE_CACHE") or user_cache_dir("remanence"))
    path = root.joinpath(*names)
    try:
        if root.is_relative_to(os.devnull):
            raise OSError(errno.ENOENT, "this user has no home directory")
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        about = root.stat()
        if about.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user")
        if about.st_mode & stat.S_IWOTH:
            raise OSError(errno.EPERM, "every user may write there")
        if about.st_mode & stat.S_IWGRP:
            root.chmod(0o700)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        _notice(
            f"nothing is cached, so programs compile again in every process: the cache '{root}' cannot be used "
            f"({error.strerror or error}). REMANENCE_CACHE names another directory"
        )
        return None
    return path


def _have_home() -> None:
    """Libraries fail where there is neither HOME nor an entry in passwd. One that cannot be written to will do."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = os.devnull


@functools.cache
def _notice(text: str) -> None:
    """Says it once, and not again in processes that we start."""
    if multiprocessing.parent_process() is None:
        print(f"remanence: {text}", file=sys.stderr)


def memory() -> int:
    """Memory in bytes: the machine's, or the container's limit or the process's if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    groups = [Path("/sys/fs/cgroup")]
    with contextlib.suppress(OSError, IndexError):  # a scheduler's job has its own cgroup and limit
        groups.append(groups[0] / Path("/proc/self/cgroup").read_text().split("::")[1].strip().lstrip("/"))
    for limit in (*(group / "memory.max" for group in groups), groups[0] / "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(limit.read_text()))
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    return total if address_space == resource.RLIM_INFINITY else min(total, address_space)


def device_memory(devices: Sequence[Any] | None = None) -> int:
    """Memory in bytes of the devices that hold the lanes. Lanes are spread evenly, so the smallest device counts.

    A CPU states no limit of its own: its devices share `memory()`, and an accelerator whose limit is unknown counts like it.
    """
    import jax

    limits = [limit_of(device) for device in (jax.devices() if devices is None else devices)]
    return len(limits) * min(limits) if all(limits) else memory()


def limit_of(device: Any) -> int:
    """Bytes that programs may use on a device; 0 if it does not say."""
    return (device.memory_stats() or {}).get("bytes_limit", 0)


def use_cores(count: int) -> None:
    """Uses `count` devices instead of one per core. No effect once the backend has started."""
    import jax

    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", count)


def xla_threads() -> int:
    """How many threads XLA has, or will have when it starts: as many as cores, unless the user says otherwise."""
    return int(os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or cores())


def first_devices(count: int | None) -> list[Any]:
    """The devices that share lanes: all, or the first `count`. A single one on the CPU is that of `one_thread`."""
    import jax

    devices = jax.devices()[:count]
    single = one_thread() if len(devices) == 1 and jax.default_backend() == "cpu" else None
    return devices if single is None else [single]


@functools.cache
def one_thread() -> Any | None:
    """A device of the CPU with a single thread of its own; None if this version of jaxlib has another interface for it.

    Elsewhere XLA moves the operations of a program from thread to thread, which takes longer than most of them: a step of one DQN
    takes 200 instead of 330 µs here. And programs of others, such as those of an environment, do not wait for its thread.
    """
    before = os.environ.get("PJRT_NPROC")
    os.environ["PJRT_NPROC"] = "1"  # read when a client starts
    try:
        from jaxlib.xla_client import make_cpu_client

        return make_cpu_client(asynchronous=True, num_devices=1).devices()[0]
    except (ImportError, TypeError):
        return None
    finally:
        del os.environ["PJRT_NPROC"]
        if before is not None:
            os.environ["PJRT_NPROC"] = before


def prepare() -> None:
    """Sets the two options above and the compilation cache, unless the user has set them: at once, or when jax is imported.

    Importing jax takes a second, and not every command needs it. May be called twice.
    """
    _have_home()
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_SINGLE_THREAD}".strip()
    if "jax" in sys.modules:
        _configure()
    elif not any(isinstance(finder, _WhenJaxIsImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenJaxIsImported())


class _WhenJaxIsImported:
    """A finder of modules that configures jax as soon as it is imported, whoever does so."""

    def __init__(self) -> None:
        self.searching = False

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if fullname != "jax" or self.searching:
            return None
        self.searching = True  # the next search passes us by
        spec = importlib.util.find_spec(fullname)
        self.searching = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_configure(module: ModuleType) -> None:
                load(module)
                _configure()

            spec.loader.exec_module = load_and_configure  # type: ignore[method-assign]
        return spec


def _configure() -> None:
    import jax

    if jax.config.values.get("jax_compilation_cache_dir") is None:
        compiled = _compiled_programs()
        if compiled is not None:
            jax.config.update("jax_compilation_cache_dir", str(compiled))
    chosen_by_user = "JAX_NUM_CPU_DEVICES" in os.environ or "xla_force_host_platform_device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    if chosen_by_user or jax.config.values.get("jax_num_cpu_devices", -1) != -1:
        return
    # No effect if the caller's jax code has started the backend: lanes then share the existing devices.
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", cores())
