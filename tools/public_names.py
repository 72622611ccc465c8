"""The names that users call, one per line: python tools/public_names.py > tests/public_names.txt.

Python names, registered kinds with their parameters, commands with their options, HTTP paths with their fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
import typer

import rankloop
from rankloop.cli.app import app
from rankloop.cli.main import import_commands
from rankloop.core.registry import catalogue, entries
from rankloop.service import request_bodies
from rankloop.service.http.app import make_app
from rankloop.service.settings import Settings


def python_names() -> Iterator[str]:
    """Yield the public Python names."""
    folder = Path(rankloop.__file__).parent
    packages = [
        path.name
        for path in sorted(folder.iterdir())
        if (path / "__init__.py").exists() and path.name not in ("adapter", "cli")
    ]
    for name in ["", *packages]:
        module = import_module(f"rankloop.{name}".rstrip("."))
        for member in sorted(getattr(module, "__all__", ())):
            yield f"python {module.__name__}.{member}{_parameters(getattr(module, member))}"
    for cls in (rankloop.Ranker, import_module("rankloop.client").Client):
        for member, value in inspect.getmembers(cls, inspect.isfunction):
            if not member.startswith("_"):
                yield f"python {cls.__module__}.{cls.__name__}.{member}{_parameters(value)}"


def _parameters(thing: object) -> str:
    if not callable(thing):
        return ""
    try:
        names = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(str(each.name) for each in names if each.name != 'self')})"


def kinds() -> Iterator[str]:
    """Yield the registered kinds with their parameters."""
    outside = {entry.kind for entry in entries() if not entry.cls.__module__.startswith("rankloop.")}
    for family, members in catalogue().items():
        for member in members:
            if member["kind"] in outside:
                continue  # registered by research or a test that ran before
            yield f"kind {family} {member['kind']}({', '.join(part['name'] for part in member['parameters'])})"


def commands() -> Iterator[str]:
    """Yield the commands with their options."""
    import_commands()
    group = typer.main.get_command(app)
    for name, command in sorted(_leaves(group, "")):
        options = sorted(option for each in command.params for option in each.opts if option.startswith("--"))
        yield f"command {name}: {' '.join(options)}".rstrip(": ")


def _leaves(command: object, name: str) -> Iterator[tuple[str, object]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    for part, each in (inner or {}).items():
        yield from _leaves(each, f"{name} {part}".strip())


def http() -> Iterator[str]:
    """Yield the HTTP paths with their fields."""
    paths = make_app(Settings(data=Path("never-opened"))).openapi()["paths"]
    for path, methods in sorted(paths.items()):
        yield from (f"http {method.upper()} {path}" for method in sorted(methods))
    for name, body in sorted(vars(request_bodies).items()):
        if isinstance(body, type) and issubclass(body, msgspec.Struct) and body.__struct_fields__:
            yield f"field {name}: {' '.join(body.__struct_encode_fields__)}"


def names() -> list[str]:
    """All of them, in order."""
    return [re.sub(r"\s+", " ", line) for line in (*python_names(), *kinds(), *commands(), *http())]


if __name__ == "__main__":
    print("\n".join(names()))
