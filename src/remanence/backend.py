"""Prepares jax for many small lives at once: one host device per core, single-threaded kernels.

Lanes are sharded over host devices, so each core runs its own lanes. Kernels that also start threads of their own
then only wait for each other (measured: more than twice as slow on a busy machine). Both settings must be made before
jax starts its backend, and nothing the user set is overridden. Accelerators are left alone.
"""

from __future__ import annotations

import contextlib
import os

_SINGLE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def prepare() -> None:
    """Sets the two options above unless the user already chose; harmless when called twice."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_SINGLE_THREAD}".strip()

    import jax

    chosen_by_user = "JAX_NUM_CPU_DEVICES" in os.environ or "xla_force_host_platform_device_count" in flags
    if chosen_by_user or jax.config.values.get("jax_num_cpu_devices", -1) != -1:
        return
    # Too late once the caller's own jax code has started the backend: lanes then share the devices there are.
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", cores())
