"""What a `_target_` may name: the class or function is found and checked before it is called.

docs/trust.md, "What a configuration may do", says the same for users.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig, OmegaConf

from nzc.validation import InputError, in_a_line


class Wanted(NamedTuple):
    """What a key wants. `said` completes the sentence "must be …"; `fits` says whether a class is one."""

    said: str
    fits: Callable[[type], bool]


def derived(*kinds: type) -> Wanted:
    """Return what a key wants that takes objects of these classes."""
    names = " or ".join(kind.__name__ for kind in kinds)
    return Wanted(f"a class derived from {names}", lambda found: issubclass(found, kinds))


def _with(*methods: str, every: bool = False) -> Wanted:
    """Return what a key wants that takes objects with one of the methods, or with every one of them."""
    enough = all if every else any
    return Wanted(
        f"a class with {' and '.join(methods) if every else ' or '.join(methods)}",
        lambda found: enough(any(name in vars(base) for base in found.__mro__) for name in methods),
    )


_ESTIMATOR = _with("fit", "predict", every=True)
_PART_OF_ESTIMATOR = _with("fit", "get_params")
_CALLABLE = _with("__call__")
#: Where no annotation says what a key takes. Such classes only keep their arguments when they are built.
_PART = _with("fit", "get_params", "forward", "__call__")
#: Keys that take a class of torch, wherever they stand.
_OF_TORCH = {
    "network": "torch.nn:Module",
    "optimizer": "torch.optim:Optimizer",
    "schedule": "torch.optim.lr_scheduler:LRScheduler",
}
#: Working directories in which this process has looked for modules: there are several in a notebook or in tests.
_HERE: set[Path] = set()


def wanted_inside(target: Any, outside: Wanted) -> Callable[[str | int], Wanted]:
    """Return what the arguments of `target`, by name or position, want.

    target   the class or function whose arguments they are; None: a mapping without `_target_`
    outside  what is wanted of `target` itself
    """
    if outside in (_ESTIMATOR, _PART_OF_ESTIMATOR):
        return lambda name: _PART_OF_ESTIMATOR
    try:
        parameters = inspect.signature(target, eval_str=True).parameters
    except (TypeError, ValueError, NameError, AttributeError):  # no signature, or annotations for type checkers only
        parameters = {}  # type: ignore[assignment]
    positions = list(parameters)

    def wanted(name: str | int) -> Wanted:
        if isinstance(name, int) and positions:
            name = positions[min(name, len(positions) - 1)]
        if name in _OF_TORCH:
            return derived(resolve_name(_OF_TORCH[str(name)]))
        if name == "estimator":
            return _ESTIMATOR
        if name == "augment":
            return _CALLABLE
        if target is None:
            return outside
        return _of_annotation(parameters[str(name)].annotation) if name in parameters else _PART

    return wanted


def _of_annotation(hint: Any) -> Wanted:
    """Return what an annotation wants of a class: `Noise`, `Screen | None`, `list[Encoder]`, `Callable[..., Any]`."""
    kinds = [kind for kind in _classes(hint) if kind is not NoneType]
    if Callable in kinds:
        return _CALLABLE
    known = all(isinstance(kind, type) and not getattr(kind, "_is_protocol", False) for kind in kinds)
    return derived(*kinds) if known and kinds and not {Any, object, inspect.Parameter.empty} & set(kinds) else _PART


def _classes(hint: Any) -> Iterator[Any]:
    origin = get_origin(hint)
    if origin is None or origin is Callable:
        yield origin or hint
    else:
        for each in get_args(hint):
            yield from _classes(each)


def resolve(target: object, key: str, wanted: Wanted, later: bool) -> Any:
    """Return the class or function that `target` names; InputError: it is not what `key` wants.

    A class must be what is wanted. A function must say so in its return annotation, or be the user's own: of a module
    in the working directory. Modules of the standard library are not imported.

    later  the function is called with a batch afterwards: a function that returns a Tensor will do
    """
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    _HERE.add(Path(here).resolve())
    name, wrong = str(target), "must be the dotted name of a class or function"
    functions = "a function whose return annotation says so, or a function of a module in the working directory"
    refused = InputError(f"{key}._target_", target, f"must be {wanted.said}, {functions}")
    first, *others = re.split("[.:]", name)
    if first in sys.stdlib_module_names or "__main__" in others:  # to import these may run a program
        raise refused
    try:
        found = resolve_name(name)
    except Exception as error:  # the module may fail to import
        raise InputError(f"{key}._target_", target, f"{wrong} ({in_a_line(error)})") from error
    if not (isinstance(found, type) or inspect.isroutine(found)):
        raise InputError(f"{key}._target_", target, wrong)
    own = _is_own(found)
    if isinstance(found, type):
        known = str(found.__module__).partition(".")[0] not in sys.stdlib_module_names
        fits = known and (wanted.fits(found) or (own and wanted in (_PART, _PART_OF_ESTIMATOR)))
    else:
        fits = own or _returns(found, wanted, later)
    if not fits:
        raise refused
    return found


def _is_own(found: Any) -> bool:
    """Return whether a class or function is of a module in the working directory, or of a notebook."""
    name = str(getattr(found, "__module__", "")).partition(".")[0]
    module = sys.modules.get(name)
    paths = getattr(module, "__path__", None) or [getattr(module, "__file__", None) or ""]
    return name == "__main__" or (name != "nzc" and any(Path(path).resolve().parent in _HERE for path in paths))


def _returns(function: Any, wanted: Wanted, later: bool) -> bool:
    """Return whether the return annotation of a function is what is wanted."""
    try:
        said = get_type_hints(function).get("return")
    except (TypeError, NameError, AttributeError):  # no annotations, or for type checkers only
        return False
    if later and wanted is _CALLABLE:
        return f"{getattr(said, '__module__', '')}.{getattr(said, '__name__', '')}" == "torch.Tensor"
    said = get_origin(said) or said
    return isinstance(said, type) and wanted.fits(said)


#: Keys by which Hydra and the logging module name classes, and the classes that nzc needs there. Hydra itself accepts
#: only installed plugins as launcher and sweeper.
_OF_HYDRA = {
    r"callbacks\.\w+\._target_": r"nzc\.app\.(main\.RunHooks|sweep\.SweepHooks)",
    r"(launcher|sweeper)\._target_": r"hydra(_plugins|\._internal\.core_plugins)\.[\w.]+",
    r"sweeper\.sampler\._target_": r"optuna\.samplers\.\w+",
    r"(job|hydra)_logging\.handlers\.\w+\.class": r"logging\.(Stream|Null)Handler",
}

#: Keys of Hydra that would write elsewhere, or call any function, and the value that nzc needs.
_ONLY = {"output_subdir": ".hydra", "sweeper.custom_search_space": None}


@contextmanager
def only_known_classes_in_hydra() -> Iterator[None]:
    """Check every configuration that Hydra composes in this context, before Hydra builds any class of it."""
    load = ConfigLoaderImpl.load_configuration

    def checked(self: ConfigLoaderImpl, *args: Any, **kwargs: Any) -> DictConfig:
        config = load(self, *args, **kwargs)
        _check_hydra(config.hydra, "")
        for key, only in _ONLY.items():
            if (value := OmegaConf.select(config.hydra, key, default=only)) != only:
                raise InputError(f"hydra.{key}", value, f"must be {'null' if only is None else only}")
        return config

    ConfigLoaderImpl.load_configuration = checked  # type: ignore[method-assign]
    try:
        yield
    finally:
        ConfigLoaderImpl.load_configuration = load  # type: ignore[method-assign]


def _check_hydra(node: Any, prefix: str) -> None:
    """Raise InputError where a node of Hydra's own configuration names a class that nzc does not need."""
    for name in node if OmegaConf.is_dict(node) else range(len(node)):
        try:
            value = node[name]
        except Exception:  # ???, or ${hydra:…}, which is known later and is checked where it stands
            continue
        key = f"{prefix}{name}"
        if OmegaConf.is_config(value):
            _check_hydra(value, f"{key}.")
        elif name in ("_target_", "class", "()") and value is not None:
            allowed = next((names for keys, names in _OF_HYDRA.items() if re.fullmatch(keys, key)), "")
            if not re.fullmatch(allowed, str(value)):
                raise InputError(f"hydra.{key}", value, "must not be given: nzc needs no such class")
        elif str(value).startswith("ext://") and value not in ("ext://sys.stdout", "ext://sys.stderr"):
            raise InputError(f"hydra.{key}", value, "must be ext://sys.stdout or ext://sys.stderr")
