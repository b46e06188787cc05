"""What is fast must not wait for slow imports: the package, its registration with Gymnasium, and the command's help."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SLOW = ("jax", "numpy", "polars", "altair", "optax", "orbax", "numba", "scipy", "gymnasium", "rich")


def in_a_process(program: str, **environment: str) -> object:
    """What the last line of a program prints, as JSON."""
    options = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**options, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        ("import remanence", set()),
        ("import gymnasium, remanence; gymnasium.spec('remanence/CornerGrid-v0')", {"gymnasium", "numpy"}),
        ("from remanence.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass", set()),
        ("from remanence.cli import main\ntry: main(['run', '--help'])\nexcept SystemExit: pass", set()),
        ("import remanence.experiments", {"jax", "numpy", "polars", "optax", "scipy", "rich"}),
    ],
)
def test_slow_imports_wait_until_they_are_needed(program: str, needed: set[str]) -> None:
    loaded = in_a_process(f"{program}\nimport sys, json; print(json.dumps([m for m in {SLOW} if m in sys.modules]))")
    assert set(loaded) == needed  # type: ignore[call-overload]


CONFIGURED = """
import json, jax
print(json.dumps([jax.config.jax_compilation_cache_dir, len(jax.devices())]))
"""


@pytest.mark.parametrize("order", ["import remanence", "import jax, remanence", "import optax, remanence"])
def test_jax_is_configured_whoever_imports_it_and_when(order: str, tmp_path: object) -> None:
    cache, devices = in_a_process(order + CONFIGURED, REMANENCE_CACHE=str(tmp_path))  # type: ignore[misc]
    assert cache.startswith(f"{tmp_path}/compiled/")
    assert devices == len(os.sched_getaffinity(0))


def test_what_the_user_chose_stays(tmp_path: object) -> None:
    chosen = in_a_process(
        "import remanence" + CONFIGURED, JAX_NUM_CPU_DEVICES="3", JAX_COMPILATION_CACHE_DIR=str(tmp_path)
    )
    assert chosen == [str(tmp_path), 3]


def test_looking_for_jax_does_not_import_it() -> None:
    program = (
        "import importlib.util, json, sys, remanence; importlib.util.find_spec('jax'); before = 'jax' in sys.modules"
    )
    after = "import jax; print(json.dumps([before, jax.config.jax_compilation_cache_dir is not None]))"
    assert in_a_process(f"{program}\n{after}") == [False, True]
