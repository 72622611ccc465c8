"""What the commands of backups and migration print of a log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rankloop.service.log.replay import ReplayResult
    from rankloop.service.upkeep.backup import Contents


def sizes_of(contents: "Contents") -> str:
    rows, files = contents.rows, contents.n_files
    archive = f", {files} file{'s' if files > 1 else ''} of the archive" if files else ""
    return f"{rows['events']:,} events up to number {contents.last}, {rows['snapshots']:,} snapshots{archive}"


def report_check(results: "Sequence[ReplayResult]", as_json: bool) -> None:
    """Exit code 1 where a snapshot differs."""
    checked, differing = sum(result.checked for result in results), [name for name in results if name.differing]
    if not as_json:
        verdict = f"{', '.join(result.stream for result in differing)} DIFFER" if differing else "the same bit for bit"
        typer.echo(f"replayed {len(results)} rankers: {checked} snapshots checked, {verdict}")
    if differing:
        raise typer.Exit(1)
