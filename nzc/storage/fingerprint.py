"""Fingerprints of settings and source code, which form the key of stored predictions."""

import ast
import dataclasses
import sys
import sysconfig
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec, resolve_name
from inspect import ismethod, signature
from pathlib import Path
from typing import Any

from nzc.validation import Tree

_INSTALLED = set(map(Path, map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))))


def source_digest(*modules: str, follow: bool = True) -> str:
    """Return a digest of what these modules do, and (`follow`) of the modules that they import.

    Only modules of nzc count, and those beside one of a user's own `modules`.
    """
    homes = {path.parent for path in map(_file, modules) if path is not None}
    trees: dict[str, str] = {}
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module in trees:
            continue
        trees[module] = ""
        path = _file(module)
        if path is None:
            continue
        if module.partition(".")[0] == "nzc" or not homes.isdisjoint(path.parents):
            trees[module], imported = _parsed(module, path, path.stat().st_mtime_ns)
            if follow:
                todo += imported
    text = "".join(dict(sorted(trees.items())).values())
    return sha256(text.encode()).hexdigest()[:16]


@cache
def _parsed(module: str, path: Path, modified: int) -> tuple[str, list[str]]:
    """Return the syntax tree of a module as text, and the modules in Python that it imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module.rpartition(".")[0]
    if path.name == "__init__.py":
        package = module
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            inside = [f"{base}.{alias.name}" for alias in node.names]
            names += inside  # these may be modules themselves
            # nzc/__init__.py names all of nzc, which nzc's own modules do not need
            if base != "nzc" or not all(map(_file, inside)):
                names.append(base)
    return ast.dump(tree), list(filter(_file, names))


def describe(value: Any) -> Any:
    """Return settings in JSON types. Values that behave differently are described differently."""
    if isinstance(value, int | float | str | None):
        return value
    if isinstance(value, list | tuple):
        return list(map(describe, value))
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, partial):
        arguments = {"args": value.args, **value.keywords}
        return _named(value.func) | describe(arguments)
    if callable(value) and hasattr(value, "__qualname__"):  # a class, function or method
        return _named(value) | _held_by(value)
    if dataclasses.is_dataclass(value):
        settings = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _named(type(value)) | describe(settings)
    if hasattr(value, "get_params"):
        return _named(type(value)) | _changed_parameters(value)
    import joblib

    return _named(type(value)) | {"hash": joblib.hash(value)}


def _held_by(function: Any) -> Tree:
    """Return what a function takes from its closure, and the object that a method belongs to."""
    cells = getattr(function, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells if cell.cell_contents is not function]
    if ismethod(function):
        held.append(function.__self__)
    return {"holds": describe(held)} if held else {}


def _changed_parameters(estimator: Any) -> Tree:
    """Return the parameters of a scikit-learn estimator that differ from their defaults."""
    given: Tree = describe(estimator.get_params(deep=False))
    for name, parameter in signature(type(estimator)).parameters.items():
        if name in given and given[name] == describe(parameter.default):
            del given[name]
    return given


def _named(kind: Any) -> Tree:
    """Return the name of a class or function, and its source, or the version of its package."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    path = _file(kind.__module__)
    if path is not None and _INSTALLED.isdisjoint(path.parents):
        return {"class": name, "source": source_digest(kind.__module__)}
    package = import_module(kind.__module__.partition(".")[0])
    return {"class": name, "version": getattr(package, "__version__", None)}


def _file(module: str) -> Path | None:
    """Return the path of a module's source in Python; None: it has none, or is no module."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    try:
        path = loaded or getattr(find_spec(module), "origin", None)
    except (ImportError, ValueError):
        return None
    if path is None or not path.endswith(".py"):
        return None
    return Path(path)
