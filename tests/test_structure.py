"""The shape of nzc: no file imports itself by way of others."""

import ast
from collections.abc import Iterator
from pathlib import Path

import nzc

HOME = Path(nzc.__file__).parent
TEXTS = {
    path.relative_to(HOME).as_posix(): path.read_text(encoding="utf-8")
    for path in HOME.rglob("*.py")
}
#: The file of a module's name.
FILES = {
    f"nzc/{name}".removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
    for name in TEXTS
}


def _imports(text: str) -> Iterator[str]:
    """Yield the files of nzc that a file imports: at its top, inside functions, and for type
    checkers only.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = node.module or ""
            modules = [
                name if (name := f"{parent}.{alias.name}") in FILES else parent
                for alias in node.names
            ]
        else:
            continue
        yield from (FILES[module] for module in modules if module in FILES)


def _in_circles(imports: dict[str, set[str]]) -> set[str]:
    """Return the files that reach themselves; what reaches none of them, or only files that do not,
    is left out.
    """
    reached = {name: set(direct) for name, direct in imports.items()}
    for middle in reached:  # Warshall's transitive closure
        for name in reached:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    return {name for name in reached if name in reached[name]}


def test_no_file_imports_itself_by_way_of_others() -> None:
    assert _in_circles({name: set(_imports(text)) for name, text in TEXTS.items()}) == set()
