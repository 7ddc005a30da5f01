"""Start of the command, imported first: what must be set before the slow imports.

Importing this module sets the handlers of signals, the standard streams, `sys.excepthook`, matplotlib's backend, and
the thresholds of the garbage collector.
"""

import gc
import os
import sys
from types import TracebackType

from nzc.app import interrupt
from nzc.app.streams import make_harmless

#: Python's own thresholds of the garbage collector. A job restores them, so that no large arrays wait for it.
GC_THRESHOLDS = gc.get_threshold()


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an import that fails, as for lack of memory, in one line."""
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        sys.__excepthook__(kind, error, trace)
    else:
        said = " ".join(str(error).split())[:300]
        print(f"nzc: {kind.__name__}: {said} (HYDRA_FULL_ERROR=1 shows where)", file=sys.stderr)


interrupt.handle()
make_harmless()
sys.excepthook = _hook  # nzc.app.main.main restores it
os.environ["MPLBACKEND"] = "agg"  # figures are files; with a wrong name not even Lightning can be imported
gc.set_threshold(10_000)  # imports make a million objects, which Python would search again and again
