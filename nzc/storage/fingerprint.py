"""Fingerprints of settings and source code. They form the key under which predictions are stored."""

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

_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))


def source_digest(*modules: str, follow: bool = True) -> str:
    """Return a digest of what these modules do, and (`follow`) of what they import from nzc or
    beside a user's own.
    """
    trees: dict[str, str] = {}
    todo = list(modules)
    homes = [path.parent for path in map(_file, modules) if path]
    while todo:
        if (module := todo.pop()) not in trees:
            path, trees[module] = (
                _file(module),
                "",
            )  # for a name that is no module, or one of others
            if path and (
                module.partition(".")[0] == "nzc" or any(home in path.parents for home in homes)
            ):
                trees[module], imported = _parsed(module, path, path.stat().st_mtime_ns)
                todo += imported if follow else []
    return sha256("".join(trees[module] for module in sorted(trees)).encode()).hexdigest()[:16]


@cache
def _parsed(module: str, path: Path, modified: int) -> tuple[str, list[str]]:
    """Return the syntax tree of a module as text, and the modules with Python source that it
    imports.
    """
    tree, names = ast.parse(path.read_text(encoding="utf-8")), []
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            inside = [f"{base}.{alias.name}" for alias in node.names]
            if base != "nzc" or not all(map(_file, inside)):
                names.append(
                    base
                )  # nzc/__init__.py names all of nzc, which its own modules do not need
            names += inside  # these may be modules themselves
    return ast.dump(tree), [name for name in names if _file(name)]


def describe(value: Any) -> Any:
    """Return settings in JSON types, such that values that behave differently are described
    differently.
    """
    if isinstance(value, int | float | str | None):
        return value
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, partial):
        return {**_named(value.func), "args": describe(value.args), **describe(value.keywords)}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        held = [inner for inner in cells if inner is not value] + (
            [value.__self__] if ismethod(value) else []
        )
        return _named(value) | ({"holds": describe(held)} if held else {})
    if dataclasses.is_dataclass(value):
        return {
            **_named(type(value)),
            **{f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)},
        }
    if hasattr(value, "get_params"):
        usual = {
            key: describe(parameter.default)
            for key, parameter in signature(type(value)).parameters.items()
        }
        given = {key: describe(item) for key, item in value.get_params(deep=False).items()}
        return {
            **_named(type(value)),
            **{k: v for k, v in given.items() if k not in usual or v != usual[k]},
        }
    import joblib

    return {**_named(type(value)), "hash": joblib.hash(value)}


def _named(of: Any) -> dict[str, Any]:
    name, top = f"{of.__module__}.{of.__qualname__}", of.__module__.partition(".")[0]
    if (path := _file(of.__module__)) is not None and not any(
        folder in path.parents for folder in _INSTALLED
    ):
        return {"class": name, "source": source_digest(of.__module__)}
    return {"class": name, "version": getattr(import_module(top), "__version__", None)}


def _file(module: str) -> Path | None:
    """Return the path of a module's Python source; None where there is none, as for a name that is
    no module.
    """
    loaded = getattr(sys.modules.get(module), "__file__", None)
    try:
        path = loaded or getattr(find_spec(module), "origin", None)
    except (ImportError, ValueError):
        return None
    return Path(path) if path is not None and path.endswith(".py") else None
