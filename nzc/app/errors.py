"""One line for every error between the command line and a run."""

import os
import re
import shlex
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from nzc.app.config import GROUPS, options
from nzc.app.keys import unknown_key
from nzc.runs.layout import write_error
from nzc.validation import InputError, in_a_line, meant, one_line, shortened

#: Whether tracebacks are asked for, here and in the processes of launchers: `main` sets
#: HYDRA_FULL_ERROR for Hydra.
TRACEBACK = os.environ.setdefault("NZC_TRACEBACK", os.environ.get("HYDRA_FULL_ERROR", "0")) == "1"
#: Options of Hydra's groups that need an extra of nzc, and its name.
_EXTRAS = dict(
    joblib="joblib",
    submitit_local="submitit",
    submitit_slurm="submitit",
    ray="ray",
    optuna="search",
)


class Parser(ArgumentParser):
    """An ArgumentParser whose errors are InputErrors, of one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(self.prog, " ".join(sys.argv[1:]) or "(nothing)", message)


class Stop(SystemExit):
    """The end of a command with an exit code, and `errors` to report. Hydra's callbacks let it
    pass.
    """

    def __init__(self, code: int, *errors: object) -> None:
        super().__init__(code)
        self.errors = errors


@contextmanager
def reported(
    private: bool = True, otherwise: int = 1, folder: Path | None = None
) -> Iterator[None]:
    """End the command with line and exit code of an error in this context, which is left in the
    `folder` of a run.
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
        raise Stop(code, *([] if TRACEBACK else [line])) from error


def error_line(error: Exception, private: bool = True, otherwise: int = 1) -> tuple[int, str]:
    """Return exit code and line of an error: 2 where the input is wrong, else `otherwise`.

    private  whether the line may have the message of a failure, which may quote private data
    """
    code, wrong = 2, input_error(error)
    line = str(wrong or _sentence(error))
    if wrong is None and not isinstance(error, HydraException | yaml.YAMLError):
        message = f": {in_a_line(error)}" if private else ""
        code, line = otherwise, f"{type(error).__name__}{message} (HYDRA_FULL_ERROR=1 shows where)"
    return code, shortened(one_line(line))


def input_error(error: BaseException, words: Sequence[str] = ()) -> InputError | None:
    """Return the InputError that caused an error, or one made of Hydra's or OmegaConf's error;
    None: another error.

    words  the overrides, if not those of the command line
    """
    chain = [error]
    while (
        cause := chain[-1].__cause__ or chain[-1].__context__
    ) is not None and cause not in chain:
        chain.append(cause)
    for link in chain:
        if isinstance(link, InputError):
            return link
        if isinstance(link, OmegaConfBaseException):
            return _wrong_value(link, str(error), words or sys.argv[1:])
        if isinstance(link, OverrideParseException):
            return unread(link.override, _sentence(link))
    if comma := re.match(r"Ambiguous value for argument '(.*?)'\n", str(error), re.DOTALL):
        return unread(
            comma[1], "for a list, put it into []; to run a job for each part, add --multirun"
        )
    if "Config group override" in str(error):  # Hydra does not say which
        typed = [part.partition("=") for part in words or sys.argv]
        values = [
            (key, value) for key, _, value in typed if re.match("null|true|false|[-+.0-9{]", value)
        ]
        group, option = next(
            (pair for pair in values if pair[0] in GROUPS or "/" in pair[0]), ("(group)", "")
        )
        return InputError(group, option, "must be the name of an option; nzc --help lists them")
    if isinstance(error, MissingConfigException):
        group, _, option = (error.missing_cfg_file or "").removesuffix(".yaml").rpartition("/")
        if option in _EXTRAS:
            return InputError(
                group, option, f'must be installed: pip install "nzc[{_EXTRAS[option]}]"'
            )
        if group in GROUPS:
            return InputError(
                group,
                option,
                f"must be one of its options{meant(option, options(f'conf/{group}'))}",
            )
        if group:
            return InputError(group, option, _sentence(error))
    return None


def unread(override: str, why: str) -> InputError:
    """Return the error for an override that Hydra does not read as one value: what to type if it is
    text, and why.
    """
    key, _, value = override.partition("=")
    text = _quoted(value)
    if value[:1] in ("[", "{") and not os.path.exists(value):  # texts of a list may need quotes
        text = re.sub(r"""[^\[\]{},\s"'][^\[\]{},]*""", lambda found: _quoted(found[0]), value)
    with suppress(HydraException):
        OverridesParser.create().parse_override(f"{key}={text}")
        why = f"if it is text, type {shlex.quote(f'{key}={text}')}; {why}"
    return InputError(key, value, why)


def refuse_divided_paths(overrides: Iterable[str]) -> None:
    """Raise InputError for a file or folder that a sweep would divide at its commas."""
    for override in overrides:
        path = override.partition("=")[2]
        if "," in path and os.path.exists(path):
            raise unread(override, "a sweep would divide it")


def _quoted(text: str) -> str:
    """Return the text in quotes, for Hydra."""
    return QuotedString(text, Quote.double).with_quotes()


def _sentence(error: BaseException) -> str:
    """Return Hydra's own sentence."""
    return in_a_line(str(error).partition("Config search path")[0])


def _wrong_value(error: Any, hydra: str, words: Sequence[str]) -> InputError:
    """Return the error for a key or a value that the composed configuration does not accept;
    `hydra`: its message.
    """
    key, typed = (
        str(error.full_key or error.key),
        re.search(r"(?:override |use \+)[^=\s]+=(.*)", hydra),
    )
    if key == "sweeps":
        file = hydra.split("'")[1]  # In 'sweeps/mine': …
        return InputError(
            "+sweeps", file.removeprefix("sweeps/"), "must begin with the line # @package _global_"
        )
    parent = error.parent_node
    tree: Any = OmegaConf.to_container(parent, resolve=False) if OmegaConf.is_dict(parent) else {}
    value = typed[1] if typed else tree.get(error.key, error.value)
    if isinstance(error, ConfigAttributeError | ConfigKeyError) and (tree or key.count(".") == 1):
        known = {name: tree[name] for name in sorted(map(str, tree)) if name[0] != "_"}
        return unknown_key(key, value, known, words=words)
    return InputError(key, value, in_a_line(str(error.msg or error).partition("full_key:")[0]))
