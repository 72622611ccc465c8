"""From arguments to an exit code: 0 done, 2 wrong input in one line, 130 interrupted, 1 a defect of rankloop itself."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shlex
import shutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

from rankloop.cli.app import app
from rankloop.cli.messages import parser_words
from rankloop.core.errors import RankloopError
from rankloop.core.registry import UnknownKind


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name, then leave with its exit code."""
    _import_commands()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = app(args=arguments, prog_name="rankloop", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        _forget_output()
        code = 0
    except Exception as error:
        code = _report(error)
    sys.exit(code if isinstance(code, int) else 0)


def one_line(error: BaseException) -> str | None:
    """What a person has to know about a wrong input; None for what is no fault of the input."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, UnknownKind) and "did you mean" not in str(error):
        return f"{error}; one of your own needs --import its_module"
    if isinstance(error, RankloopError | OSError | UnicodeDecodeError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"there is not enough memory for this {error}".strip()
    return parser_words(error) if hasattr(error, "format_message") else None


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """A warning as one line, without the place in the code."""
    print("rankloop:", " ".join(str(message).split()), file=sys.stderr)


def _import_commands() -> None:
    folder = str(Path(__file__).parent / "commands")
    for module in pkgutil.iter_modules([folder], "rankloop.cli.commands."):
        importlib.import_module(module.name)


def _report(error: Exception) -> int:
    line = one_line(error)
    if os.environ.get("RANKLOOP_TRACEBACK"):
        traceback.print_exception(error)
    if line is None:
        what = f"{type(error).__name__}: {error}"
        line = f"this is a defect of rankloop, please report it ({what}); RANKLOOP_TRACEBACK=1 shows where"
        print("rankloop:", " ".join(line.split()), file=sys.stderr)
        return 1
    print("rankloop:", as_called(" ".join(line.split())), file=sys.stderr)
    return 2


def _forget_output() -> None:
    """Nobody reads any more: let the interpreter's last flush go nowhere instead of complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    return re.sub(rf"(?<![\w./-])rankloop(?= (?:{names})\b)", lambda _: program(), text)


def _is(path: str | Path, found: str | None) -> bool:
    """Without following links: the Python of every environment is a link to the same file."""
    return found is not None and Path(path).absolute() == Path(found).absolute()


def _short(path: Path) -> str:
    here = Path.cwd()
    whole = path.absolute()
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))
