"""The help of the commands as plain text: what they do, arguments, options, examples to copy as they were called."""

import inspect
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest

WIDEST, NAMES = 100, 30  # columns: of a line, and of names beside their explanation
TOGETHER = "\N{NO-BREAK SPACE}"
PARTS = ("Start here", "Experiments", "Your data", "In use")


class Command(TyperCommand):
    """A command whose epilog is one example per line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse those that are too many in our words."""
        ctx.allow_extra_args = True
        extra = super().parse_args(ctx, args)
        if extra:
            raise InvalidInput(f"too many arguments: {' '.join(extra)}; `rankloop {self.name} --help` shows how")
        return extra

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write("\n\n".join(_command_parts(self)))


class Group(TyperGroup):
    """The command line: its commands by what they are for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments name; an unknown one is answered with its neighbours."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise InvalidInput(f"no command {args[0]!r}{nearest(args[0], list(self.commands))}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write("\n\n".join(_group_parts(self)))


def _command_parts(command: Any) -> Iterable[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    usage = " ".join(["rankloop", command.name, "[OPTIONS]", *map(_argument, arguments)])
    yield f"{_title('Usage')} {as_called(usage)}"
    yield from _paragraphs(command.help)
    if arguments:
        yield _section("Arguments", [(_argument(param), _explained(param)) for param in arguments])
    for part in dict.fromkeys(param.rich_help_panel or "Options" for param in options):
        own = [param for param in options if (param.rich_help_panel or "Options") == part]
        lines = [(_option(param), _explained(param)) for param in own]
        yield _section(part, [*lines, ("-h, --help", "Show this.")] if part == "Options" else lines)
    examples = [f"  {as_called(line)}" for line in command.epilog.splitlines()]
    yield "\n".join([_title("Examples" if len(examples) > 1 else "Example"), *examples])


def _group_parts(group: Any) -> Iterable[str]:
    yield f"{_title('Usage')} {program()} COMMAND [OPTIONS]"
    yield from _paragraphs(group.help)
    for part in PARTS:
        commands = [command for command in group.commands.values() if command.rich_help_panel == part]
        yield _section(part, [(command.name, next(iter(_paragraphs(command.help)))) for command in commands], width=13)
    yield _section("Options", [("--version", "Print the version."), ("-h, --help", "Show this.")])
    yield f"{program()} COMMAND --help says more, with examples. To begin: {program()} demo"


def _argument(param: Any) -> str:
    name = param.metavar or str(param.name).upper()
    return name if param.required or name.startswith("[") else f"[{name}]"


def _option(param: Any) -> str:
    """Short form first; a flag takes nothing."""
    names = ", ".join(sorted(param.opts, key=len))
    return names if param.is_flag else f"{names} {param.metavar}"


def _explained(param: Any) -> str:
    default = param.default.value if isinstance(param.default, Enum) else param.default
    shown = getattr(param, "show_default", True) and not getattr(param, "is_flag", False)
    if not shown or default in (None, "") or callable(default):
        return str(param.help)
    text = ", ".join(default) if isinstance(default, list | tuple) else default
    return f"{param.help} " + f"[default: {text}]".replace(" ", TOGETHER)


def _section(title: str, lines: list[tuple[str, str]], width: int = NAMES) -> str:
    column = min(width, max(len(name) for name, _ in lines)) + 4
    return "\n".join([_title(title), *(_entry(name, text, column) for name, text in lines)])


def _entry(name: str, text: str, column: int) -> str:
    """A name and its explanation beside it; below it, where the name is too long."""
    head = f"  {name}".ljust(column)
    wrapped = [line.replace(TOGETHER, " ") for line in textwrap.wrap(text, _width() - column)]
    if len(head) > column:
        wrapped, head = ["", *wrapped], head.rstrip()
    return f"\n{' ' * column}".join([head + wrapped[0], *wrapped[1:]])


def _paragraphs(text: str) -> Iterable[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        yield textwrap.fill(" ".join(paragraph.split()), _width(), break_on_hyphens=False)


def _title(text: str) -> str:
    return str(typer.style(f"{text}:", bold=True))


def _width() -> int:
    return max(40, min(WIDEST, shutil.get_terminal_size().columns))


def program() -> str:
    """`rankloop` where it is on the path, else what was called: `.venv/bin/rankloop`, `python -m rankloop`."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name in ("rankloop", "cli"):
        python = "python" if _is(sys.executable, shutil.which("python")) else _short(Path(sys.executable))
        return f"{python} -m rankloop"
    if called.stem != "rankloop" or _is(called, shutil.which("rankloop")):
        return "rankloop"
    return _short(called)


def as_called(text: str) -> str:
    """The text with its `rankloop COMMAND` as the reader has to type it."""
    from rankloop.cli.app import command_names

    names = "|".join(map(re.escape, command_names()))
    return re.sub(rf"(?<![\w./-])(?<!from )rankloop(?= (?:{names})\b)", lambda _: program(), text)


def _is(path: str | Path, found: str | None) -> bool:
    """Without following links: the Python of every environment is a link to the same file."""
    return found is not None and Path(path).absolute() == Path(found).absolute()


def _short(path: Path) -> str:
    here = Path.cwd()
    whole = path.absolute()
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))
