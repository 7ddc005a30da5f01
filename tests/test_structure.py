"""The shape of nzc: no file imports itself by way of others; its density and its size."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

import nzc

HOME = Path(nzc.__file__).parent
#: At most so many thousands of nodes of the syntax tree, which no formatter changes: of accounting
#: and mechanisms, of all else, and of the tests.
SIZES = {"science": 41.8, "else": 124.8, "tests": 121.2}
#: At most so many of each in a thousand lines of code, and in a thousand functions.
DENSITY = {
    "conditional": 12,
    "nested conditional": 0,
    "parallel assignment": 3,
    "walrus": 2,
    "comprehension": 25,
    "text times condition": 0,
    "above 100 columns": 0,
}
FUNCTIONS = {"above 12 branches": 5}
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
BRANCHES = ast.If | ast.For | ast.While | ast.ExceptHandler | ast.IfExp | ast.match_case
TEXTS = {path: path.read_text(encoding="utf-8") for path in HOME.rglob("*.py")}
TREES = {path: ast.parse(text) for path, text in TEXTS.items()}
NODES = [node for tree in TREES.values() for node in ast.walk(tree)]


def test_no_file_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("nzc", "hydra_plugins", cache_dir=None)
    own = [name for name in graph.modules if "nzc" in name]  # not the plugins of others
    imports = {name: graph.find_modules_directly_imported_by(name) for name in own}
    TopologicalSorter(imports).prepare()  # raises CycleError


def test_how_large_the_code_is() -> None:
    sizes: Counter[str] = Counter()
    for path, tree in TREES.items():
        room = path.relative_to(HOME).parts[0]
        part = "science" if room in ("accounting", "mechanisms") else "else"
        sizes[part] += sum(1 for _ in ast.walk(tree))
    for path in (HOME.parent / "tests").rglob("*.py"):
        sizes["tests"] += sum(1 for _ in ast.walk(ast.parse(path.read_bytes())))
    assert {part: size for part, size in sizes.items() if size > 1000 * SIZES[part]} == {}


def test_only_a_named_stream_divides_a_seed() -> None:
    assert not re.findall(r"seed, \d|draw\(\s*\[\d", "".join(TEXTS.values()))


def _kinds(node: ast.AST) -> Iterator[str]:
    """Yield as what in DENSITY a node counts."""
    match node:
        case ast.IfExp():
            yield "conditional"
            if any(isinstance(child, ast.IfExp) for child in ast.iter_child_nodes(node)):
                yield "nested conditional"
        case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple()):
            yield "parallel assignment"
        case ast.NamedExpr():
            yield "walrus"
        case ast.BinOp(ast.List() | ast.JoinedStr() | ast.Constant(str()), ast.Mult(), factor):
            if isinstance(factor, ast.Compare | ast.BoolOp | ast.UnaryOp):
                yield "text times condition"
        case _ if isinstance(node, COMPREHENSIONS):
            yield "comprehension"


def _lines_of_docstring(node: ast.AST) -> int:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    if not documented or ast.get_docstring(node) is None:  # type: ignore[arg-type]
        return 0
    text = node.body[0]  # type: ignore[attr-defined]
    return text.end_lineno - text.lineno + 1  # type: ignore[no-any-return]


def _branches(function: ast.AST) -> int:
    """Return the number of ways through a function, those inside its expressions included."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def test_one_thought_a_line() -> None:
    lines = [line.strip() for text in TEXTS.values() for line in text.splitlines()]
    code = [line for line in lines if line and line[0] != "#"]
    thousands = (len(code) - sum(map(_lines_of_docstring, NODES))) / 1000
    found = Counter(kind for node in NODES for kind in _kinds(node))
    found["above 100 columns"] = sum(
        len(line) > 100 for line in "\n".join(TEXTS.values()).split("\n")
    )
    functions = [node for node in NODES if isinstance(node, ast.FunctionDef)]
    found["above 12 branches"] = sum(_branches(function) > 12 for function in functions)
    rates = {name: found[name] / thousands for name in DENSITY}
    rates |= {name: 1000 * found[name] / len(functions) for name in FUNCTIONS}
    limits = DENSITY | FUNCTIONS
    assert {name: rate for name, rate in rates.items() if rate > limits[name]} == {}
