"""Calls Python functions from compiled programs, once per step and device, with low overhead.

The functions have side effects, so both methods are ones that JAX never repeats or drops. `io_callback` converts every argument
to a jax array and back: 150 to 400 µs per call, several times that with two devices. XLA's foreign function interface passes plain
addresses. We declare its C structures with `ctypes`, for the versions in `VERSIONS`, and arguments become numpy arrays without a
copy: 6 µs. On platforms other than CPU, or with another version of the interface, functions are called by `io_callback`.
"""

from __future__ import annotations

import ctypes
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from functools import cache, lru_cache
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.experimental import io_callback

HostFunction = Callable[..., None]  # (*arguments, *results to write to), all arrays

# Versions (major, minor) of the interface that our structures match.
VERSIONS = ((0, 3),)
# XLA's codes of the dtypes we use.
_TYPES = {1: ctypes.c_bool, 2: ctypes.c_int8, 4: ctypes.c_int32, 6: ctypes.c_uint8, 11: ctypes.c_float}
_INTERNAL_ERROR = 13
METADATA = 1  # the type of the extension with which XLA asks for our version


class _Extension(Structure):
    _fields_ = (("struct_size", c_size_t), ("type", c_int), ("next", c_void_p))


class _Version(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(Structure):
    _fields_ = (("struct_size", c_size_t), ("version", _Version), ("traits", c_uint32))


class _MetadataExtension(Structure):
    _fields_ = (("base", _Extension), ("metadata", POINTER(_Metadata)))


class _ErrorDetails(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


_MakeError = ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorDetails))


class _Interface(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("version", _Version),
        ("internal", c_void_p),
        ("make_error", _MakeError),
    )


class _Buffer(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("type", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    )


class _Buffers(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("size", c_int64),
        ("types", c_void_p),
        ("items", POINTER(POINTER(_Buffer))),
    )


class _Frame(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", POINTER(_Extension)),
        ("interface", POINTER(_Interface)),
        ("context", c_void_p),
        ("stage", c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    )


class Offsets:
    """Where things are in a call frame, in bytes: for compiled handlers that read it themselves."""

    EXTENSION = _Frame.extension.offset
    INTERFACE = _Frame.interface.offset
    ARGUMENTS = _Frame.arguments.offset + _Buffers.items.offset
    RESULTS = _Frame.results.offset + _Buffers.items.offset
    DATA, RANK, DIMS = _Buffer.data.offset, _Buffer.rank.offset, _Buffer.dims.offset
    EXTENSION_TYPE = _Extension.type.offset
    METADATA = _MetadataExtension.metadata.offset
    METADATA_VERSION = _Metadata.version.offset + _Version.major.offset
    INTERFACE_VERSION = _Interface.version.offset + _Version.major.offset


_Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))
_lock = threading.Lock()
_registered: dict[str, Any] = {}  # handlers must outlive the programs that call them


def call(
    name: str, function: HostFunction, result: Any, argument: Array, compiled: Callable[[], int] | None = None
) -> Any:
    """Calls `function`, which compiled programs refer to by `name`.

    `result` is the shape and dtype of the result, or a sequence of them; dtypes are bool, uint8, int32 or float32. Under `vmap`,
    the function is called once, with a leading axis. It may have side effects: it is called exactly once each time the program
    reaches the call, whether its result is used or not. Order is guaranteed only if a call needs the result of another.

    `compiled` returns the address of a compiled handler that does the same as `function`, and is used where XLA can call it.
    """
    with _lock:  # two threads may trace at once
        direct = jax.default_backend() == "cpu" and interface_supported()
        if direct and name not in _registered:
            register_target(name, _compiled_address(name, compiled) or handler(name, function))
            _registered.setdefault(name, compiled)
    if not direct:
        return _by_io_callback(function, result, argument)
    return jax.ffi.ffi_call(name, result, vmap_method="broadcast_all", has_side_effect=True)(argument)


def _compiled_address(name: str, compiled: Callable[[], int] | None) -> int | None:
    if compiled is None:
        return None
    try:
        return compiled()
    except Exception as error:  # whatever Numba or LLVM raise
        warnings.warn(
            f"{name} is called through Python, its compiled form failed ({type(error).__name__}: {error})", stacklevel=3
        )
        return None


def _by_io_callback(function: HostFunction, result: Any, argument: Array) -> Any:
    """`io_callback` under `vmap` calls the function lane by lane; this calls it once for all lanes."""

    def on_host(argument_on_host: Any) -> Any:
        out = jax.tree.map(lambda leaf: np.empty(leaf.shape, leaf.dtype), result)
        function(np.asarray(argument_on_host), *jax.tree.leaves(out))
        return out

    @jax.custom_batching.custom_vmap
    def once(argument_on_host: Array) -> Any:
        return io_callback(on_host, result, argument_on_host)

    @once.def_vmap
    def once_for_all(lanes: int, _: list[bool], argument_on_host: Array) -> Any:
        mapped = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((lanes, *leaf.shape), leaf.dtype), result)
        return _by_io_callback(function, mapped, argument_on_host), jax.tree.map(lambda _: True, result)

    return once(argument)


@cache
def interface_supported() -> bool:
    """Whether our structures match XLA's interface; warns once if not."""
    found = _interface_version()
    if found in VERSIONS:
        return True
    supported = " or ".join(f"{major}.{minor}" for major, minor in VERSIONS)
    version = "has structures of an unknown size" if found is None else f"is version {found[0]}.{found[1]}"
    warnings.warn(
        f"XLA's foreign function interface {version}, remanence supports version {supported}: environments outside of the compiled "
        f"program are called by io_callback instead. Results are the same, steps take longer (jax {jax.__version__})",
        stacklevel=2,
    )
    return False


@cache
def _interface_version() -> tuple[int, int] | None:
    """(major, minor), which XLA passes to a function on registration; None if its structures are smaller than ours."""
    found: list[tuple[int, int] | None] = []

    @_Handler
    def ask(at: Any) -> None:
        found.append(_version(at.contents))
        _answer_metadata(at.contents)

    jax.devices("cpu")  # XLA asks only after it has started
    register_target("remanence_version", _address(ask))
    _registered["remanence_version"] = ask
    return found[0] if found else None


def _version(frame: _Frame) -> tuple[int, int] | None:
    """The version of the interface that made a call; None if its structures are smaller than ours."""
    if frame.struct_size < ctypes.sizeof(_Frame) or not frame.interface:
        return None
    interface = frame.interface.contents
    if interface.struct_size < ctypes.sizeof(_Interface) or interface.version.struct_size < ctypes.sizeof(_Version):
        return None
    return interface.version.major, interface.version.minor


def _answer_metadata(frame: _Frame) -> bool:
    """On registration, XLA asks for our version; we return its own. Returns whether this was such a call."""
    if not frame.extension or frame.extension.contents.type != METADATA:
        return False
    extension = ctypes.cast(frame.extension, POINTER(_MetadataExtension)).contents
    ours, theirs = extension.metadata.contents.version, frame.interface.contents.version
    ours.major, ours.minor = theirs.major, theirs.minor
    return True


def handler(name: str, function: HostFunction) -> int:
    """The address of a handler that calls `function`, which is kept under this name."""

    @_Handler
    def handle(at: Any) -> int | None:
        frame = at.contents
        if _answer_metadata(frame):
            return None
        try:
            function(*_arrays(frame.arguments), *_arrays(frame.results))
        except BaseException as error:
            text = f"{type(error).__name__}: {error}".encode()
            details = _ErrorDetails(ctypes.sizeof(_ErrorDetails), None, text, _INTERNAL_ERROR)
            return frame.interface.contents.make_error(ctypes.byref(details))
        return None

    _registered[name] = handle
    return _address(handle)


def register_target(name: str, address: int) -> None:
    """Lets compiled programs call the handler at this address by a name."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    jax.ffi.register_ffi_target(name, capsule(address, None, None), platform="cpu")


def _address(function: Any) -> int:
    address = ctypes.cast(function, c_void_p).value
    assert address is not None
    return address


def _arrays(buffers: _Buffers) -> Iterator[np.ndarray]:
    """Buffers as arrays, without a copy."""
    for i in range(buffers.size):
        buffer = buffers.items[i].contents
        yield _array(buffer.data, buffer.type, *buffer.dims[: buffer.rank])


@lru_cache(256)
def _array(address: int, type: int, *shape: int) -> np.ndarray:
    """An array at an address, which does not own its memory. A program passes the same few buffers at every step, and making an
    array takes 5 µs."""
    memory = (_TYPES[type] * math.prod(shape)).from_address(address)
    return np.frombuffer(memory, _TYPES[type]).reshape(shape)
