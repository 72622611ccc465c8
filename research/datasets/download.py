"""Public data sets from the network, each checked against the checksum of what was meant."""

import hashlib
import importlib
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.files import cache_folder
from rankloop.core.registry.specs import nearest
from rankloop.data.compression import READ_ERRORS, opened

TIMEOUT_SECONDS = 30
ONEDRIVE = "https://api.onedrive.com/v1.0/shares/{}/root/content"


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_all(path: Path) -> bytes:
    """Return the content of a file, decompressed."""
    with opened(path) as file:
        try:
            return file.read()
        except READ_ERRORS as error:
            raise InvalidInput(f"{path.name} is cut short or damaged: {error}") from None


class FetchFailed(RankloopError, OSError):
    """A file could not be fetched, or is not the one that was meant; nothing is left behind."""


class PublicFile(NamedTuple):
    """Address of a public file; sha256 is None if no checksum is published."""

    url: str
    file: str
    sha256: str | None


SOURCES = {
    "mslr-web10k": PublicFile(
        ONEDRIVE.format("s!AtsMfWUz5l8nbOIoJ6Ks0bEMp78"),
        "MSLR-WEB10K.zip",
        "2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba",
    ),
    "mslr-web30k": PublicFile(
        ONEDRIVE.format("s!AtsMfWUz5l8nbXGPBlwD1rnFdBY"),
        "MSLR-WEB30K.zip",
        "08cb7977e1d5cbdeb57a9a2537a0923dbca6d46a76db9a6afc69e043c85341ae",
    ),
    "20newsgroups": PublicFile(
        "https://ndownloader.figshare.com/files/5975967",
        "20news-bydate.tar.gz",
        "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    ),
    "mq2008": PublicFile("https://s3-us-west-2.amazonaws.com/xgboost-examples/MQ2008.rar", "MQ2008.rar", None),
    "reuters21578": PublicFile(
        "https://archive.ics.uci.edu/ml/machine-learning-databases/reuters21578-mld/reuters21578.tar.gz",
        "reuters21578.tar.gz",
        None,
    ),
}


def fetch(
    name: str,
    folder: str | Path | None = None,
    *,
    url: str | None = None,
    sha256: str | None = None,
    trust: bool = False,
) -> Path:
    """The file of a public data set: from the folder when it is there and right, else from the network.

    `folder` is `downloads` in the cache folder unless given. A file without a known checksum is fetched only when you
    pass its `sha256` or say `trust = True`; then its checksum is written beside it, and holds from then on. `url`
    fetches from elsewhere, under any name.
    """
    source = _source(name, url)
    target = (cache_folder() / "downloads" if folder is None else Path(folder)) / source.file
    record = target.with_name(target.name + ".sha256")
    expected = sha256 or source.sha256 or _recorded(record)
    if expected is None and not trust:
        raise InvalidInput(
            f"no checksum is known for {name!r} ({source.url}): pass sha256, or trust=True to accept what comes"
        )
    if expected is None or not target.is_file() or checksum(target) != expected.lower():
        _download(source.url, target, expected)
    record.write_text(checksum(target) + "\n", "ascii")
    return target


def _source(name: str, url: str | None) -> PublicFile:
    if url is not None:
        return PublicFile(url, Path(name).name, None)
    if name not in SOURCES:
        raise InvalidInput(f"no public data set {name!r}{nearest(name, SOURCES)}")
    return SOURCES[name]


def _recorded(record: Path) -> str | None:
    """The checksum written down when the file was first trusted."""
    try:
        return record.read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _download(url: str, target: Path, expected: str | None) -> None:
    pooch = need("pooch", "fetching data sets")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # a wrong one would count as fetched when no checksum is known
    try:
        pooch.retrieve(
            url,
            known_hash=None if expected is None else f"sha256:{expected.lower()}",
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS),
        )
    except ValueError as error:
        raise FetchFailed(f"{url}: what came is not the file that was meant: {error}") from None
    except OSError as error:  # what the network raises is an OSError too
        response = getattr(error, "response", None)
        if response is not None:
            response.close()
        raise FetchFailed(f"{url} could not be fetched: {error}") from None


class MissingPackage(RankloopError, ImportError):
    """A package of the extra `data` is not installed."""


def need(package: str, purpose: str) -> Any:
    """Import a package of the extra `data`, or say plainly how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingPackage(
            f"{purpose} needs the package {package.split('.')[0]!r}: pip install 'rankloop[data]'"
        ) from None
