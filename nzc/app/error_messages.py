"""One line for every error between the command line and a run."""

import difflib
import errno
import math
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import NoReturn, get_args

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from nzc.app import interrupt
from nzc.app.config import GROUPS, RENAMED, known_keys, options
from nzc.data.files import write_private
from nzc.runs.layout import ERROR
from nzc.validation import InputError, in_a_line, one_line, shortened

#: Whether tracebacks are asked for.
TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"
#: Options of Hydra's groups that need an extra of nzc, and its name.
_EXTRAS = dict(joblib="joblib", submitit_local="submitit", submitit_slurm="submitit", ray="ray", optuna="search")
#: System errors of a disk that is full or broken: failures, where others say that a folder cannot be written.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
#: Parts of messages that mean a lack of memory.
_MEMORY_WORDS = re.compile("(un|not )able to allocate|can.?t allocate|out of memory|map segment|start new thread", re.I)
#: Longer names of files do not exist.
_MOST = 100_000  # values of a YAML file
_LONGEST = 240
_TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}


def stop(code: int, *lines: object) -> NoReturn:
    for line in lines:
        print(f"nzc: {shortened(one_line(str(line)))}", file=sys.stderr)
    sys.exit(code)


def report(error: Exception, private: bool = True, folder: Path | None = None, otherwise: int = 1) -> NoReturn:
    """Print one line for an error (a traceback, if asked for), and exit with its code; see `error_line`.

    KeyboardInterrupt: a signal caused the error.
    """
    if interrupt.stopped():
        raise KeyboardInterrupt from error
    code, line = error_line(error, private, folder, otherwise)
    if TRACEBACK:
        traceback.print_exception(error)
        sys.exit(code)
    stop(code, line)


def error_line(
    error: Exception, private: bool = True, folder: Path | None = None, otherwise: int = 1
) -> tuple[int, str]:
    """Return exit code and line of an error: 2 where the input is wrong, 1 for a failure while running.

    private    whether the line may have the message of a failure, which may be private
    folder     where to leave the line too
    otherwise  the code of an error of unknown kind: 2 before a run begins, where Hydra raises many types
    """
    code, line = 1, machine_fault(error)
    if line is None and type(error).__name__ == "UncompletedJobError":  # submitit's, in a job that is out of time
        line = f"SLURM: {in_a_line(error)}"
    if line is None:
        code, line = 2, _wrong_input(error)
    if line is None:
        said = f": {in_a_line(error)}" if private else ""
        code, line = otherwise, f"{type(error).__name__}{said} (HYDRA_FULL_ERROR=1 shows where)"
    line = shortened(one_line(line))
    if folder is not None:
        with suppress(OSError):  # the disk may be full
            write_private(folder / ERROR, f"{line}\n")
    return code, line


def unwritable(key: str, error: OSError) -> Exception:
    """Return an InputError for a folder, the value of `key`, that cannot be written; `error` itself for a full disk."""
    if error.filename is None or error.errno in _FULL:
        return error
    return InputError(key, error.filename, f"must be a folder that can be written ({error.strerror})")


def machine_fault(error: BaseException) -> str | None:
    """Return the line for what this machine lacks: memory, or a library that can be imported. None: another error.

    An InputError that was made of such an error blames a value in vain, unless it speaks of memory itself.
    """
    chain = list(_chain(error))
    wrong = [each for each in chain if isinstance(each, InputError)]
    if wrong and (wrong[-1].__cause__ is None or "memory" in wrong[-1].allowed.partition("(")[0]):
        return None
    own = str(wrong[-1].value).partition(".")[0] if wrong else ""
    for each in chain:
        if isinstance(each, InputError):
            continue
        few = isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno == errno.ENOMEM)
        if few or _MEMORY_WORDS.search(str(each)):
            return f"not enough memory ({in_a_line(each, 200) or type(each).__name__})"
        frames = [frame for frame, _ in traceback.walk_tb(each.__traceback__)]
        library = str(frames[-1].f_globals.get("__name__")).partition(".")[0] if frames else ""
        if any(frame.f_code.co_name == "<module>" for frame in frames) and library not in ("importlib", own):
            return f"{library} cannot be imported ({type(each).__name__}: {in_a_line(each, 300)})"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that caused it."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen:
        yield following
        seen.append(following)
        following = following.__cause__ or following.__context__


def check_overrides(overrides: list[str], config_dir: str | None = None) -> None:
    """Raise InputError for an unknown key, and for a group that is not given one of its options.

    Hydra would accept an unknown key after +, and it describes the other mistakes in many lines. A person's own groups
    are known: the folders in conf/ of the working directory, and in `config_dir`.
    """
    types = dict(known_keys())
    known = [*types, *GROUPS]
    own = {path.name for home in ("conf", config_dir or "conf") for path in Path(home).glob("*")}
    for override in OverridesParser.create().parse_overrides(overrides):
        key, value = override.key_or_group, override.value()
        if key == "sweeps" and not (override.is_add() or override.is_force_add()):
            raise InputError("sweeps", value, "must be given as +sweeps=NAME")
        group = key in GROUPS or "/" in key or key == "sweeps"
        if group and len(str(value)) > _LONGEST:
            raise InputError(key, value, "must be the name of an option")
        if key in GROUPS and isinstance(value, int | float | dict | None):
            raise InputError(key, value, f"must be one of {', '.join(options(f'conf/{key}'))}")
        inside = [name for name in types if name.startswith(f"{key}.")]
        if inside and not isinstance(value, dict):
            raise InputError(key, value, f"must be given as {', '.join(inside)}")
        below = f"{key.rpartition('.')[0]}."
        in_mapping = key not in types and any(name.startswith(below) for name in types)
        if in_mapping or re.split("[./]", key)[0] not in {*known, *own, "hydra", "sweeps"}:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f": {', '.join(dict.fromkeys(known))}"
            raise InputError(key, value, f"must be a key of nzc{hint}")
        if group and _values_of(Path(config_dir or "conf" if key != "sweeps" else ".") / key / f"{value}.yaml") > _MOST:
            raise InputError(key, value, f"must be a file of at most {_MOST:,} values; its aliases make more")


def _values_of(file: Path) -> float:
    """Return how many values a YAML file holds once its aliases are written out: a kilobyte can hold 10^9."""
    sizes: dict[int, float] = {}

    def size(node: yaml.Node) -> float:
        if id(node) not in sizes:
            sizes[id(node)] = math.inf  # until it is known: an alias inside itself
            inside = node.value if isinstance(node, yaml.CollectionNode) else []
            inside = [part for pair in inside for part in pair] if isinstance(node, yaml.MappingNode) else inside
            sizes[id(node)] = 1 + sum(map(size, inside))
        return sizes[id(node)]

    with suppress(OSError, ValueError, yaml.YAMLError, RecursionError):  # Hydra says what is wrong with it
        tree = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader) if file.is_file() else None
        return 0 if tree is None else size(tree)
    return 0


def _wrong_input(error: Exception) -> str | None:
    """Return the line for wrong input; None for a failure while running."""
    chain = list(_chain(error))
    for each in chain:
        if isinstance(each, InputError):
            return str(each)
    if isinstance(error, OverrideParseException):
        return f"{error.override}: must read key=value ({in_a_line(error.message)})"
    if isinstance(error, MissingConfigException):
        return _missing_option(error)
    for each in chain:
        if isinstance(each, OmegaConfBaseException):
            return _wrong_value(each)
    return in_a_line(error) if isinstance(error, ConfigCompositionException | HydraException) else None


def _missing_option(error: MissingConfigException) -> str:
    group, _, option = (error.missing_cfg_file or "").removesuffix(".yaml").rpartition("/")
    if not group:
        return f"--config-name={option}: must be a whole configuration; its parts are GROUP={option}, +sweeps={option}"
    if option in _EXTRAS:
        return f'{group}={option}: must be installed: pip install "nzc[{_EXTRAS[option]}]"'
    known = ", ".join(error.options or ())
    return f"{group}={option}: must be one of {known}, or of your own files in conf/{group}/ here"


def _wrong_value(error: OmegaConfBaseException) -> str:
    """Return the line for a key or a value that the composed configuration does not accept."""
    key, parent = str(error.full_key or error.key or ""), error.parent_node
    if key == "sweeps":
        return "+sweeps: must name a file that begins with the line # @package _global_"
    if isinstance(error, InterpolationResolutionError):
        typed = OmegaConf.to_container(parent, resolve=False) if OmegaConf.is_dict(parent) else None
        value = typed[error.key] if isinstance(typed, dict) and error.key in typed else "${…}"
        said = in_a_line((error.msg or "").split("full_key:")[0])
        return f"{key}={value}: must be a value that can be resolved ({said})"
    keys = sorted(str(name) for name in parent if str(name)[0] != "_") if OmegaConf.is_dict(parent) else []
    if RENAMED.get(str(error.key)) in keys:
        return f"{key}: is called {key.removesuffix(str(error.key))}{RENAMED[str(error.key)]} now"
    if keys and str(error.key) not in keys:
        near = difflib.get_close_matches(str(error.key), keys, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{key}: must be one of the keys {', '.join(keys)}{hint}"
    found = re.search(r"Value '([^']*)'", str(error))  # OmegaConf keeps the value in the message only
    value = found.group(1) if found else "null" if error.value is None else error.value
    kind = dict(known_keys()).get(key)
    if kind is None:
        return f"{key}={value}: {in_a_line(str(error.msg or error).split('full_key:')[0])}"
    return f"{key}={value}: must be {' or '.join(_TYPES.get(each, 'a mapping') for each in get_args(kind) or (kind,))}"
