"""Which data stay on the disks and are read by the workers, and where."""

from pathlib import Path

from rankloop.core.errors import NotFound
from rankloop.data.folder import given_path
from rankloop.data.parts.memory import fit_memory
from rankloop.data.parts.source import SCHEME, Source, sources_in


def address_of(data: str, on_cluster: bool, stream: bool) -> str | None:
    """Where the parts lie; None: the data are read into the memory of this process.

    An address, a folder of parts, a folder with a cluster, and whatever is asked to be streamed or needs more memory
    than there is. On a cluster, a path that this machine does not see is left to the workers.
    """
    if SCHEME in data:
        return data
    try:
        path = given_path(data)
    except NotFound:
        if on_cluster:
            return data
        raise
    if stream or (path.is_dir() and (on_cluster or not _has_folds(path))):
        return str(path)
    return None if fit_memory(_files(path)) else str(path)


def _has_folds(folder: Path) -> bool:
    return (folder / "folds.json").is_file() or any(each.is_dir() for each in folder.glob("Fold*"))


def _files(path: Path) -> list[Source]:
    """What training would read; of folders Fold1 … those of the first, since one is in memory as often as another."""
    try:
        return sources_in(str(path))
    except NotFound:
        return [source for folder in path.glob("Fold*") for source in sources_in(str(folder))]
