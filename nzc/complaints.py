"""One line for everything that can go wrong on the way from the command line to a run."""

import difflib
import os
import re
import sys
from typing import NoReturn

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from nzc.errors import GROUPS, InputError, in_a_line, one_line

#: Whether the person asked for tracebacks.
TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"
_NO_KEY = "must be a key of the configuration (nzc --cfg job shows it), and not below one that is set by another"

#: What brings the launchers and sweepers that are not Hydra's own.
_EXTRAS = {
    "joblib": "joblib",
    "submitit_local": "submitit",
    "submitit_slurm": "submitit",
    "ray": "ray",
    "optuna": "search",
}


def stop(code: int, *lines: object) -> NoReturn:
    """Say these lines, and exit with this code."""
    for line in lines:
        print(f"nzc: {line}", file=sys.stderr)
    sys.exit(code)


def complaint(error: BaseException) -> tuple[int, str]:
    """The exit code and the line: 2 where the person can mend the input, 1 for a failure while running."""
    code, said = _complaint(error)
    return code, one_line(said)


def _complaint(error: BaseException) -> tuple[int, str]:
    chain = list(_chain(error))
    for cause in chain:
        if isinstance(cause, InputError):
            return 2, str(cause)
    if isinstance(error, OverrideParseException):
        return 2, f"{error.override}: must read key=value ({in_a_line(error.message)})"
    if isinstance(error, MissingConfigException):
        return 2, _missing_option(error)
    for cause in chain:
        if isinstance(cause, OmegaConfBaseException):
            return 2, _config(error, cause)
    if isinstance(error, ConfigCompositionException):
        return 2, _composition(str(error))
    if isinstance(error, HydraException):
        return 2, in_a_line(error)
    return 1, f"{type(error).__name__}: {in_a_line(error)} (HYDRA_FULL_ERROR=1 shows where)"


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _missing_option(error: MissingConfigException) -> str:
    wanted = (error.missing_cfg_file or "").removesuffix(".yaml")
    group, _, option = wanted.rpartition("/")
    if not group:
        return f"--config-name={option}: must be a whole configuration; its parts are GROUP={option}, +sweeps={option}"
    if option in _EXTRAS:
        return f'{group}={option}: must be installed: pip install "nzc[{_EXTRAS[option]}]"'
    return f"{group}={option}: must be one of {', '.join(error.options or ())}"


def _composition(message: str) -> str:
    """Of an unknown group Hydra says: Could not override 'X'. No match in the defaults list."""
    found = re.search(r"Could not (?:override|append) '([^']*)'", message)
    if found is None:
        return in_a_line(message)
    key = found.group(1)
    return f"{key}: must be a key of the configuration, one of the groups {', '.join(GROUPS)}, or +sweeps"


def _config(error: BaseException, cause: OmegaConfBaseException) -> str:
    """A key or a value that the composed configuration does not take."""
    override = re.search(r"Could not (?:override|append to|delete from|append) '?([^'\n]*)'?", str(error))
    key = str(cause.full_key or cause.key or (override.group(1) if override else ""))
    parent = cause.parent_node
    keys = sorted(str(name) for name in parent) if parent is not None and hasattr(parent, "keys") else []
    if key == "sweeps":
        return "+sweeps: must name a file that begins with the line # @package _global_"
    if "is not in struct" in str(cause) or f"not in '{_type(parent)}'" in str(cause):
        near = difflib.get_close_matches(str(cause.key), keys, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{key}: must be one of the keys {', '.join(keys)}{hint}" if keys else f"{key}: {_NO_KEY}"
    if parent is not None and "is not a subclass of" in str(cause):
        return f"{key}={_value(cause)}: must be given as {', '.join(f'{key}.{name}' for name in parent[cause.key])}"
    if "is not Optional" in str(cause):
        return f"{key}=null: must be given"
    if wanted := re.search(r"could not be converted to (\w+)", str(cause)):
        return f"{key}={_value(cause)}: must be of type {wanted.group(1).lower()}"
    return f"{key}={_value(cause)}: {in_a_line(str(cause.msg or cause).split('full_key:')[0])}"


def _type(node: object) -> str:
    kind = getattr(getattr(node, "_metadata", None), "object_type", None)
    return getattr(kind, "__name__", "")


def _value(cause: OmegaConfBaseException) -> object:
    found = re.search(r"Value '([^']*)'", str(cause))
    return found.group(1) if found else cause.value
