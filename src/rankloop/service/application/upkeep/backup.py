"""A backup: one file with the log of a service as it was at one moment, whatever it is kept in.

It is a zip of Parquet tables, the files of the archive and a table of contents with the hash of each, which comes last.
"""

import hashlib
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop import __version__
from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.service.application.upkeep.tables import TABLES, Moment, TableRows, moment_of
from rankloop.service.errors import DamagedArchive
from rankloop.service.log.archive import FOLDER, check_file

FORMAT, VERSION = "rankloop-backup", 1
CONTENTS = "contents.json"
PIECE = 1_000_000  # bytes
TRIES = 3  # while files of the archive are being replaced


class Contents(NamedTuple):
    """What a backup holds, as its last part says."""

    version: int
    rankloop: str
    made: float
    store: str
    log_version: int
    last: int  # event
    rows: dict[str, int]  # by table
    parts: dict[str, str]  # SHA-256 by the name of the part

    @property
    def n_files(self) -> int:
        return sum(name.startswith(f"{FOLDER}/") for name in self.parts)


def back_up(where: str, file: Path, data: Path | None = None) -> Contents:
    """Write the log at `where` as it is now, with its archive, to a file that is not there yet."""
    if file.exists():
        raise Conflict(f"{file} is there already; give the backup a name of its own")
    file.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(TRIES):
        try:
            with moment_of(where, file.parent) as moment, _new_file(file) as written:
                return _write(moment, data or moment.folder, written)
        except DamagedArchive:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


@contextmanager
def _new_file(file: Path) -> Iterator[Path]:
    """A neighbour that takes the name once it is whole and durable; nobody else can read it."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as whole:
            os.fsync(whole.fileno())
        os.link(temporary, file)  # unlike a renaming, this fails where somebody was quicker
    except FileExistsError:
        raise Conflict(f"{file} is there already; give the backup a name of its own") from None
    finally:
        temporary.unlink(missing_ok=True)


def _write(moment: Moment, data: Path, file: Path) -> Contents:
    rows: dict[str, int] = {}
    parts: dict[str, str] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, pieces in moment.tables.items():
            part = f"{name}.parquet"
            with _BackupPart(archive, part) as sink:
                rows[name] = _write_table(sink, name, pieces)
            parts[part] = sink.digest
        for entity, kept in moment.files:
            check_file(data, kept, entity)
            part = f"{FOLDER}/{kept.name}"
            with _BackupPart(archive, part) as sink, (data / FOLDER / kept.name).open("rb") as source:
                while piece := source.read(PIECE):
                    sink.write(piece)
            parts[part] = sink.digest
        contents = Contents(
            version=VERSION,
            rankloop=__version__,
            made=time.time(),
            store=moment.kind,
            log_version=moment.version,
            last=moment.last,
            rows=rows,
            parts=parts,
        )
        archive.writestr(CONTENTS, json.dumps({"format": FORMAT} | contents._asdict(), indent=1))
    return contents


def _write_table(sink: "_BackupPart", name: str, pieces: Iterator[TableRows]) -> int:
    count, schema = 0, TABLES[name]
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for piece in pieces:
            columns = [pa.array(column, field.type) for column, field in zip(zip(*piece), schema)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            count += len(piece)
    return count


class _BackupPart:
    """One part of the zip, written from beginning to end; its hash is known afterwards."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._file = archive.open(name, "w", force_zip64=True)
        self._hash = hashlib.sha256()
        self._size = 0
        self.closed = False

    def __enter__(self) -> "_BackupPart":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, piece: Any) -> int:
        content = bytes(piece)
        self._hash.update(content)
        self._size += len(content)
        self._file.write(content)
        return len(content)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """There is nothing to be flushed before the end."""

    def close(self) -> None:
        """By the part itself."""


class Backup:
    """A backup that is read: everything in it is checked before anything is used."""

    def __init__(self, archive: zipfile.ZipFile, contents: Contents) -> None:
        self._archive = archive
        self.contents = contents

    def pieces(self, name: str) -> Iterator[TableRows]:
        """The rows of a table, in pieces."""
        with self._archive.open(f"{name}.parquet") as part, pq.ParquetFile(part) as table:
            for batch in table.iter_batches(1000):
                yield list(zip(*(column.to_pylist() for column in batch.columns)))

    @contextmanager
    def put_files(self, data: Path) -> Iterator[None]:
        """Write the files of the archive, durably; they go again where what is done with them fails."""
        names = [part for part in self.contents.parts if part.startswith(f"{FOLDER}/")]
        targets = [data / FOLDER / Path(name).name for name in names]
        try:
            for name, target in zip(names, targets):
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._archive.open(name) as part, target.open("xb") as file:
                    while piece := part.read(PIECE):
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
            yield
        except BaseException:
            for target in targets:
                target.unlink(missing_ok=True)
            raise


@contextmanager
def opened_backup(file: Path) -> Iterator[Backup]:
    """A backup, once its version is known and every part has the hash that its contents say."""
    if not file.is_file():
        raise NotFound(f"there is no backup {str(file)!r}")
    try:
        with zipfile.ZipFile(file) as archive:
            contents = _contents(archive, file)
            _check_parts(archive, contents, file)
            yield Backup(archive, contents)
    except zipfile.BadZipFile as error:
        raise InvalidInput(f"{file} is not a whole backup of rankloop: {error}") from None


def _contents(archive: zipfile.ZipFile, file: Path) -> Contents:
    try:
        found = json.loads(archive.read(CONTENTS))
        is_backup = found.pop("format") == FORMAT
        version = int(found["version"])
    except (KeyError, TypeError, ValueError, AttributeError):
        is_backup, version, found = False, 0, {}
    if not is_backup:
        raise InvalidInput(f"{file} is not a backup of rankloop")
    if version > VERSION:
        by = f"made by rankloop {found.get('rankloop')}"
        raise InvalidInput(f"{file} is of format {version}, {by}; this rankloop reads formats up to {VERSION}")
    try:
        return Contents(**found)
    except TypeError as error:
        raise InvalidInput(f"{file} is not a whole backup of rankloop: {error}") from None


def _check_parts(archive: zipfile.ZipFile, contents: Contents, file: Path) -> None:
    if sorted(archive.namelist()) != sorted([CONTENTS, *contents.parts]):
        raise InvalidInput(f"{file} does not hold the parts that it names")
    for name, expected in contents.parts.items():
        if _digest_in(archive, name) != expected:
            raise InvalidInput(f"{file} is damaged: {name} is not what was written; use another backup")


def _digest_in(archive: zipfile.ZipFile, name: str) -> str:
    found = hashlib.sha256()
    with archive.open(name) as part:
        while piece := part.read(PIECE):
            found.update(piece)
    return found.hexdigest()
