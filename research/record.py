"""What a reproduction leaves in its folder: how long it took and what it found, for summaries of many of them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from rankloop.core.errors import InvalidInput
from rankloop.core.files import atomic_write
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.tasks import PACKAGE_VERSION

RECORD_FILE = "finding.json"


class Record(Struct, frozen=True, kw_only=True):
    """One reproduction; `seconds` adds up all sittings until it was finished."""

    id: str
    title: str
    version: str = PACKAGE_VERSION
    quick: bool = False
    finished: bool = True
    seconds: float
    seeds: str = ""
    data: str = ""
    options: str = ""
    missing: tuple[str, ...] = ()
    claims: tuple[Verdict, ...] = ()


def record_of(finding: Finding, quick: bool) -> Record:
    """Return the record of a finding, without its charts.

    Args:
      finding: The finding.
      quick: True for a quick run.
    """
    facts = dict(finding.facts)
    return Record(
        id=finding.id,
        title=finding.title,
        quick=quick,
        seconds=round(finding.seconds or 0.0, 1),
        seeds=facts.get("seeds", ""),
        data=facts.get("data", ""),
        options=facts.get("options", ""),
        missing=finding.missing,
        claims=finding.claims,
    )


def write_record(folder: Path, record: Record) -> None:
    """Write a record to its folder.

    Args:
      folder: The folder.
      record: The record.
    """
    atomic_write(folder / RECORD_FILE, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def read_record(folder: Path) -> Record | None:
    """The record in a folder, None where there is none."""
    path = folder / RECORD_FILE
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{path} is damaged ({error}); delete it") from None


def finished_records(folder: Path) -> list[Record]:
    """Those of all finished reproductions below a results folder, by id."""
    saved_records = [read_record(path.parent) for path in sorted(folder.glob(f"*/{RECORD_FILE}"))]
    return [record for record in saved_records if record is not None and record.finished]


def summary_json(records: Sequence[Record]) -> bytes:
    """One small file about many reproductions, to be kept and read by users and programs."""
    summary = {"seconds": round(sum(record.seconds for record in records), 1), "experiments": list(records)}
    return msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
