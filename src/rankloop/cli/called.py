"""How this command line was called, so that a command we print can be copied and run."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path


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
