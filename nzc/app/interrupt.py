"""Slow imports: Ctrl-C ends with one line and no traceback, and garbage collection is rare.

Import this module first: importing it sets `sys.excepthook` and the thresholds of the garbage collector.
"""

import gc
import os
import sys
from types import TracebackType

STOPPED = "nzc: stopped; finished teachers are stored, and the same command continues from there"
#: Python's own thresholds of the garbage collector. A job restores them, so that no large arrays wait for it.
GC_THRESHOLDS = gc.get_threshold()


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print(STOPPED, file=sys.stderr, flush=True)
    os._exit(130)


sys.excepthook = _hook  # nzc.app.main.main restores it
gc.set_threshold(10_000)  # imports make a million objects, which Python would search again and again
