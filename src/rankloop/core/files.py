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
        temporary.chmod(_permissions(path))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raise `InvalidInput` unless a file name ends with that of a picture format."""
    if Path(path).suffix.lower() not in PICTURE_SUFFIXES:
        raise InvalidInput(f"--plot {path}: the name must end with .png, .svg or .pdf")


def _permissions(path: Path) -> int:
    """Return the permissions of the replaced file, or those that `open` would give."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, on systems that can open folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    folder = os.environ.get("RANKLOOP_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankloop"
