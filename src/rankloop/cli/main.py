"""From arguments to an exit code: 0 done, 2 wrong input in one line, 130 interrupted, 1 a defect of rankloop itself."""

import gc
import importlib
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

from rankloop.cli.app import app
from rankloop.cli.help import as_called
from rankloop.cli.messages import one_line

SELDOM = 50_000, 20, 100  # what imports make and the open impressions of a service are many objects, and no garbage


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name, then leave with its exit code."""
    gc.set_threshold(*SELDOM)
    import_commands()
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


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """A warning as one line, without the place in the code."""
    print("rankloop:", " ".join(str(message).split()), file=sys.stderr)


def import_commands() -> None:
    """Each module of the folder adds its command."""
    folder = str(Path(__file__).parent / "commands")
    for module in pkgutil.iter_modules([folder], "rankloop.cli.commands."):
        importlib.import_module(module.name)


def _report(error: Exception) -> int:
    line = one_line(error)
    if os.environ.get("RANKLOOP_TRACEBACK"):
        traceback.print_exception(error)
    if line is None:
        defect = f"{type(error).__name__}: {error}"
        line = f"this is a defect of rankloop, please report it ({defect}); RANKLOOP_TRACEBACK=1 shows where"
        print("rankloop:", " ".join(line.split()), file=sys.stderr)
        return 1
    print("rankloop:", as_called(" ".join(line.split())), file=sys.stderr)
    return 2


def _forget_output() -> None:
    """Nobody reads any more: let the interpreter's last flush go nowhere instead of complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
