"""The command `nzc`: a run, a sweep, or a subcommand."""

from nzc.app.interrupt import STOPPED  # isort: skip  # before the slow imports

import os
import signal
import sys
import traceback
from argparse import SUPPRESS
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from nzc import __version__
from nzc.app.commands import COMMANDS, Parser
from nzc.app.config import CONF, register, register_help, shows_private
from nzc.app.error_messages import TRACEBACK, check_overrides, error_line, stop
from nzc.app.run import PRIVATE, PreparedJob, prepare, track_failure
from nzc.app.sweep import answer_interrupted
from nzc.runs import pipeline
from nzc.runs.formatting import show
from nzc.runs.layout import ERROR, RESULT, flatten, job_name
from nzc.runs.result import RunResult
from nzc.validation import InputError


def main() -> None:
    """Run the command. Exit code 0; 1 for a failure while running; 2 for wrong input; 130 when stopped."""
    os.umask(PRIVATE)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a run that is told to end closes what it opened
    sys.excepthook = sys.__excepthook__
    try:
        _main()
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # before a job begins: the input is wrong
        if TRACEBACK:
            raise
        if isinstance(error, OSError) and error.filename is not None:  # Hydra makes the run's folder
            stop(2, f"paths.output={error.filename}: must be a folder that can be written ({error.strerror})")
        stop(2, error_line(error)[1])


def _main() -> None:
    if sys.argv[1:] and sys.argv[1] in COMMANDS:
        try:
            sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
        except Exception as error:
            _report(error)
    if _parse(sys.argv[1:]).version:
        print(f"nzc {__version__}")
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and they are reported here
    register()
    register_help()
    pipeline.forget_data()
    traceback = TRACEBACK  # sent with the task to the processes of launchers

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def task(cfg: DictConfig) -> float | list[float] | None:
        return _job(cfg, traceback)

    with answer_interrupted():
        task()


class RunHooks(Callback):
    """Prepares a single run before Hydra makes its folder, so that wrong input leaves nothing behind."""

    #: The run that is prepared in this process.
    prepared: ClassVar[PreparedJob | None] = None

    def __reduce__(self) -> Any:
        """Launchers send callbacks to their workers, which do not need this one's state."""
        return type(self), ()

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        try:
            RunHooks.prepared = prepare(config, config.hydra.runtime.choices)
            if RunHooks.prepared.is_worker:
                RunHooks.prepared.run.train_worker()
                sys.exit(0)
        except Exception as error:  # Hydra would make a warning of it
            _report(error, private=shows_private(config))


def _job(cfg: DictConfig, traceback: bool) -> float | list[float] | None:
    """Run one job and return its values of `objective`. In a sweep, an error costs this job only."""
    os.umask(PRIVATE)  # also in the processes of launchers
    settings = HydraConfig.get()
    folder = Path(settings.runtime.output_dir)
    if settings.mode != RunMode.MULTIRUN:
        assert RunHooks.prepared is not None
        try:
            result = RunHooks.prepared.execute(folder)
        except Exception as error:
            _report(error, shows_private(cfg), folder)
        show((result if shows_private(cfg) else result.public).table())
        show(str(folder / RESULT), "dim")
        return None
    sweep, choices, job = Path(settings.sweep.dir), settings.runtime.choices, None
    try:
        job = prepare(cfg, choices, in_sweep=True)
        if job.is_worker:
            job.run.train_worker()
            return None
        result = job.execute(folder, sweep)
        shown = result if shows_private(cfg) else result.public
        show(shown.line(job_name(sweep, settings.job.num, settings.overrides.task)))
        return None if cfg.objective is None else _objective(cfg.objective, result)
    except Exception as error:
        if job is None:
            track_failure(cfg, choices, folder, sweep)
        if traceback:
            raise
        print(f"nzc: {_line(error, shows_private(cfg), folder)[1]}", file=sys.stderr)
        return None


def _objective(objective: Any, result: RunResult) -> float | list[float]:
    """Return the numbers of result.json that `objective` names."""
    keys, known = [objective] if isinstance(objective, str) else list(objective), flatten(result.as_dict())
    values = {key: float("inf") if value == "inf" else value for key, value in known.items()}
    numbers = {key: float(value) for key, value in values.items() if isinstance(value, int | float)}
    for key in keys:
        if key not in numbers:
            raise InputError("objective", key, f"must be a number of result.json: {', '.join(numbers)}")
    return numbers[objective] if isinstance(objective, str) else [numbers[key] for key in keys]


def _parse(arguments: list[str]) -> Any:
    """Check the arguments. Hydra parses them again; it reports mistakes in many lines."""
    parser = Parser("nzc", add_help=False)
    for flags in (("--help", "-h"), ("--hydra-help",), ("--version",), ("--resolve",), ("--run", "-r")):
        parser.add_argument(*flags, action="store_true")
    for flags in (("--multirun", "-m"), ("--shell-completion", "-sc")):
        parser.add_argument(*flags, action="store_true")
    for flags in (("--package", "-p"), ("--config-path", "-cp"), ("--config-name", "-cn"), ("--config-dir", "-cd")):
        parser.add_argument(*flags)
    parser.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
    parser.add_argument("--info", "-i", nargs="?", const="all", default=SUPPRESS)
    parser.add_argument("--experimental-rerun")
    parser.add_argument("overrides", nargs="*")
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.resolve and not (parsed.cfg or parsed.help):
        raise InputError("--resolve", True, "must be given with --cfg")
    if not (parsed.shell_completion or parsed.config_name):
        check_overrides(parsed.overrides, parsed.config_dir)
    return parsed


def _report(error: Exception, private: bool = True, folder: Path | None = None) -> NoReturn:
    """Print one line for an error (a traceback, if asked for), and exit with its code."""
    code, line = _line(error, private, folder)
    if TRACEBACK:
        traceback.print_exception(error)
        sys.exit(code)
    stop(code, line)


def _line(error: Exception, private: bool, folder: Path | None) -> tuple[int, str]:
    """Return exit code and line of an error, and leave the line in `folder`; without a message that may be private."""
    code, line = error_line(error)
    if code == 1 and not private:
        line = f"{type(error).__name__} (HYDRA_FULL_ERROR=1 shows where)"
    if folder is not None:
        with suppress(OSError):  # the disk may be full
            (folder / ERROR).write_text(f"{line}\n")
    return code, line
