"""A cache of parsed data sets on disk, by the checksum of their files."""

import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.files import cache_folder
from rankloop.data.dataset import Dataset

CACHE_VERSION = 2  # of the parser and the file; another number makes another copy
CACHE_ERRORS = (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, InvalidInput)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached(sources: list[Path], options: object, parse: Callable[[], Dataset]) -> Dataset:
    """Return the parsed sources, from a copy that an earlier call stored under their checksums.

    A copy that is damaged or of another version is replaced. If the folder cannot be written, the sources are parsed.

    Args:
      sources: The files.
      options: The options of the parser, which are part of the key.
      parse: Parses the files.

    Returns:
      The data set.
    """
    state = _state(sources)
    key = hashlib.sha256(repr([CACHE_VERSION, options, *map(checksum, sources)]).encode()).hexdigest()
    copy = cache_folder() / f"{key}.npz"
    try:
        return _load(copy)
    except CACHE_ERRORS:
        dataset = parse()
    if _state(sources) == state:  # a file that changed meanwhile does not match its checksum
        _store(dataset, copy)
    return dataset


def _state(sources: list[Path]) -> list[tuple[int, int]]:
    stats = [source.stat() for source in sources]
    return [(stat.st_size, stat.st_mtime_ns) for stat in stats]


def _load(copy: Path) -> Dataset:
    with copy.open("rb") as file, np.load(file, allow_pickle=False) as arrays:  # the zip inside checks its own sums
        names = tuple(arrays["query_ids"].tobytes().decode("utf-8").split("\n"))
        features, relevance, offsets = arrays["features"], arrays["relevance"], arrays["offsets"]
    return Dataset(features, relevance, offsets, names if len(offsets) > 1 else ()).checked()


def _store(dataset: Dataset, copy: Path) -> None:
    names = np.frombuffer("\n".join(dataset.query_ids).encode("utf-8"), np.uint8)
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=copy.parent, suffix=".part")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(
                file, features=dataset.features, relevance=dataset.relevance, offsets=dataset.offsets, query_ids=names
            )
        os.replace(unfinished, copy)
    except OSError:
        os.unlink(unfinished)
