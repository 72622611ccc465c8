"""Atomic writing of files, and the folders of caches."""

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

from rankloop.core.errors import InvalidInput

PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


def atomic_write(path: Path, data: bytes | str) -> None:
    """Write a file through a temporary one, so that readers see the old or the new contents, even after a crash.

    Args:
      path: The file.
      data: The contents; text is written as UTF-8.
    """
    path = Path(os.path.realpath(path))  # a symbolic link stays, its target is replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    content = data.encode() if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)  # as those of `open`
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # a system that can open folders, which makes the renaming durable
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raise `InvalidInput` unless a file name ends with that of a picture format."""
    if Path(path).suffix.lower() not in PICTURE_SUFFIXES:
        raise InvalidInput(f"--plot {path}: the name must end with .png, .svg or .pdf")


PACKAGE_FOLDER = Path(__file__).parents[1]


@cache
def source_key() -> str:
    """Return a hash of the package's source, which `make` computes in the same way."""
    total = hashlib.sha1(usedforsecurity=False)
    for path in sorted(PACKAGE_FOLDER.rglob("*.py"), key=lambda path: path.relative_to(PACKAGE_FOLDER).as_posix()):
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def cache_folder() -> Path:
    """Return $RANKLOOP_CACHE, else `rankloop` in $XDG_CACHE_HOME or ~/.cache."""
    general = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("RANKLOOP_CACHE") or general / "rankloop")
