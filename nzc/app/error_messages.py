"""One line for every error between the command line and a run."""

import difflib
import os
import re
import sys
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, get_args

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from nzc.app.config import GROUPS, known_keys, options
from nzc.validation import InputError, in_a_line, one_line

#: Whether tracebacks are asked for.
TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"
#: Options of Hydra's groups that need an extra of nzc, and its name.
_EXTRAS = {
    "joblib": "joblib",
    "submitit_local": "submitit",
    "submitit_slurm": "submitit",
    "ray": "ray",
    "optuna": "search",
}
_TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def stop(code: int, *lines: object) -> NoReturn:
    """Print these lines to standard error, and exit with this code."""
    for line in lines:
        print(f"nzc: {line}", file=sys.stderr)
    sys.exit(code)


def error_line(error: BaseException) -> tuple[int, str]:
    """Return exit code and line of an error: 2 where the input is wrong, 1 for a failure while running."""
    code, line = _code_and_line(error)
    return code, one_line(line)


def check_overrides(overrides: list[str], config_dir: str | None = None) -> None:
    """Raise InputError for an unknown key, and for a group that is not given one of its options.

    Hydra would accept an unknown key after +, and it describes the other mistakes in many lines. A person's own groups
    are known: the folders in conf/ of the working directory, and in `config_dir`.
    """
    types = dict(known_keys())
    homes = [Path.cwd() / "conf", *([] if config_dir is None else [Path(config_dir)])]
    own = {path.name for home in homes if home.is_dir() for path in home.iterdir()}
    for override in OverridesParser.create().parse_overrides(overrides):
        key, value = override.key_or_group, override.value()
        shown = "null" if value is None else value
        top = key.partition(".")[0].partition("/")[0]
        if key == "sweeps" and not (override.is_add() or override.is_force_add()):
            raise InputError("sweeps", shown, "must be given as +sweeps=NAME")
        if key in GROUPS and isinstance(value, int | float | dict | None):
            raise InputError(key, shown, f"must be one of {', '.join(options(f'conf/{key}'))}")
        inside = [name for name in types if name.startswith(f"{key}.")]
        if inside and not isinstance(value, dict):
            raise InputError(key, shown, f"must be given as {', '.join(inside)}")
        below = f"{key.rpartition('.')[0]}."
        in_mapping = key not in types and any(name.startswith(below) for name in types)
        if in_mapping or top not in {*types, *GROUPS, *own, "hydra", "sweeps"}:
            known = [*types, *GROUPS]
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f": {', '.join(dict.fromkeys(known))}"
            raise InputError(key, shown, f"must be a key of nzc{hint}")


def _code_and_line(error: BaseException) -> tuple[int, str]:
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    for each in chain:
        if isinstance(each, InputError):
            return 2, str(each)
    if isinstance(error, OverrideParseException):
        return 2, f"{error.override}: must read key=value ({in_a_line(error.message)})"
    if isinstance(error, MissingConfigException):
        return 2, _missing_option(error)
    for each in chain:
        if isinstance(each, OmegaConfBaseException):
            return 2, _wrong_value(each)
    if isinstance(error, ConfigCompositionException | HydraException):
        return 2, in_a_line(error)
    return 1, f"{type(error).__name__}: {in_a_line(error)} (HYDRA_FULL_ERROR=1 shows where)"


def _missing_option(error: MissingConfigException) -> str:
    wanted = (error.missing_cfg_file or "").removesuffix(".yaml")
    group, _, option = wanted.rpartition("/")
    if not group:
        return f"--config-name={option}: must be a whole configuration; its parts are GROUP={option}, +sweeps={option}"
    if option in _EXTRAS:
        return f'{group}={option}: must be installed: pip install "nzc[{_EXTRAS[option]}]"'
    return f"{group}={option}: must be one of {', '.join(error.options or ())}"


def _wrong_value(error: OmegaConfBaseException) -> str:
    """Return the line for a key or a value that the composed configuration does not accept."""
    key, parent = str(error.full_key or error.key or ""), error.parent_node
    keys = (
        sorted(str(name) for name in parent if str(name)[0] != "_")
        if parent is not None and hasattr(parent, "keys")
        else []
    )
    if key == "sweeps":
        return "+sweeps: must name a file that begins with the line # @package _global_"
    if keys and str(error.key) not in keys:
        near = difflib.get_close_matches(str(error.key), keys, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{key}: must be one of the keys {', '.join(keys)}{hint}"
    kinds = dict(known_keys())
    if key in kinds:
        wanted = _wanted(kinds[key])
        return f"{key}={_value(error)}: must be {wanted}"
    return f"{key}={_value(error)}: {in_a_line(str(error.msg or error).split('full_key:')[0])}"


def _wanted(kind: Any) -> str:
    kinds = get_args(kind) or (kind,)
    names = [_TYPES.get(each, getattr(each, "__name__", "")) for each in kinds if each is not NoneType]
    return " or ".join(names + ["null"] * (NoneType in kinds))


def _value(error: OmegaConfBaseException) -> object:
    """Return the value that was given. OmegaConf keeps it in the message only."""
    found = re.search(r"Value '([^']*)'", str(error))
    return found.group(1) if found else "null" if error.value is None else error.value
