"""Published sets of queries: the roles of their files, in a folder, under an address or in an archive.

MSLR-WEB10K and 30K: `Fold1/{train,vali,test}.txt` … Yahoo (C14): `set1.{train,valid,test}.txt`, `set2…`. Istella:
`train.txt`, `vali.txt` (not in all of them) and `test.txt`, in a folder of their own. LETOR: parts that `folds.json`
puts together, `{"Fold1": {"train": ["S1", "S2", "S3"], "vali": "S4", "test": "S5"}, …}`.
"""

import json
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.files import cache_folder
from rankloop.core.registry.specs import nearest
from rankloop.data.folder import given_path
from rankloop.data.parts.source import PartSource, entries_in, read_text

PART_ENDINGS = (".txt", ".txt.gz", ".txt.bz2", ".txt.xz", ".txt.zst")
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz")
FOLD_NAME, SET_FILE = re.compile(r"Fold(\d+)"), re.compile(r"(set\d+)\.train\.txt")
SET_PATH = re.compile(r"(.+)/(set\d+)")
FOLDS_FILE = "folds.json"
TAIL_BYTES = 1 << 18
VALIDATION_NAMES = ("vali", "valid")
ARCHIVE_ERRORS: tuple[type[Exception], ...] = (zipfile.BadZipFile, tarfile.TarError, zlib.error)
ARCHIVE_ERRORS += (EOFError, OSError, RuntimeError, NotImplementedError)
Files = Mapping[str, PartSource]


class FoldFiles(NamedTuple):
    """The files for training, validation (none where the set has none) and test."""

    name: str
    train: tuple[PartSource, ...]
    validation: tuple[PartSource, ...]
    test: tuple[PartSource, ...]

    @property
    def files(self) -> tuple[PartSource, ...]:
        """All files."""
        return self.train + self.validation + self.test

    @property
    def paths(self) -> list[Path]:
        """The paths of all files, on this machine."""
        return [Path(source.address) for source in self.files]


def is_archive(path: Path) -> bool:
    """Return true if a file is a zip or a tar, by its name."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def public_path(name: str) -> Path:
    """Return `given_path`, also of one set of several in a folder (`ltrc/set2`)."""
    try:
        return given_path(name)
    except NotFound:
        if not re.fullmatch(r"set\d+", Path(name).name):
            raise
    return given_path(str(Path(name).parent)) / Path(name).name


def published_folds(path: Path) -> list[FoldFiles]:
    """Find the folds of a folder, an archive or one fold (`FOLDER/Fold2`, `FOLDER/set2`), or raise `NotFound`."""
    if path.is_file() and is_archive(path):
        path = unpacked(path)
    folds = folds_in(str(path))
    if folds:
        return folds
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    close = next((nearest(name, ("Fold1", "train.txt", "set1.train.txt")) for name in names), "")
    usual = f"{FOLDS_FILE}, Fold1 …, set1.train.txt, or train.txt and test.txt (or compressed .txt.gz …)"
    held = f"it has {', '.join(names[:5]) or 'nothing'}{close}"
    raise NotFound(f"{path} is neither a LETOR file nor a folder with {usual}; {held}")


def folds_in(address: str) -> list[FoldFiles]:
    """Find the folds of a set in a folder or under a URL (`…/set2` is one set of several); none if no name tells."""
    address = address.rstrip("/")
    set_path = SET_PATH.fullmatch(address)
    try:
        files, folders = entries_in(address)
    except NotFound:
        if set_path is None:
            raise
        return [_fold(set_path[1], entries_in(set_path[1])[0], set_path[2], f"{set_path[2]}.")]
    if any(source.address == address for source in files.values()):
        return []  # a file
    if FOLDS_FILE in files:
        return _folds_of_list(address, files)
    numbered = sorted((int(match[1]), name) for name in folders if (match := FOLD_NAME.fullmatch(name)))
    if numbered:
        return [_fold(f"{address}/{name}", entries_in(f"{address}/{name}")[0], name) for _, name in numbered]
    sets = sorted({match[1] for name in files if (match := SET_FILE.match(name))})
    if sets:
        return [_fold(address, files, sets[0], f"{sets[0]}.")]
    if _part(files, "train") and _part(files, "test"):
        return [_fold(address, files, PurePosixPath(address).name)]
    return folds_in(f"{address}/{folders[0]}") if len(folders) == 1 and not _part(files, "train") else []


def _fold(address: str, files: Files, name: str, prefix: str = "") -> FoldFiles:
    validation = next((part for role in VALIDATION_NAMES if (part := _part(files, prefix + role))), None)
    train, test = (_find_parts(address, files, [prefix + role]) for role in ("train", "test"))
    return FoldFiles(name, train, () if validation is None else (validation,), test)


def _folds_of_list(address: str, files: Files) -> list[FoldFiles]:
    try:
        table = json.loads(read_text(files[FOLDS_FILE]))
        roles = {name: ([*fold["train"]], [fold["vali"]], [fold["test"]]) for name, fold in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        example = '{"Fold1": {"train": ["S1", "S2", "S3"], "vali": "S4", "test": "S5"}, …}'
        raise InvalidInput(f"{address}/{FOLDS_FILE} should hold {example}: {error}") from None
    return [FoldFiles(name, *(_find_parts(address, files, part) for part in fold)) for name, fold in roles.items()]


def _find_parts(address: str, files: Files, names: Sequence[str]) -> tuple[PartSource, ...]:
    parts = []
    for name in names:
        part = _part(files, name)
        if part is None:
            held = ", ".join(sorted(files)[:5])
            raise NotFound(f"there is no {name}.txt (or compressed .txt.gz …) in {address}; it has {held or 'nothing'}")
        parts.append(part)
    return tuple(parts)


def _part(files: Files, name: str) -> PartSource | None:
    return next((files[name + ending] for ending in PART_ENDINGS if name + ending in files), None)


def unpacked(archive: Path) -> Path:
    """Return a folder with the files of an archive; unpacked once, all of them or none."""
    state = archive.stat()
    target = cache_folder() / "published" / f"{archive.name}-{state.st_size}-{state.st_mtime_ns}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent, prefix=".part-"))
    try:
        shutil.unpack_archive(archive, unfinished, filter=None if archive.suffix.lower() == ".zip" else "data")
        os.replace(unfinished, target)
    except ARCHIVE_ERRORS as error:
        raise InvalidInput(f"{archive.name}: the archive is broken or cut short ({error}); fetch it again") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def refuse_truncated(file: Path) -> None:
    """Raise if the last line of a plain file has no end and fewer features than the others, which have equally many."""
    if file.suffix != ".txt":
        return  # a compressed file has checksums
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - TAIL_BYTES))
        lines = content.read().split(b"\n")
        sizes = [len(line.split()) for line in lines[1:]]
        if len(sizes) < 3 or not sizes[-1] or len(set(sizes[:-1])) > 1 or sizes[-1] >= sizes[0]:
            return
        content.seek(0)
        n_lines = 1 + sum(block.count(b"\n") for block in iter(lambda: content.read(1 << 20), b""))
    fault = f"the last line ends after {sizes[-1]} of {sizes[0]} entries"
    raise InvalidInput(f"{file.name}, line {n_lines}: {fault}: the file is cut short; fetch it again")
