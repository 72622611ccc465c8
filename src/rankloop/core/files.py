"""Files that are either whole or not there, and the folders of caches."""

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

from rankloop.core.errors import InvalidInput

PICTURES = (".png", ".svg", ".pdf")


def atomic_write(path: Path, data: bytes | str) -> None:
    """Write through a temporary neighbour: whoever looks sees the old file or the whole new one, even after a crash."""
    path = Path(os.path.realpath(path))  # through a link the file that it names, not the link, is replaced
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
    """Raise `InvalidInput` unless the name is that of a picture, before anything is computed."""
    if Path(path).suffix.lower() not in PICTURES:
        raise InvalidInput(f"--plot {path}: the name must end with .png, .svg or .pdf")


def _permissions(path: Path) -> int:
    """Those of the file that is replaced; otherwise what a plain `open` would give, not mkstemp's 0600."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """A rename is durable only once its folder is; systems that cannot open folders do without."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


PACKAGE = Path(__file__).parents[1]


@cache
def source_key() -> str:
    """Changes with any line of the package; `make` computes the same from its files in order."""
    total = hashlib.sha1(usedforsecurity=False)
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: path.relative_to(PACKAGE).as_posix()):
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def cache_folder() -> Path:
    """$RANKLOOP_CACHE, else `rankloop` in $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("RANKLOOP_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankloop"
