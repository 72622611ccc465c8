"""Public sets of queries as they are published: which file is which, in a folder or in an archive.

MSLR-WEB10K and 30K: `Fold1/{train,vali,test}.txt` … Yahoo (C14): `set1.{train,valid,test}.txt`, `set2…`. Istella:
`train.txt`, `vali.txt` (not in all of them) and `test.txt`, in a folder of their own.
"""

import os
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.files import cache_folder
from rankloop.core.registry.specs import nearest
from rankloop.data.folder import given_path

ENDINGS = (".txt", ".txt.gz", ".txt.bz2", ".txt.xz", ".txt.zst")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz")
MEMBER = re.compile(r"(set\d+\.)?(train|vali|valid|test)\.txt(\.(gz|bz2|xz|zst))?")
FOLD, SET = re.compile(r"Fold\d+"), re.compile(r"(set\d+)\.train\.txt")
END_BYTES = 1 << 18
VALIDATION = ("vali", "valid")
BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, OSError, RuntimeError, NotImplementedError)


class PublishedFold(NamedTuple):
    """The files to learn from, to choose on (None: the set has none) and to judge on."""

    name: str
    train: Path
    validation: Path | None
    test: Path

    @property
    def files(self) -> list[Path]:
        """All of them."""
        return [self.train, *([] if self.validation is None else [self.validation]), self.test]


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or a tar, by its name."""
    return path.name.lower().endswith(ARCHIVES)


def public_path(name: str) -> Path:
    """`given_path`, which also knows one set of several in a folder (`ltrc/set2`)."""
    try:
        return given_path(name)
    except NotFound:
        if not re.fullmatch(r"set\d+", Path(name).name):
            raise
    return given_path(str(Path(name).parent)) / Path(name).name


def is_published(path: Path) -> bool:
    """Whether a folder has its queries in parts to train, to choose and to judge on."""
    try:
        return bool(published_folds(path))
    except NotFound:
        return False


def published_folds(path: Path) -> list[PublishedFold]:
    """The folds of a published set: a folder, an archive, one fold of them (`FOLDER/Fold2`, `FOLDER/set2`)."""
    if path.is_file() and is_archive(path):
        path = unpacked(path)
    if not path.exists() and re.fullmatch(r"set\d+", path.name) and path.parent.is_dir():
        return [_fold(path.parent, path.name, f"{path.name}.")]
    if not path.is_dir():
        raise NotFound(f"there is no folder {str(path)!r}")
    numbered = sorted((each for each in path.iterdir() if each.is_dir() and FOLD.fullmatch(each.name)), key=_number)
    if numbered:
        return [_fold(folder, folder.name) for folder in numbered]
    sets = sorted({found[1] for each in path.iterdir() if (found := SET.match(each.name))})
    if sets:
        return [_fold(path, sets[0], f"{sets[0]}.")]
    inside = [each for each in path.iterdir() if each.is_dir()]
    if not _has(path, "train") and len(inside) == 1:
        return published_folds(inside[0])
    if _has(path, "train") or _has(path, "test"):
        return [_fold(path, path.name)]
    names = sorted(each.name for each in path.iterdir())
    close = next((nearest(name, ("Fold1", "train.txt", "set1.train.txt")) for name in names), "")
    raise NotFound(
        f"{path} is neither a LETOR file nor a folder with folds.json, Fold1 …, set1.train.txt, or train.txt and "
        f"test.txt (or packed .txt.gz …); it has {', '.join(names[:5]) or 'nothing'}{close}"
    )


def unpacked(archive: Path) -> Path:
    """The files of an archive that are parts of a set, in the cache folder; unpacked once, all of them or none."""
    state = archive.stat()
    target = cache_folder() / "published" / f"{archive.name}-{state.st_size}-{state.st_mtime_ns}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent, prefix=".part-"))
    name = ""
    try:
        for name, content in _members(archive):
            parts = PurePosixPath(name).parts[-2:]
            to = unfinished.joinpath(*parts)
            if to.exists():
                raise InvalidInput(f"{archive.name} holds {'/'.join(parts)} twice: unpack the one that is meant")
            to.parent.mkdir(exist_ok=True)
            with content, to.open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
        if not any(unfinished.iterdir()):
            raise NotFound(f"{archive.name} holds no train.txt, test.txt or set1.train.txt")
        os.replace(unfinished, target)
    except BROKEN as error:
        where = f"{archive.name}, after {name}" if name else archive.name
        raise InvalidInput(f"{where}: the archive is broken or cut short ({error}); fetch it again") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of every part; nothing else of the archive is looked at."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if MEMBER.fullmatch(PurePosixPath(name).name) and ".." not in PurePosixPath(name).parts:
                    yield name, opened.open(name)
        return
    with closing(tarfile.open(archive, "r|*")) as stream:
        for member in stream:
            parts = PurePosixPath(member.name).parts
            content = stream.extractfile(member) if member.isfile() and MEMBER.fullmatch(parts[-1]) else None
            if content is not None and ".." not in parts:
                yield member.name, content


def refuse_cut(file: Path) -> None:
    """Refuse a plain file whose last line has no end, and fewer features than those before, which all have as many."""
    if file.suffix != ".txt":
        return  # what is packed is checked by its own sums
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - END_BYTES))
        lines = content.read().split(b"\n")
        sizes = [len(line.split()) for line in lines[1:]]
        if len(sizes) < 3 or not sizes[-1] or len(set(sizes[:-1])) > 1 or sizes[-1] >= sizes[0]:
            return
        content.seek(0)
        n_lines = 1 + sum(block.count(b"\n") for block in iter(lambda: content.read(1 << 20), b""))
    raise InvalidInput(
        f"{file.name}, line {n_lines}: the last line ends after {sizes[-1]} of {sizes[0]} entries: the file is cut "
        "short; fetch it again"
    )


def _fold(folder: Path, name: str, prefix: str = "") -> PublishedFold:
    validation = next((part for part in VALIDATION if _has(folder, prefix + part)), None)
    found = None if validation is None else _part(folder, prefix + validation)
    return PublishedFold(name, _part(folder, f"{prefix}train"), found, _part(folder, f"{prefix}test"))


def _has(folder: Path, name: str) -> bool:
    return any((folder / (name + ending)).is_file() for ending in ENDINGS)


def _part(folder: Path, name: str) -> Path:
    for ending in ENDINGS:
        if (folder / (name + ending)).is_file():
            return folder / (name + ending)
    names = ", ".join(sorted(each.name for each in folder.iterdir())[:5])
    raise NotFound(f"there is no {name}.txt (or packed .txt.gz …) in {folder}; it has {names or 'nothing'}")


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("Fold"))
