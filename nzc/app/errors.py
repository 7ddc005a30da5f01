"""One line for every error between the command line and a run."""

import os
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import yaml
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from nzc.app.config import options
from nzc.app.keys import unknown_key
from nzc.app.overrides import GROUPS, typed_values
from nzc.runs.layout import unresolved
from nzc.validation import InputError, in_a_line, meant, one_line, shortened

#: Whether tracebacks are asked for, here and in the processes of launchers: `main` sets
#: HYDRA_FULL_ERROR for Hydra.
TRACEBACK = os.environ.setdefault("NZC_TRACEBACK", os.environ.get("HYDRA_FULL_ERROR", "0")) == "1"
#: Options of Hydra's groups that need an extra of nzc, and its name.
_EXTRAS = {
    "joblib": "joblib",
    "submitit_local": "submitit",
    "submitit_slurm": "submitit",
    "ray": "ray",
    "optuna": "search",
}


class Parser(ArgumentParser):
    """An ArgumentParser whose errors are InputErrors, of one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(
            self.prog, " ".join(sys.argv[1:]), f"{message}; {self.prog} --help says what to type"
        )


class Stop(SystemExit):
    """The end of a command, with an exit code and `errors` to report. Hydra lets it pass."""

    def __init__(self, code: int, *errors: object) -> None:
        super().__init__(code)
        self.errors = errors


@contextmanager
def reported(private: bool = True, otherwise: int = 1) -> Iterator[None]:
    """End the command with the line and the exit code of an error in this context."""
    try:
        yield
    except Exception as error:
        code, line = error_line(error, private, otherwise)
        if TRACEBACK:
            traceback.print_exception(error)
        raise Stop(code, line) from error


def error_line(error: Exception, private: bool = True, otherwise: int = 1) -> tuple[int, str]:
    """Return exit code and line of an error: 2 where the input is wrong, else `otherwise`.

    private  whether the line may have the message of a failure, which may quote private data
    """
    wrong = input_error(error)
    if wrong is not None:
        return 2, shortened(str(wrong))
    if isinstance(error, HydraException | yaml.YAMLError):
        return 2, shortened(one_line(_sentence(error)))
    line = type(error).__name__
    if private:
        line += f": {in_a_line(error)}"
    return otherwise, shortened(one_line(f"{line} (HYDRA_FULL_ERROR=1 shows where)"))


def input_error(error: BaseException, words: Sequence[str] = ()) -> InputError | None:
    """Return the InputError that caused an error, or one made of Hydra's or OmegaConf's.

    words  the overrides, if not those of the command line

    None: the error is another one.
    """
    words = [*(words or sys.argv[1:]), *getattr(error, "__notes__", ())]  # of compose_run
    link: BaseException | None = error
    seen: list[BaseException] = []
    while link is not None and link not in seen:
        if isinstance(link, InputError):
            return link
        if isinstance(link, OmegaConfBaseException):
            return _wrong_value(link, words)
        seen.append(link)
        link = link.__cause__ or link.__context__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _unknown_option(error, error.missing_cfg_file)
    return None


def _unknown_option(error: MissingConfigException, file: str) -> InputError | None:
    """Return the error for an option of a group, which has no such `file`."""
    group, _, option = file.removesuffix(".yaml").rpartition("/")
    if not group:  # the file that --config-name names
        return None
    allowed = _sentence(error)
    if option in _EXTRAS:
        allowed = f'must be installed: pip install "nzc[{_EXTRAS[option]}]"'
    elif group in GROUPS:
        allowed = f"must be one of its options{meant(option, options(f'conf/{group}'))}"
    elif group == "sweeps":
        allowed = "must be the name of a sweep file" + meant(option, options("sweeps")).replace(
            "mean ", "mean +sweeps="
        )
    return InputError(group, option, allowed)


def _wrong_value(error: Any, words: Sequence[str]) -> InputError:
    """Return the error for a key or a value that the composed configuration does not accept."""
    key = str(error.full_key or error.key)
    typed = typed_values(words)
    if key == "sweeps":
        allowed = "must begin with the line # @package _global_"
        return InputError("+sweeps", typed.get(key), allowed)
    nodes: Any = {}
    if OmegaConf.is_dict(error.parent_node):
        nodes = unresolved(error.parent_node)
    value = typed.get(key, nodes.get(error.key, error.value))
    is_unknown = isinstance(error, ConfigAttributeError | ConfigKeyError)
    if is_unknown and (nodes or key.count(".") == 1):
        known = {name: nodes[name] for name in sorted(map(str, nodes)) if name[0] != "_"}
        return unknown_key(key, value, known, words=words)
    return InputError(key, value, in_a_line(str(error.msg or error).partition("full_key:")[0]))


def _sentence(error: BaseException) -> str:
    """Return Hydra's own sentence."""
    return in_a_line(str(error).partition("Config search path")[0])
