"""Errors in one line each; those of the parser in our words, because its own change with its version."""

import re
from typing import Any

from rankloop.cli.app import command_names
from rankloop.core.errors import RankloopError
from rankloop.core.registry import UnknownKind
from rankloop.core.registry.specs import nearest

FRAGMENTS = {
    r"Value error, ": "",
    r"Input should be a valid integer.*": "must be a whole number",
    r"Input should be a valid number.*": "must be a number",
    r"Input should be greater than or equal to (\S+)": r"must be at least \1",
    r"Input should be less than or equal to (\S+)": r"must be at most \1",
}
EXTRAS = {  # by the module that is missed
    "fastapi": "serve",
    "httpx": "serve",
    "lightgbm": "trees",
    "onnx": "onnx",
    "pooch": "data",
    "prometheus_client": "serve",
    "psycopg": "serve",
    "ray": "cluster",
    "sklearn": "data",
    "tantivy": "search",
    "uvicorn": "serve",
}


def one_line(error: BaseException) -> str | None:
    """What a person has to know about a wrong input; None for what is no fault of the input."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, UnknownKind) and "did you mean" not in str(error):
        return f"{error}; one of your own needs --import its_module"
    if isinstance(error, RankloopError | OSError | UnicodeDecodeError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get(str(error.name).partition(".")[0])):
        return f"this needs {error.name}: pip install 'rankloop[{extra}]'"
    if isinstance(error, MemoryError):
        return f"there is not enough memory for this {error}".strip()
    return parser_words(error) if hasattr(error, "format_message") else None


def parser_words(error: Any) -> str:
    """One line for an error of typer, whichever class its version uses."""
    message = str(error.format_message())
    context = getattr(error, "ctx", None)
    command = getattr(context, "command", None)
    name = "" if command is None or command.name in (None, "rankloop") else f" {command.name}"
    more = f"; `rankloop{name} --help` shows how"
    if found := re.match(r"No such command '(.+?)'", message):
        return f"no command {found[1]!r}{nearest(found[1], command_names())}"
    if found := re.match(r"No such option:? '?(-[^'\s]*)", message):
        valid = [option[2:] for param in getattr(command, "params", ()) for option in param.opts if option[:2] == "--"]
        close = nearest(found[1].lstrip("-"), valid)
        meant = re.sub(r"'(\S+)'", r"--\1", close) if "did you mean" in close else more
        return f"no option {found[1]}{meant}"
    if found := re.match(r"Missing (?:argument|option|parameter) '?[{\[]?(.+?)[}\]]?'?\.", message):
        return f"{found[1] if found[1].startswith('-') else found[1].upper()} is missing{more}"
    if found := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)", message):
        return f"too many arguments: {found[1]}{more}"
    return _value(message)


def _value(message: str) -> str:
    option, _, words = message.removeprefix("Invalid value for ").partition(": ")
    if not words or not message.startswith("Invalid value for "):
        return message
    for pattern, ours in FRAGMENTS.items():
        words = re.sub(pattern, ours, words)
    return f"{option.strip(chr(39))}{' ' if words.startswith('must') else ': '}{words}"
