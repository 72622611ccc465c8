"""The source stays readable: limits on size, names, parameters and splatted calls. A failure names the offenders."""

import ast
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import rankloop

SOURCE = Path(rankloop.__file__).parent
MAX_PARAMETERS = 10
MAX_KERNEL_PARAMETERS = 8
SHARED_CLASS_NAMES = {"State", "Receipt"}  # every learner has one of each
FRAMEWORK_FOLDERS = ("cli/commands/", "service/http/")  # there typer and FastAPI make options of parameters
KERNEL_DECORATORS = {"kernel", "reassociated"}
SLOW_TO_COMPILE = {"sort", "argsort", "unique", "reshape", "linalg"}  # `linalg` and @ also need SciPy when they compile
# How many there may be. A limit only ever falls: lower it when the number has fallen.
MAX_LINES = 51996
MAX_FILES = 400
MAX_SHARED_NAMES = 0
MAX_SPLATTED_CALLS = 39
MAX_WIDE_FUNCTIONS = 0
MAX_WIDE_KERNELS = 0
MAX_IMPORTS_FROM_OUTSIDE = 0
Function = ast.FunctionDef | ast.AsyncFunctionDef
Nodes = list[tuple[str, ast.AST]]  # with the file that each stands in


@cache
def all_nodes() -> Nodes:
    paths = sorted(SOURCE.rglob("*.py"))
    trees = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    return [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]


def shared_names(nodes: Nodes) -> list[str]:
    """Names of public classes that stand in more than one file."""
    files = defaultdict(set)
    for path, node in nodes:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in SHARED_CLASS_NAMES:
            files[node.name].add(path)
    return [f"{name}: {', '.join(sorted(paths))}" for name, paths in files.items() if len(paths) > 1]


def splatted_calls(nodes: Nodes) -> list[str]:
    """Calls with *arguments, of which nobody sees which parameters they fill."""
    return [
        f"{path}:{node.lineno}: {ast.unparse(node.func)}"
        for path, node in nodes
        if isinstance(node, ast.Call) and any(isinstance(argument, ast.Starred) for argument in node.args)
    ]


def wide_functions(nodes: Nodes) -> list[str]:
    functions = [(path, node) for path, node in nodes if isinstance(node, Function)]
    return [
        _described(path, node)
        for path, node in functions
        if _n_parameters(node) > MAX_PARAMETERS and not path.startswith(FRAMEWORK_FOLDERS)
    ]


def wide_kernels(nodes: Nodes) -> list[str]:
    functions = [(path, node) for path, node in nodes if isinstance(node, Function)]
    return [
        _described(path, node)
        for path, node in functions
        if _is_kernel(node) and _n_parameters(node) > MAX_KERNEL_PARAMETERS
    ]


def slow_kernels(nodes: Nodes) -> list[str]:
    """Sorts (there is `sorted_order`), reshapes, matrix products and text in kernels."""
    kernels = [(path, node) for path, node in nodes if isinstance(node, Function) and _is_kernel(node)]
    return [
        f"{path}:{part.lineno}: {ast.unparse(part)}"
        for path, node in kernels
        for part in ast.walk(node)
        if (isinstance(part, ast.Attribute) and part.attr in SLOW_TO_COMPILE)
        or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.MatMult))
        or isinstance(part, ast.JoinedStr)
    ]


def imports_from_outside(nodes: Nodes) -> list[str]:
    """Imports of what the wheel does not hold."""
    offenders = []
    for path, node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            outside = [module for module in modules if module.split(".")[0] in ("research", "benchmarks", "tests")]
            offenders += [f"{path}:{node.lineno}: {module}" for module in outside]
    return offenders


def _n_parameters(function: Function) -> int:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def silent_kernels(nodes: Nodes) -> list[str]:
    """Kernels without a docstring, which says what their loops compute and which equation of a paper that is."""
    kernels = [(path, node) for path, node in nodes if isinstance(node, Function) and _is_kernel(node)]
    return [f"{path}:{node.lineno}: {node.name}" for path, node in kernels if not ast.get_docstring(node)]


def _is_kernel(function: Function) -> bool:
    names = (decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in function.decorator_list)
    return any(isinstance(name, ast.Name) and name.id in KERNEL_DECORATORS for name in names)


def _described(path: str, function: Function) -> str:
    return f"{path}:{function.lineno}: {function.name} has {_n_parameters(function)} parameters"


@pytest.mark.parametrize(
    ("offenders_of", "limit"),
    [
        (shared_names, MAX_SHARED_NAMES),
        (splatted_calls, MAX_SPLATTED_CALLS),
        (wide_functions, MAX_WIDE_FUNCTIONS),
        (wide_kernels, MAX_WIDE_KERNELS),
        (slow_kernels, 0),
        (silent_kernels, 0),
        (imports_from_outside, MAX_IMPORTS_FROM_OUTSIDE),
    ],
)
def test_offenders_become_fewer(offenders_of: Callable[[Nodes], list[str]], limit: int) -> None:
    offenders = offenders_of(all_nodes())
    assert len(offenders) <= limit, "\n".join([f"{len(offenders)} instead of at most {limit}:", *offenders])


def test_the_package_does_not_grow() -> None:
    lines = {path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    by_length = sorted(lines, key=lambda path: lines[path])
    assert sum(lines.values()) <= MAX_LINES, f"the longest files: {', '.join(by_length[-10:])}"
    assert len(lines) <= MAX_FILES, f"the shortest files: {', '.join(by_length[:20])}"


SAMPLE = """
from research import shop
class A: ...
class B: ...
class _C: ...
class State: ...
@kernel
def f(a, b, c, d, e, f, g, h, i): return np.sort(a @ b)
def g(self, a, b, c, d, e, f, g, h, i, j): ...
def h(a, b, c, d, e, f, g, *, h, i, j, k): ...
f(*a, b)
"""


def test_offenders_are_found() -> None:
    first = [("x.py", node) for node in ast.walk(ast.parse(SAMPLE))]
    nodes = [*first, *(("y.py", node) for node in ast.walk(ast.parse("class B: ...\nclass _C: ...\nclass State: ...")))]
    assert shared_names(nodes) == ["B: x.py, y.py"]
    assert splatted_calls(nodes) == ["x.py:11: f"]
    assert wide_functions(nodes) == ["x.py:10: h has 11 parameters"]
    assert wide_kernels(nodes) == ["x.py:8: f has 9 parameters"]
    assert silent_kernels(nodes) == ["x.py:8: f"]
    assert slow_kernels(nodes) == ["x.py:8: np.sort", "x.py:8: a @ b"]
    assert imports_from_outside(nodes) == ["x.py:2: research"]
