"""Run commands; exit codes: 0 success, 1 a defect of rankloop, 2 wrong input, 130 interrupted."""

import gc
import importlib
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankloop.cli.app import NO_FILE, OPTIONAL_FILES, app
from rankloop.core.errors import RankloopError
from rankloop.core.extras import EXTRA_BY_PACKAGE, missing_extra_message
from rankloop.core.registry import UnknownKind


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, then exit with its exit code."""
    gc.set_threshold(50_000, 20, 100)  # imports and open impressions make many objects that are not garbage
    import_commands()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            arguments = _with_no_file(sys.argv[1:] if arguments is None else arguments)
            code = app(args=arguments, obj=arguments, prog_name="rankloop", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Standard output is redirected to nowhere, so that the last flush into the closed pipe does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        code = _report(error)
    sys.exit(code if isinstance(code, int) else 0)


def _with_no_file(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `-` after options that may have no file where the next argument is an option."""
    filled = list[str]()
    for argument, following in zip(arguments, [*arguments[1:], "--"]):
        filled.append(argument)
        if argument in OPTIONAL_FILES and following.startswith("--"):
            filled.append(NO_FILE)
    return filled


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """Print a warning as one line, without its place in the code."""
    print("rankloop:", " ".join(str(message).split()), file=sys.stderr)


def import_commands() -> None:
    """Import the modules of the folder `commands`; each adds its commands."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent / "commands")], "rankloop.cli.commands."):
        importlib.import_module(module.name)


def _report(error: Exception) -> int:
    line = _one_line(error)
    if os.environ.get("RANKLOOP_TRACEBACK"):
        traceback.print_exception(error)
    if line is None:
        defect, wish = f"{type(error).__name__}: {error}", "please report it, with the output of RANKLOOP_TRACEBACK=1"
        _show_warning(f"this is a defect of rankloop ({defect}): {wish}")
        return 1
    _show_warning(line)
    return 2


def _one_line(error: BaseException) -> str | None:
    """Return the message for a wrong input; None for an error that is not the fault of the input."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, UnknownKind):
        return f"{error}; for your own kind add --import MODULE"
    if isinstance(error, RankloopError | OSError | UnicodeDecodeError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (package := str(error.name).partition(".")[0]) in EXTRA_BY_PACKAGE:
        return missing_extra_message(package)
    if isinstance(error, MemoryError):
        return f"not enough memory for this command {error}".strip()
    return _usage_message(error) if hasattr(error, "format_message") else None


def _usage_message(error: Any) -> str:
    """Return one line for an error of typer, by its attributes, since its classes are private."""
    if similar := getattr(error, "possibilities", None):
        return f"{error.message}; did you mean {' or '.join(similar)}?"
    name = getattr(getattr(getattr(error, "ctx", None), "command", None), "name", None)
    call = "rankloop" if name in (None, "rankloop") else f"rankloop {name}"
    message = error.format_message().rstrip(".")
    return message if message.endswith("?") else f"{message}; see `{call} --help`"
