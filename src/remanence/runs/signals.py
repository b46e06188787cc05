"""Lets a run save a checkpoint before it stops on Ctrl-C, SIGTERM, or SIGHUP (the terminal was closed)."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def caught(patient: bool = False) -> Iterator[Callable[[], int]]:
    """Catches the first Ctrl-C, SIGTERM or SIGHUP; yields a function that returns its number, or 0.

    Under nohup, SIGHUP stays ignored. The second signal stops the run as soon as compiled code returns, unless `patient`. Only the
    main thread can catch signals: in other threads this does nothing.
    """
    asked = 0

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked and not patient:
            raise KeyboardInterrupt
        asked = number

    if threading.current_thread() is not threading.main_thread():
        yield lambda: asked
        return
    heard = [one for one in STOPPING if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heard}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
