"""Runs and sweeps from Python: settings become overrides, and the process is left as it was."""

import json
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.singleton import Singleton
from hydra.errors import HydraException
from hydra.types import RunMode

from nzc.app.config import CONF, compose_run, register
from nzc.app.errors import Stop, error_line, input_error
from nzc.app.job import run_single
from nzc.app.main import do_job
from nzc.app.overrides import GROUPS, check_overrides
from nzc.app.sweep import JobsFailed
from nzc.data.cache import forget_data
from nzc.runs.result import RunResult
from nzc.storage.files import PRIVATE
from nzc.tracking import restored
from nzc.validation import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

#: Overrides KEY=VALUE, or values by key: nested, dotted or both.
Settings = Sequence[str] | Mapping[str, Any]
#: Text that Hydra reads as this text without quotes.
_PLAIN = re.compile(r"(?!(?:null|true|false|inf|nan)$)[a-z_/][\w./-]*", re.ASCII | re.IGNORECASE)

#: Held by the thread whose run or sweep it is.
_alone = threading.RLock()
os.register_at_fork(after_in_child=_alone._at_fork_reinit)  # type: ignore[attr-defined]


def run(settings: Settings = (), /, **more: Any) -> RunResult:
    """Do what `nzc KEY=VALUE …` does, and return the result; `result.folder` holds everything else.

        result = nzc.run(
            {"aggregator": "gnmax", "aggregator.sigma": 3, "teachers": {"count": 50}},
            tracking="none",
        )
        result = nzc.run(["aggregator=gnmax", "aggregator.sigma=3"])
        result.accuracy, result.epsilon.published, result.labels, result.predictions

    settings  the keys of `nzc --help` with Python values, nested or dotted; or overrides as typed
    more      the same by keyword

    Hydra's global state, the umask, loggers, filters of warnings and `sys.path` are as before when
    this returns. Another thread's run waits for it. InputError: a value cannot be used.
    """
    begun = time.time()
    overrides = as_overrides(settings, more)
    with _undone(overrides):
        cfg = compose_run(overrides)
        if cfg.hydra.mode == RunMode.MULTIRUN:
            raise InputError(
                "settings", " ".join(overrides), "must describe one run; nzc.sweep runs several"
            )
        return run_single(cfg, begun)


def sweep(settings: Settings = (), /, **more: Any) -> "DataFrame":
    """Do what `nzc --multirun KEY=VALUE,VALUE …` does, and return its table: a row for each job.

        jobs = nzc.sweep({"aggregator": ["lnmax", "gnmax"], "seed": range(3)})
        jobs.groupby("aggregator")[["accuracy", "epsilon.exact"]].mean()

    settings, more  as of `nzc.run`; each list, range or array is a grid of values, and a tuple is
                    one value: a list

    The table is that of `nzc.read_sweep`. `jobs.attrs["folder"]` has the page report.html. A job
    that failed has its error in the column `failure`. InputError: a key or value of the grid is
    wrong; then no job has begun.
    """
    from nzc.sweeps.table import read_sweep  # imports pandas

    overrides = as_overrides(settings, more, grid=True)
    try:
        with _undone(overrides), redirect_stdout(sys.stderr):
            check_overrides(overrides)
            with initialize_config_dir(str(CONF), job_name="nzc", version_base="1.3"):
                hydra = GlobalHydra.instance().hydra
                assert hydra is not None
                folder = hydra.multirun(
                    "config", do_job, [*overrides, "hydra.mode=MULTIRUN"], False
                )
    except JobsFailed as failed:
        folder = failed.folder
    except Stop as stop:
        wrong: Any = stop.__cause__ or stop.errors[0]  # with several wrong keys, the first
        raise input_error(wrong, overrides) or wrong from None
    return read_sweep(folder)


@contextmanager
def _undone(overrides: Sequence[str]) -> Iterator[None]:
    """Leave the process as it was after a run or a sweep; raise Hydra's errors as InputErrors.

    Other threads wait: Hydra's state, the umask and the loggers are those of the process.
    """
    with _alone, warnings.catch_warnings(), restored():
        state = Singleton.get_state()
        umask = os.umask(PRIVATE)
        path = sys.path.copy()
        modules = set(sys.modules)
        at_stop = signal.getsignal(signal.SIGTERM)
        here = Path.cwd()
        try:
            GlobalHydra.instance().clear()
            register()
            yield
        except Exception as error:
            wrong = input_error(error, overrides)
            if wrong is None and isinstance(error, HydraException):
                wrong = InputError("settings", " ".join(overrides), error_line(error)[1])
            if wrong is None or wrong is error:
                raise
            raise wrong from None  # Hydra's traceback would only hide the line
        finally:
            # The user's files and modules may change before the next run of this process.
            forget_data()
            for name in sys.modules.keys() - modules:
                if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == here:
                    del sys.modules[name]
            os.umask(umask)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, at_stop or signal.SIG_DFL)
            Singleton.set_state(state)
            sys.path[:] = path


def as_overrides(settings: Settings, more: Mapping[str, Any], grid: bool = False) -> list[str]:
    """Return settings as Hydra's overrides KEY=VALUE.

    grid  whether a list, a range or an array is several values of a sweep: KEY=VALUE,VALUE
    """
    if isinstance(settings, str):
        raise InputError("settings", settings, "must be a mapping, or a list of KEY=VALUE")
    words: list[str] = []
    if not isinstance(settings, Mapping):
        words += settings
        settings = {}
    for key, value in [*_flat(settings), *_flat(more)]:
        values = [value]
        if grid and isinstance(value, list | range | np.ndarray):
            values = [*value]
        texts = ",".join(_text(key, value) for value in values)
        if texts[:1] == "{" and key[0] not in "+~":  # a mapping replaces all settings
            key = f"++{key}"
        words.append(f"{key}={texts}")
    return words


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested mapping by dotted keys.

    A mapping that describes an object inside a group is one value.
    """
    for name, value in tree.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping) and (key in GROUPS or "_target_" not in value):
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _text(key: str, value: Any) -> str:
    """Return a Python value in Hydra's grammar. InputError: the grammar has no such value."""
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if value is None and key in GROUPS:
        return "none"
    if isinstance(value, bool | None):
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple | range):
        return f"[{','.join(map(partial(_text, key), value))}]"
    if isinstance(value, Mapping):
        items = [f"{name}:{_text(str(name), item)}" for name, item in value.items()]
        return f"{{{','.join(items)}}}"
    if callable(value):
        value = f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, str | Path):
        raise InputError(
            key, type(value).__name__, "must be None, a number, text, a list or a mapping"
        )
    if _PLAIN.fullmatch(str(value)):
        return str(value)
    return QuotedString(str(value), Quote.single).with_quotes()
