"""The command `nzc`: a run, a sweep, or a subcommand."""

from nzc.app.startup import GC_THRESHOLDS  # isort: skip  # before the slow imports

import gc
import os
import sys
from argparse import SUPPRESS
from pathlib import Path
from typing import Any, ClassVar

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from nzc import __version__
from nzc.app import interrupt
from nzc.app.commands import COMMANDS
from nzc.app.config import CONF, register, register_help, shows_private
from nzc.app.error_messages import TRACEBACK, check_overrides, error_line, report, unwritable
from nzc.app.parser import Parser
from nzc.app.run import PRIVATE, PreparedJob, prepare, track_failure
from nzc.app.sweep import answer_interrupted
from nzc.app.targets import only_known_classes_in_hydra
from nzc.runs import pipeline
from nzc.runs.formatting import show
from nzc.runs.layout import RESULT, as_typed, flatten, with_infinity
from nzc.runs.result import RunResult
from nzc.sweeps.frame import job_name
from nzc.validation import InputError


def main() -> None:
    """Run the command. Exit code 0; 1 for a failure while running; 2 for wrong input; 130 when stopped."""
    os.umask(PRIVATE)
    sys.excepthook = sys.__excepthook__
    interrupt.begin()
    try:
        _main()
    except KeyboardInterrupt:
        interrupt.say_stopped()
        sys.exit(130)
    finally:
        interrupt.end()


def _main() -> None:
    try:
        if sys.argv[1:] and sys.argv[1] in COMMANDS:
            sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
    except Exception as error:
        report(error)
    try:
        _run_or_sweep()
    except Exception as error:  # before a job begins: the input is wrong
        if (job := RunHooks.prepared) is not None and job.folder is not None:
            job.folder.undo()
        if isinstance(error, OSError):  # Hydra makes the run's folder
            report(unwritable("paths.output", error))
        report(error, otherwise=2)


def _run_or_sweep() -> None:
    parsed = _parse(sys.argv[1:])
    if parsed.version:
        print(f"nzc {__version__}")
        return
    # Hydra accepts no flag between overrides.
    sys.argv[1:] = [*(word for word in sys.argv[1:] if word not in parsed.overrides), *parsed.overrides]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and they are reported here
    register()
    register_help()
    pipeline.forget_data()
    traceback = TRACEBACK  # sent with the task to the processes of launchers

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def task(cfg: DictConfig) -> float | list[float] | None:
        return _job(cfg, traceback)

    with answer_interrupted(), only_known_classes_in_hydra():
        task()


class RunHooks(Callback):
    """Prepares a single run before Hydra makes its folder, so that wrong input leaves nothing behind."""

    prepared: ClassVar[PreparedJob | None] = None  # in this process

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        key, folder = "hydra.run.dir", Path(config.hydra.run.dir)
        try:
            RunHooks.prepared = prepare(config, config.hydra.runtime.choices)
            if RunHooks.prepared.help_train():
                sys.exit(0)
            RunHooks.prepared.take(key, folder)
        except Exception as error:  # Hydra would make a warning of it
            report(error, private=shows_private(config))


def _job(cfg: DictConfig, traceback: bool) -> float | list[float] | None:
    """Run one job and return its values of `objective`. In a sweep, an error costs this job only."""
    os.umask(PRIVATE)  # also in the processes of launchers
    interrupt.begin_job()
    gc.set_threshold(*GC_THRESHOLDS)
    settings = HydraConfig.get()
    folder = Path(settings.runtime.output_dir)
    if settings.mode != RunMode.MULTIRUN:
        assert RunHooks.prepared is not None
        try:
            result = RunHooks.prepared.execute(speaks=True)
        except Exception as error:
            report(error, shows_private(cfg), folder)
        show((result if shows_private(cfg) else result.public).table())
        show(str(folder / RESULT), "dim")
        return None
    sweep, choices, job = Path(settings.sweep.dir), settings.runtime.choices, None
    name = job_name(sweep, settings.job.num, as_typed(settings.overrides.task))
    try:
        job = prepare(cfg, choices, in_sweep=True)
        if job.help_train():
            return None
        job.take("hydra.sweep.dir", folder)
        result = job.execute(sweep, name)
        show((result if shows_private(cfg) else result.public).line(name))
        return None if cfg.objective is None else _objective(cfg.objective, result)
    except Exception as error:
        if job is None:
            track_failure(cfg, choices, folder, sweep, name)
        if interrupt.stopped():
            raise KeyboardInterrupt from error
        if traceback:
            raise
        print(f"nzc: {error_line(error, shows_private(cfg), folder)[1]}", file=sys.stderr)
        return None


def _objective(objective: Any, result: RunResult) -> float | list[float]:
    """Return the numbers of result.json that `objective` names."""
    known = with_infinity(flatten(result.as_dict()))
    numbers = {key: float(value) for key, value in known.items() if isinstance(value, int | float)}
    for key in [objective] if isinstance(objective, str) else objective:
        if key not in numbers:
            raise InputError("objective", key, f"must be a number of result.json: {', '.join(numbers)}")
    return numbers[objective] if isinstance(objective, str) else [numbers[key] for key in objective]


def _parse(arguments: list[str]) -> Any:
    """Check the arguments. Hydra parses them again; it reports mistakes in many lines."""
    parser = Parser("nzc", add_help=False)
    for flag in (
        "--help -h",
        "--hydra-help",
        "--version",
        "--resolve",
        "--run -r",
        "--multirun -m",
        "--shell-completion -sc",
    ):
        parser.add_argument(*flag.split(), action="store_true")
    for flag in "--package -p", "--config-path -cp", "--config-name -cn", "--config-dir -cd":
        parser.add_argument(*flag.split())
    parser.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
    parser.add_argument("--info", "-i", nargs="?", const="all", default=SUPPRESS)
    parser.add_argument("overrides", nargs="*")
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.resolve and not (parsed.cfg or parsed.help):
        raise InputError("--resolve", True, "must be given with --cfg")
    if not (parsed.shell_completion or parsed.config_name):
        check_overrides(parsed.overrides, parsed.config_dir)
    return parsed
