"""Ctrl-C during slow imports: one line, no traceback. Import this module first; importing it sets `sys.excepthook`."""

import os
import sys
from types import TracebackType

STOPPED = "nzc: stopped; finished teachers are stored, and the same command continues from there"


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print(STOPPED, file=sys.stderr, flush=True)
    os._exit(130)


sys.excepthook = _hook  # nzc.app.main.main restores it
