"""A command that is stopped says so in one line, with no traceback: from its first import on, which takes a while."""

import os
import sys
from types import TracebackType

LINE = "nzc: stopped; what was finished is stored, and the same command goes on from there"


def _said(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print(LINE, file=sys.stderr, flush=True)
    os._exit(130)


sys.excepthook = _said  # until nzc.__main__.main begins
