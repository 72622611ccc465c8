"""The reference page of the command line, made from the commands themselves."""

from __future__ import annotations

import inspect
from typing import Any

import typer

from rankloop.cli.app import app
from rankloop.cli.main import import_commands

INTRODUCTION = """# Command line

Every command with its options and examples, as `rankloop COMMAND --help` prints them.
Exit codes: 0 success, 1 a defect of rankloop, 2 wrong input, 130 interrupted."""


def page() -> str:
    """Return the page as Markdown."""
    commands = commands_by_part()
    overview = ["| command | purpose |", "|---|---|"]
    for members in commands.values():
        overview += [f"| [`{name}`](#{name}) | {_summary(command)} |" for name, command in members.items()]
    sections = [_section(name, command) for members in commands.values() for name, command in members.items()]
    return "\n\n".join([INTRODUCTION, "\n".join(overview), *sections]) + "\n"


def commands_by_part() -> dict[str, dict[str, Any]]:
    """Return the commands by their part of `rankloop --help`."""
    import_commands()
    group: Any = typer.main.get_command(app)
    parts: dict[str, dict[str, Any]] = {}
    for name, command in group.commands.items():
        parts.setdefault(command.rich_help_panel, {})[name] = command
    return parts


def _section(name: str, command: Any) -> str:
    _, _, details = inspect.cleandoc(command.help).partition("\n\n")
    parts = [f"## {name} {{#{name}}}", f"**{_summary(command)}**", details]
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        parts.append("\n".join(["| option | meaning | default |", "|---|---|---|", *rows]))
    parts.append(f"```console\n{_prompted(command.epilog or '')}\n```")
    return "\n\n".join(part for part in parts if part)


def _summary(command: Any) -> str:
    return inspect.cleandoc(command.help).partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    metavar = "" if getattr(parameter, "is_flag", False) else parameter.metavar or ""
    call = " ".join(filter(None, [" / ".join(names), metavar])).replace("|", "\\|")
    meaning = (getattr(parameter, "help", None) or "").replace("|", "\\|")
    if parameter.envvar:
        meaning += f" Environment: `{parameter.envvar}`."
    return f"| `{call}` | {meaning} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    is_empty = value is None or value is False or value in ((), [])
    return "" if is_empty else f"`{value}`"


def _prompted(examples: str) -> str:
    return "\n".join(f"$ {line}" for line in examples.splitlines())
