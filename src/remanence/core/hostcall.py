"""Calls an ordinary Python function from inside a compiled program, once per step and device, at little cost.

`jax.pure_callback` turns every argument into a jax array and back: 150 to 400 µs per call, several times that with two devices.
XLA's foreign function interface hands over plain addresses instead. Here its C structures are written down for `ctypes`
(as of version 0.3 of the interface; fields are only ever added at their ends), and arguments become numpy arrays where they
lie: 30 µs. On other platforms than CPU, `pure_callback` does the same.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

import jax
import numpy as np
from jax import Array

HostFunction = Callable[..., None]  # (*arguments, *results to be written), all of them arrays

# XLA's numbers of the types we use.
_TYPES = {1: ctypes.c_bool, 2: ctypes.c_int8, 4: ctypes.c_int32, 6: ctypes.c_uint8, 11: ctypes.c_float}
_INTERNAL_ERROR = 13
_METADATA = 1


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


_Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))
_registered: dict[str, Any] = {}  # handlers must live as long as the programs that call them


def call(name: str, function: HostFunction, result: Any, argument: Array) -> Any:
    """The result of `function`, a module's own, known to compiled programs by its name.

    The argument is an array, the result one of the form `result` or, if that is a sequence, several: of bits, bytes, int32 or
    float32. Under `vmap`, the function is called once with a leading axis. It may have effects: it is called once each
    time the program comes by, as its result is used.
    """
    if jax.default_backend() != "cpu":

        def plain(given: Any) -> Any:
            given = np.asarray(given)
            lanes = given.shape[: given.ndim - argument.ndim]
            out = jax.tree.map(lambda form: np.empty((*lanes, *form.shape), form.dtype), result)
            function(given, *jax.tree.leaves(out))
            return out

        return jax.pure_callback(plain, result, argument, vmap_method="broadcast_all")
    if name not in _registered:
        _registered[name] = _register(name, function)
    return jax.ffi.ffi_call(name, result, vmap_method="broadcast_all", has_side_effect=True)(argument)


def _register(name: str, function: HostFunction) -> Any:
    @_Handler
    def handler(at: Any) -> int | None:
        frame = at.contents
        if frame.extension and frame.extension.contents.type == _METADATA:  # XLA asks which version we speak
            extension = ctypes.cast(frame.extension, POINTER(_MetadataExtension)).contents
            ours, theirs = extension.metadata.contents.version, frame.interface.contents.version
            ours.major, ours.minor = theirs.major, theirs.minor
            return None
        try:
            function(*_arrays(frame.arguments), *_arrays(frame.results))
        except BaseException as error:
            text = f"{type(error).__name__}: {error}".encode()
            details = _ErrorDetails(ctypes.sizeof(_ErrorDetails), None, text, _INTERNAL_ERROR)
            return frame.interface.contents.make_error(ctypes.byref(details))
        return None

    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    jax.ffi.register_ffi_target(name, capsule(ctypes.cast(handler, c_void_p).value, None, None), platform="cpu")
    return handler


def _arrays(buffers: _Buffers) -> Iterator[np.ndarray]:
    """Buffers as arrays, where they lie."""
    for i in range(buffers.size):
        buffer = buffers.items[i].contents
        shape = buffer.dims[: buffer.rank]
        whole = (_TYPES[buffer.type] * math.prod(shape)).from_address(buffer.data)
        yield np.frombuffer(whole, _TYPES[buffer.type]).reshape(shape)
