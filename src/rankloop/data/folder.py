"""Where data sets lie on this machine."""

import os
from pathlib import Path

from rankloop.core.errors import NotFound

VARIABLE = "RANKLOOP_DATA"


def data_folder() -> Path | None:
    """The folder of data sets: $RANKLOOP_DATA, else `../shared/data` beside the repository, else None."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named) if Path(named).is_dir() else None
    beside = _repository(Path.cwd()).parent / "shared" / "data"
    return beside if beside.is_dir() else None


def absence_notice(wanted: str) -> str:
    """One plain sentence for people whose machine lacks a data set, with what to do about it."""
    named = os.environ.get(VARIABLE)
    reason = f"{VARIABLE} is {named!r}" if named else f"{VARIABLE} is not set"
    return missing_notice(wanted).replace(";", f" ({reason});", 1)


def missing_notice(wanted: str) -> str:
    """The same for results that are kept: it names no folder of this machine."""
    return f"{wanted} is not on this machine; set {VARIABLE} to the folder that holds it"


def data_path(name: str) -> Path:
    """A path that exists as given, or inside the data folder; `NotFound` with the notice otherwise."""
    given = Path(name).expanduser()
    folder = data_folder()
    candidates = [given] if folder is None or given.is_absolute() else [given, folder / given]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise NotFound(absence_notice(f"the data {name!r}"))


def given_path(name: str) -> Path:
    """`data_path` for what a person names: a missing file is called so, only the name of a data set gets the notice."""
    try:
        return data_path(name)
    except NotFound:
        if Path(name).suffix:
            raise NotFound(f"there is no file {name!r}") from None
        raise


def _repository(start: Path) -> Path:
    """The nearest folder upwards that is a repository, or `start` itself."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
