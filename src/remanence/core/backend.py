"""Prepares jax for many small lives at once: one host device per core, single-threaded kernels.

Lanes are sharded over host devices, so each core runs its own lanes. Kernels that also start threads of their own
then only wait for each other (measured: more than twice as slow on a busy machine). Both settings must be made before
jax starts its backend, and nothing the user set is overridden. Accelerators are left alone. Compiled programs are kept
between processes: a run that goes on, or a group in another process, starts at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from pathlib import Path

from platformdirs import user_cache_dir

_SINGLE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def _compiled_programs() -> Path:
    """A directory for programs compiled for this kind of processor: homes may be shared by machines of several kinds."""
    try:
        about = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        about = platform.processor()
    kind = hashlib.sha256(f"{platform.machine()} {about}".encode()).hexdigest()[:12]
    return cache_directory() / "compiled" / kind


def cache_directory() -> Path:
    """Where things are kept that can be made again: `REMANENCE_CACHE`, or the user's cache."""
    return Path(os.environ.get("REMANENCE_CACHE") or user_cache_dir("remanence"))


def memory() -> int:
    """Bytes of memory this process may count on: the machine's, or its container's if that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    groups = [Path("/sys/fs/cgroup")]
    with contextlib.suppress(OSError, IndexError):  # a job of a scheduler has a group, and a limit, of its own
        groups.append(groups[0] / Path("/proc/self/cgroup").read_text().split("::")[1].strip().lstrip("/"))
    for limit in (*(group / "memory.max" for group in groups), groups[0] / "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(limit.read_text()))
    return total


def use_cores(count: int) -> None:
    """So many devices instead of one per core; too late once the backend has started."""
    import jax

    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", count)


def prepare() -> None:
    """Sets the two options above, and where compiled programs are kept, unless the user already chose; may be called twice."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_SINGLE_THREAD}".strip()

    import jax

    if jax.config.values.get("jax_compilation_cache_dir") is None:
        jax.config.update("jax_compilation_cache_dir", str(_compiled_programs()))
    chosen_by_user = "JAX_NUM_CPU_DEVICES" in os.environ or "xla_force_host_platform_device_count" in flags
    if chosen_by_user or jax.config.values.get("jax_num_cpu_devices", -1) != -1:
        return
    # Too late once the caller's own jax code has started the backend: lanes then share the devices there are.
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", cores())
