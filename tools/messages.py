"""Print every message that users read, grouped by file: python tools/messages.py > messages.txt.

The list has the texts of raised errors, of warnings, of lines that commands print, and the help of options. A value
inside a text appears as {…}. Read the list from top to bottom: each message says what is wrong, where, and what to do.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE_FOLDER = Path(__file__).parents[1] / "src" / "rankloop"
PRINTING_CALLS = {"echo", "warn", "option", "log_option", "flag", "argument", "problem", "Problem", "HTTPException"}
MIN_MESSAGE_WORDS = 3


def messages_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every message of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from _texts(node.exc)
        elif isinstance(node, ast.Call) and _called_name(node) in PRINTING_CALLS:
            yield from _texts(node)
        elif isinstance(node, ast.Return | ast.Assign | ast.AnnAssign) and node.value is not None:
            yield from _texts(node.value)


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts inside a node that are long enough to be sentences."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        text = " ".join(_plain(node).split())
        if len(text.split()) >= MIN_MESSAGE_WORDS and "__" not in text:
            yield node.lineno, text
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _plain(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)


def main() -> None:
    """Print the messages of all modules."""
    for path in sorted(SOURCE_FOLDER.rglob("*.py")):
        messages = sorted(set(messages_of(ast.parse(path.read_text(encoding="utf-8")))))
        if messages:
            print(f"\n{path.relative_to(SOURCE_FOLDER.parent)}")
        for line, text in messages:
            print(f"  {line}: {text.encode('utf-8', 'replace').decode()}")


if __name__ == "__main__":
    main()
