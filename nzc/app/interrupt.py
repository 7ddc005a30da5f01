"""Signals: the first ends the command in order, a second one waits for that, a third ends it at once."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import active_children, parent_process
from types import FrameType

STOPPED = "nzc: stopped; finished teachers are stored, and the same command continues from there"
#: Ctrl-C, an order to end, a terminal that is closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Signals:
    """What has arrived, and what the next signal does.

    works     whether the command works: before, its modules are imported; `ended`: its exit code is known
    received  how many signals have arrived
    held      how many clean-ups are under way; `late`: whether the first signal arrived during one
    said      whether the line that says so is printed
    """

    works = ended = late = said = False
    received = held = 0


_now = _Signals()


def handle() -> None:
    """Handle signals in this process. While modules are imported, there is nothing to clean up: one ends it at once.

    Signals that are ignored stay so, as by nohup. A worker process ignores Ctrl-C, which its whole group gets: the
    command ends it. A worker that was stopped while it answers would leave the command waiting.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if parent_process() is not None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)
    sys.unraisablehook = _unraisable


def begin() -> None:
    """From now on the first signal raises KeyboardInterrupt in the main thread."""
    global _now
    _now = _Signals()
    _now.works = True
    handle()


def begin_job() -> None:
    """As `begin`, in a process that a launcher started: there main is not called."""
    if not _now.works:
        begin()


def end() -> None:
    """From now on signals change nothing: the exit code is known. Only the third ends the command at once."""
    _now.works, _now.ended = False, True


def stopped() -> bool:
    """Return whether a signal has arrived. A library may have made another error of the KeyboardInterrupt."""
    return _now.works and _now.received > 0


@contextmanager
def held() -> Iterator[None]:
    """Clean up: a first signal that arrives in this context raises KeyboardInterrupt at its end."""
    _now.held += 1
    try:
        yield
    finally:
        _now.held -= 1
    if _now.late and not _now.held:
        _now.late = False
        raise KeyboardInterrupt


def say_stopped() -> None:
    """Print the one line of a command that was stopped. Signal handlers may call this."""
    if not _now.said:
        _now.said = True
        with suppress(OSError):
            os.write(2, f"{STOPPED}\n".encode())  # print could find its stream in use


def _handle(number: int, frame: FrameType | None) -> None:
    _now.received += 1
    if _now.received > 2 or not (_now.works or _now.ended):
        say_stopped()
        for child in active_children():
            child.kill()
        os._exit(130)
    if _now.received == 1 and _now.works:
        if not _now.held:
            raise KeyboardInterrupt
        _now.late = True


@atexit.register  # first, so that it is called last
def _ignore() -> None:
    """Ignore signals while Python takes its modules down; it would restore the handlers that kill the process."""
    for number in SIGNALS:
        if signal.getsignal(number) is _handle:
            signal.signal(number, signal.SIG_IGN)


def _unraisable(what: "sys.UnraisableHookArgs") -> None:
    """Raise a KeyboardInterrupt again that arrived where Python cannot raise one, as in a destructor."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
    elif _now.works:
        _now.received = 0
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGTERM])
        timer.daemon = True
        timer.start()
