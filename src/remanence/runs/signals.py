"""Lets a run finish what it is doing when it is asked to stop, and keep all it has."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def caught(patient: bool = False) -> Iterator[Callable[[], int]]:
    """While this lasts, the first Ctrl-C or SIGTERM only makes a note; gives a function that tells which came, or 0.

    The second one stops as soon as compiled code returns, unless we are `patient`. Only the main thread can catch signals:
    elsewhere nothing changes.
    """
    asked = 0

    def note(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked and not patient:
            raise KeyboardInterrupt
        asked = number

    if threading.current_thread() is not threading.main_thread():
        yield lambda: asked
        return
    before = {number: signal.signal(number, note) for number in STOPPING}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
