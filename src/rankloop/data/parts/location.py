"""Which data stay on the disks and are read by the workers, and where."""

from pathlib import Path

from rankloop.core.errors import NotFound
from rankloop.data.parts.source import SCHEME, PartSource, fit_memory, sources_in
from rankloop.data.public_sets import is_archive, is_published, public_path, published_folds, unpacked


def address_of(data: str, on_cluster: bool, stream: bool) -> str | None:
    """Where the parts lie; None: the data are read into the memory of this process.

    An address, a folder of parts, a folder with a cluster, and whatever is asked to be streamed or needs more memory
    than there is. On a cluster, a path that this machine does not see is left to the workers.
    """
    if SCHEME in data:
        return data
    try:
        path = public_path(data)
        path = unpacked(path) if is_archive(path) else path
    except NotFound:
        if on_cluster:
            return data
        raise
    if stream or (path.is_dir() and (on_cluster or not _has_folds(path))):
        return str(path)
    return None if fit_memory(_files(path)) else str(path)


def _has_folds(folder: Path) -> bool:
    return (folder / "folds.json").is_file() or is_published(folder)


def _files(path: Path) -> list[PartSource]:
    """What training would read; of several folds those of the first, since one is in memory as often as another."""
    if path.is_file() or (path / "folds.json").is_file() or not is_published(path):
        return sources_in(str(path))
    return [source for file in published_folds(path)[0].files for source in sources_in(str(file))]
