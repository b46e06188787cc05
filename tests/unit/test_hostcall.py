"""Python functions called from compiled programs: once each, whatever the program around them, by either way to call them."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from remanence.core import hostcall

calls: list[np.ndarray] = []
FORM = [jax.ShapeDtypeStruct((2,), np.int32), jax.ShapeDtypeStruct((), np.float32)]


def _double(asked: np.ndarray, doubled: np.ndarray, total: np.ndarray) -> None:
    calls.append(np.array(asked))
    doubled[...] = 2 * asked
    total[...] = asked.sum(axis=-1)


def double(x: Any) -> Any:
    return hostcall.call("test_double", _double, FORM, x)


@pytest.fixture(params=["known version", "other version"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With the interface as it is, and as if XLA had a version that we do not know."""
    calls.clear()
    hostcall.interface_supported.cache_clear()
    if request.param == "other version":
        monkeypatch.setattr(hostcall, "_interface_version", lambda: (1, 0))
        with pytest.warns(UserWarning, match=r"is version 1\.0, remanence supports version 0\.3"):
            assert not hostcall.interface_supported()
    else:
        assert hostcall.interface_supported()
    yield request.param
    jax.effects_barrier()
    hostcall.interface_supported.cache_clear()


GIVEN = jnp.arange(8, dtype=jnp.int32).reshape(4, 2)


@pytest.mark.usefixtures("way")
def test_mapped_it_is_called_once_for_all_lanes() -> None:
    doubled, total = jax.jit(jax.vmap(double))(GIVEN)
    np.testing.assert_array_equal(doubled, 2 * GIVEN)
    np.testing.assert_array_equal(total, GIVEN.sum(axis=1))
    assert [call.shape for call in calls] == [(4, 2)]
    doubled, _ = jax.jit(jax.vmap(jax.vmap(double)))(GIVEN.reshape(2, 2, 2))
    np.testing.assert_array_equal(doubled, 2 * GIVEN.reshape(2, 2, 2))
    assert calls[1:][0].size == 8
    assert len(calls) == 2


@pytest.mark.usefixtures("way")
def test_in_loops_it_is_called_once_per_iteration() -> None:
    def eightfold(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, y: double(y)[0], x)

    np.testing.assert_array_equal(jax.jit(jax.vmap(eightfold))(GIVEN), 8 * GIVEN)
    np.testing.assert_array_equal(jax.jit(eightfold)(GIVEN[0]), 8 * GIVEN[0])
    assert len(calls) == 6

    def until_large(x: Any) -> Any:
        return jax.lax.while_loop(lambda y: jnp.max(y) < 50, lambda y: jax.vmap(double)(y)[0], x)

    np.testing.assert_array_equal(jax.jit(until_large)(GIVEN), 8 * GIVEN)
    assert len(calls) == 9


@pytest.mark.usefixtures("way")
def test_an_unused_result_does_not_drop_the_call_and_equal_calls_are_not_merged() -> None:
    unused = jax.jit(lambda x: (jax.vmap(double)(x), jnp.int32(7))[1])
    assert [int(unused(GIVEN)), int(unused(GIVEN))] == [7, 7]
    jax.effects_barrier()
    assert len(calls) == 2
    jax.block_until_ready(jax.jit(lambda x: double(x)[0] + double(x)[0])(GIVEN[0]))
    assert len(calls) == 4


@pytest.mark.usefixtures("way")
def test_each_device_calls_it_for_its_own_lanes() -> None:
    def twice(x: Any) -> Any:
        return jax.lax.scan(lambda y, _: (jax.vmap(double)(y)[0], None), x, None, 2)[0]

    mesh, split = Mesh(np.array(jax.devices()), ("lanes",)), PartitionSpec("lanes")
    given = jnp.arange(8 * mesh.size, dtype=jnp.int32).reshape(4 * mesh.size, 2)
    program = jax.jit(jax.shard_map(twice, mesh=mesh, in_specs=split, out_specs=split, check_vma=False))
    np.testing.assert_array_equal(program(given), 4 * given)
    assert len(calls) == 2 * mesh.size


def test_the_warning_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostcall, "_interface_version", lambda: None)
    hostcall.interface_supported.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                jax.block_until_ready(double(GIVEN[0]))
        assert len([one for one in said if "structures of an unknown size" in str(one.message)]) == 1
    finally:
        hostcall.interface_supported.cache_clear()


def test_the_version_is_read_from_the_interface_that_calls() -> None:
    def frame(minor: int, frame_size: int = 0, interface_size: int = 0, version_size: int = 0) -> hostcall._Frame:
        version = hostcall._Version(version_size or ctypes.sizeof(hostcall._Version), None, 0, minor)
        interface = hostcall._Interface(interface_size or ctypes.sizeof(hostcall._Interface), None, version)
        made = hostcall._Frame(frame_size or ctypes.sizeof(hostcall._Frame))
        made.interface = ctypes.pointer(interface)
        return made

    assert hostcall._version(frame(3)) == (0, 3)
    assert hostcall._version(frame(9)) == (0, 9)
    for too_small in ({"frame_size": 64}, {"interface_size": 40}, {"version_size": 16}):
        assert hostcall._version(frame(3, **too_small)) is None


def test_a_compiled_handler_that_fails_is_replaced_by_python() -> None:
    def fails() -> int:
        raise RuntimeError("no compiler")

    with pytest.warns(UserWarning, match=r"test_fails is called through Python.*RuntimeError: no compiler"):
        doubled, _ = hostcall.call("test_fails", _double, FORM, GIVEN[0], compiled=fails)
    np.testing.assert_array_equal(doubled, 2 * GIVEN[0])
