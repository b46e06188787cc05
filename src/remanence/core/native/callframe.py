"""The arguments and results of a call by XLA, for compiled handlers: they get the address of a call frame.

`core/hostcall.py` has the structures. Under `vmap`, buffers have leading axes.
"""

from __future__ import annotations

from remanence.core import hostcall
from remanence.core.native.addresses import ints, longs
from remanence.core.native.compiling import inlined, kernel

_EXTENSION, _INTERFACE = hostcall.Offsets.EXTENSION, hostcall.Offsets.INTERFACE
_ARGUMENTS, _RESULTS = hostcall.Offsets.ARGUMENTS, hostcall.Offsets.RESULTS
_DATA, _RANK, _DIMS = hostcall.Offsets.DATA, hostcall.Offsets.RANK, hostcall.Offsets.DIMS
_EXTENSION_TYPE, _METADATA = hostcall.Offsets.EXTENSION_TYPE, hostcall.Offsets.METADATA
_METADATA_VERSION, _INTERFACE_VERSION = hostcall.Offsets.METADATA_VERSION, hostcall.Offsets.INTERFACE_VERSION
_IS_METADATA = hostcall.METADATA


@kernel
def word(address):
    return longs(address, 1)[0]


@kernel
def asks_for_version(frame):
    """On registration, XLA asks for our version of the interface; we return its own. -> whether this was such a call."""
    extension = word(frame + _EXTENSION)
    if extension == 0 or ints(extension + _EXTENSION_TYPE, 1)[0] != _IS_METADATA:
        return False
    theirs = ints(word(frame + _INTERFACE) + _INTERFACE_VERSION, 2)
    ours = ints(word(extension + _METADATA) + _METADATA_VERSION, 2)
    ours[0], ours[1] = theirs[0], theirs[1]
    return True


@kernel
def arguments_of(frame):
    """The address of the addresses of its buffers."""
    return word(frame + _ARGUMENTS)


@kernel
def results_of(frame):
    return word(frame + _RESULTS)


@inlined
def argument(frame, i):
    """The address of a buffer."""
    return word(arguments_of(frame) + 8 * i)


@inlined
def result(frame, i):
    return word(results_of(frame) + 8 * i)


@kernel
def data(buffer):
    return word(buffer + _DATA)


@kernel
def rank(buffer):
    return word(buffer + _RANK)


@kernel
def dim(buffer, i):
    return word(word(buffer + _DIMS) + 8 * i)


@kernel
def elements(buffer, first):
    """The number of elements along the axes from `first` on."""
    count = 1
    for i in range(first, rank(buffer)):
        count *= dim(buffer, i)
    return count
