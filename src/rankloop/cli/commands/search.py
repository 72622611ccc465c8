"""`rankloop search`: a search box over one's own documents that learns."""

import re
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.output import print_json
from rankloop.core.errors import InvalidInput

VISITOR, DAYS = re.compile(r"[0-9a-f]{32}"), re.compile(r"(\d+(?:\.\d+)?)\s*(?:d|days?)?")
NAMED = 10  # files that could not be read, as the command names them


@command(
    "In use",
    "rankloop search notes/",
    "rankloop search articles.jsonl --id key --title headline --body text",
    "rankloop search notes/ --study",
    "rankloop search notes/ --forget 'a query'",
)
def search(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A folder, or a file of JSON Lines, CSV or Parquet.")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="Where index and log are kept; beside the source by default."),
    ] = None,
    id: Annotated[str, typer.Option("--id", metavar="COLUMN", help="The column of ids, in a file.")] = "id",
    title: Annotated[str, typer.Option("--title", metavar="COLUMN", help="The column of titles.")] = "title",
    body: Annotated[str, typer.Option("--body", metavar="COLUMN", help="The column of texts.")] = "body",
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="COLUMN", help="A column that visitors' segments may like. May be repeated."),
    ] = None,
    engine: Annotated[str | None, typer.Option("--engine", metavar="NAME", help="tantivy or sqlite.")] = None,
    language: Annotated[str, typer.Option("--language", metavar="NAME", help="Whose endings are cut.")] = "english",
    study: Annotated[bool, typer.Option("--study", help="Half of the visitors teach, half compare.")] = False,
    forget: Annotated[
        str | None,
        typer.Option(
            "--forget", metavar="QUERY|VISITOR|DAYS", help="Forget it, and what was learned from it; then end."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port of the page.")] = 8080,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Other than 127.0.0.1 needs keys in RANKLOOP_KEYS.")
    ] = "127.0.0.1",
    browse: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser; --no-open: do not.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Of the swaps.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was indexed or forgotten as JSON.")] = False,
) -> None:
    """A search box over your own documents that becomes better while it is used.

    Texts, Markdown, HTML, reStructuredText, e-mail, JSON Lines, CSV and Parquet are read; what cannot be read is named
    and left out. Changed files are read again at every start, and what was learned stays. Queries are kept in the data
    folder and nowhere else: --forget takes them out again.
    """
    from rankloop.search.box import SearchBox, source_of
    from rankloop.search.local_engine import LocalEngine
    from rankloop.search.routes import SearchCalls
    from rankloop.service.http.server import serve
    from rankloop.service.settings import Settings, environment_keys, keys_file

    folder = data_of(source) if data is None else data
    if forget is not None:
        with SearchBox(
            source, folder, id, title, body, seed, fields=fields or (), engine=engine, language=language
        ) as box:
            count = box.forget(**what_to_forget(forget))
        print_json({"forgotten": count}) if as_json else typer.echo(f"forgotten: {count} searches")
        return
    settings = Settings(host=host, port=port, data=folder, keys=environment_keys(), keys_file=keys_file())
    documents = source_of(source, folder, id, title, body, fields or ())
    opened = LocalEngine(folder, engine, language)
    found = opened.refresh(documents)
    _tell(found, as_json)
    if not found.documents:
        raise InvalidInput(f"{source}: there is no text in it that can be searched")

    def announce(address: str) -> None:
        typer.echo(f"rankloop: searching {found.documents:,} documents on {address}/search, log in {folder}", err=True)
        if browse:
            webbrowser.open(f"{address}/search")

    calls = SearchCalls(opened, documents, found, study=study, seed=seed, fields=tuple(fields or ()))
    serve(settings, announce, addition=calls)


def data_of(source: Path) -> Path:
    """The folder beside a source that index and log are kept in."""
    named = source.resolve() if source.name in ("", "..") else source
    return named.with_name(f"{named.name}-rankloop")


def what_to_forget(text: str) -> dict[str, Any]:
    """A visitor by the name in the log, a number of days, or else a query; `query:`, `visitor:`, `days:` say which."""
    kind, colon, rest = text.partition(":")
    if colon and kind in ("query", "visitor", "days"):
        return {"days": _days(rest)} if kind == "days" else {kind: rest}
    if DAYS.fullmatch(text.strip()):
        return {"days": _days(text)}
    return {"visitor": text} if VISITOR.fullmatch(text) else {"query": text}


def _days(text: str) -> float:
    found = DAYS.fullmatch(text.strip())
    if not found:
        raise InvalidInput(f"--forget: {text.strip()!r:.60} is no number of days")
    return float(found[1])


def _tell(found: Any, as_json: bool) -> None:
    """What was read, and what could not be."""
    if as_json:
        print_json(found._asdict() | {"skipped": dict(found.skipped)})
        return
    typer.echo(
        f"{found.documents:,} documents: {found.added:,} new, {found.changed:,} changed, {found.removed:,} gone",
        err=True,
    )
    for what, reason in list(found.skipped.items())[:NAMED]:
        typer.echo(f"  left out: {what}: {reason}", err=True)
    if len(found.skipped) > NAMED:
        typer.echo(f"  and {len(found.skipped) - NAMED:,} more", err=True)
