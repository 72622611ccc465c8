"""The folder of data sets on this machine."""

import os
from pathlib import Path

from rankloop.core.errors import NotFound

FOLDER_VARIABLE = "RANKLOOP_DATA"


def data_folder() -> Path | None:
    """Return the folder of data sets: $RANKLOOP_DATA, else `../shared/data` beside the repository, else None."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named) if Path(named).is_dir() else None
    start = Path.cwd()
    repository = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
    beside = repository.parent / "shared" / "data"
    return beside if beside.is_dir() else None


def absence_notice(name: str) -> str:
    """Return a sentence that says that a data set is missing, why, and what to do."""
    named = os.environ.get(FOLDER_VARIABLE)
    reason = f"{FOLDER_VARIABLE} is {named!r}" if named else f"{FOLDER_VARIABLE} is not set"
    return missing_notice(name).replace(";", f" ({reason});", 1)


def missing_notice(name: str) -> str:
    """Return the sentence for results that are stored, without folders of this machine."""
    return f"{name} is not on this machine; set {FOLDER_VARIABLE} to the folder that holds it"


def data_path(name: str) -> Path:
    """Return a path that exists as it is or inside the data folder; raise `NotFound` with the notice otherwise."""
    path = Path(name).expanduser()
    folder = data_folder()
    candidates = [path] if folder is None or path.is_absolute() else [path, folder / path]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    if path.is_absolute():
        raise NotFound(f"there is no file or folder {name!r}")
    raise NotFound(absence_notice(f"the data {name!r}"))


def given_path(name: str) -> Path:
    """Return `data_path` of a name that a user gave; a missing file is not called a missing data set."""
    try:
        return data_path(name)
    except NotFound:
        if Path(name).suffix:
            raise NotFound(f"there is no file {name!r}") from None
        raise
