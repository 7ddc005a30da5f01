"""One line for every error between the command line and a run."""

import os
import re
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from nzc.app.config import GROUPS, known_keys, options
from nzc.runs.layout import write_error
from nzc.validation import InputError, in_a_line, one_line, shortened

#: Whether tracebacks are asked for. `main` sets this variable too, so that Hydra raises its errors.
TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"
#: Options of Hydra's groups that need an extra of nzc, and its name.
_EXTRAS = dict(joblib="joblib", submitit_local="submitit", submitit_slurm="submitit", ray="ray", optuna="search")
#: Keys of a group that were renamed, and their new names.
_RENAMED = {"wrong": "label_noise_rate", "fade": "labeled_loss_decay"}
#: Beside a key that is meant, more keys than these are not listed.
_MANY = 20


class Parser(ArgumentParser):
    """An ArgumentParser whose errors are InputErrors, of one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(self.prog, " ".join(sys.argv[1:]) or "(nothing)", message)


@contextmanager
def reported(private: bool = True, otherwise: int = 1, folder: Path | None = None) -> Iterator[None]:
    """End the command with line and exit code of an error in this context (`error_line`); a traceback, if asked for.

    folder  of a run, where the line is left too
    """
    try:
        yield
    except Exception as error:
        code, line = error_line(error, private, otherwise)
        if folder is not None:
            with suppress(OSError):  # the disk may be full
                write_error(folder, line)
        if TRACEBACK:
            traceback.print_exception(error)
            sys.exit(code)
        stop(code, line)


def stop(code: int, *lines: object) -> NoReturn:
    for line in lines:
        print(f"nzc: {shortened(one_line(str(line)))}", file=sys.stderr)
    sys.exit(code)


def error_line(error: Exception, private: bool = True, otherwise: int = 1) -> tuple[int, str]:
    """Return exit code and line of an error: 2 where the input is wrong, 1 for a failure while running.

    private    whether the line may have the message of a failure, which may quote private data
    otherwise  the code of a failure: 2 before a run begins, where Hydra raises many types
    """
    code, line = 2, in_a_line(str(error).partition("Config search path")[0])  # Hydra's own sentence
    if (wrong := input_error(error)) is not None:
        line = str(wrong)
    elif not isinstance(error, HydraException | yaml.YAMLError):
        message = f": {in_a_line(error)}" if private else ""
        code, line = otherwise, f"{type(error).__name__}{message} (HYDRA_FULL_ERROR=1 shows where)"
    return code, shortened(one_line(line))


def input_error(error: BaseException) -> InputError | None:
    """Return the InputError that caused an error, or one made of Hydra's or OmegaConf's error; None: another error."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    if (wrong := next((link for link in chain if isinstance(link, InputError)), None)) is not None:
        return wrong
    if (unfit := next((link for link in chain if isinstance(link, OmegaConfBaseException)), None)) is not None:
        return _wrong_value(unfit, error)
    if isinstance(error, OverrideParseException):
        key, _, value = str(error.override).partition("=")
        return InputError(key, value, f"must read KEY=VALUE ({in_a_line(error.message.partition('See https')[0])})")
    if isinstance(error, MissingConfigException) and (
        error.options or Path(error.missing_cfg_file or "").stem in _EXTRAS
    ):
        return _missing_option(error)
    return None


def check_overrides(overrides: list[str], config_dir: str | None = None) -> None:
    """Raise InputError for an unknown key, which Hydra accepts after +, and for a group without one of its options.

    A person's own groups are known: the folders in conf/ of the working directory, and in `config_dir`.
    """
    keys = known_keys()
    sections = {key.rpartition(".")[0] for key in keys} - {""}
    own = {path.name for home in ("conf", config_dir or "conf") for path in Path(home).glob("*")}
    for override in OverridesParser.create().parse_overrides(overrides):
        key, value = override.key_or_group, str(override.input_line).partition("=")[2] or None
        if key in GROUPS and isinstance(override.value(), int | float | dict | None):
            raise InputError(key, value, f"must be one of {', '.join(options(f'conf/{key}'))}")
        if key in sections and not isinstance(override.value(), dict):
            inside = [name for name in keys if name.startswith(f"{key}.")]
            raise InputError(key, value, f"must be given as {', '.join(inside)}")
        first, section = re.split("[./]", key)[0], key.rpartition(".")[0]
        if first not in {*keys, *GROUPS, *own, "hydra", "sweeps"} or (section in sections and key not in keys):
            raise unknown_key(key, value, dict.fromkeys([*keys, *GROUPS]), "nzc")


def unknown_key(key: str, value: object, known: Iterable[str], of: str = "") -> InputError:
    """Return the error for a key that is none of `known`: whole keys, or those of its group; `of`: whose they are."""
    group, _, name = key.rpartition(".")
    names = list(known)
    if _RENAMED.get(name) in names:
        return InputError(key, value, f"is called {group}.{_RENAMED[name]} now")
    near = get_close_matches(key, names, 1) or get_close_matches(name, names, 1)
    listed = "" if near and len(names) > _MANY else f": {', '.join(names)}"
    hint = f"; did you mean {near[0]}?" if near else ""
    return InputError(key, value, f"must be one of the keys of {of or group or 'nzc'}{listed}{hint}")


def _missing_option(error: MissingConfigException) -> InputError:
    group, _, option = (error.missing_cfg_file or "").removesuffix(".yaml").rpartition("/")
    if option in _EXTRAS:
        return InputError(group, option, f'must be installed: pip install "nzc[{_EXTRAS[option]}]"')
    near = get_close_matches(option, error.options or (), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    known = ", ".join(error.options or ())
    return InputError(group, option, f"must be one of {known}, or of your own files in conf/{group}/ here{hint}")


def _wrong_value(error: Any, outer: BaseException) -> InputError:
    """Return the error for a key or a value that the composed configuration does not accept; `outer`: Hydra's."""
    key = str(error.full_key or error.key)
    if key == "sweeps":
        file = str(outer).split("'")[1]  # In 'sweeps/mine': …
        return InputError("+sweeps", file.removeprefix("sweeps/"), "must begin with the line # @package _global_")
    if isinstance(error, MissingMandatoryValue):
        return InputError(key, "???", "must be given")
    parent, typed = error.parent_node, re.search(r"(?:override |use \+)[^=\s]+=(.*)", str(outer))
    tree: Any = OmegaConf.to_container(parent, resolve=False) if OmegaConf.is_dict(parent) else {}
    if isinstance(error, ConfigAttributeError | ConfigKeyError) and tree:
        return unknown_key(key, typed[1] if typed else "…", sorted(name for name in map(str, tree) if name[0] != "_"))
    unresolved = isinstance(error, InterpolationResolutionError)
    value = tree.get(error.key) if unresolved else typed[1] if typed else error.value
    return InputError(key, value, in_a_line(str(error.msg or error).partition("full_key:")[0]))
