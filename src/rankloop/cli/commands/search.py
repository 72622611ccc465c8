"""`rankloop search`: a search box over one's own documents that learns."""

import re
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Host, Port, argument, flag, option
from rankloop.cli.output import print_json
from rankloop.core.errors import InvalidInput

VISITOR, DAYS = re.compile(r"[0-9a-f]{32}"), re.compile(r"(\d+(?:\.\d+)?)\s*(?:d|days?)?")
MAX_SKIPPED = 10  # files that could not be read, as the command names them


@command(
    "In use",
    "rankloop search notes/",
    "rankloop search articles.jsonl --column id=key --column title=headline --column body=text",
    "rankloop search notes/ --study",
    "rankloop search notes/ --forget 'a query'",
)
def search(
    source: Annotated[Path, argument("SOURCE", "A folder, or a file of JSON Lines, CSV or Parquet.")],
    data: Annotated[
        Path | None, option("--data", "FOLDER", "Where index and log are kept; beside the source by default.")
    ] = None,
    columns: Annotated[
        list[str] | None, option("--column", "PART=NAME", "The column of id, title or body, if not called so.")
    ] = None,
    fields: Annotated[
        list[str] | None, option("--field", "COLUMN", "A column that visitors' segments may like. May be repeated.")
    ] = None,
    engine: Annotated[str | None, option("--engine", "NAME", "tantivy or sqlite.")] = None,
    language: Annotated[str, option("--language", "NAME", "Whose endings are cut.")] = "english",
    study: Annotated[bool, flag("--study", "Half of the visitors teach, half compare.")] = False,
    forget: Annotated[
        str | None, option("--forget", "QUERY|VISITOR|DAYS", "Forget it, and what was learned from it; then end.")
    ] = None,
    port: Port = 8080,
    host: Host = "127.0.0.1",
    browse: Annotated[bool, flag("--open/--no-open", "Open the page in a browser; --no-open: do not.")] = True,
    seed: Annotated[int, option("--seed", "N", "Of the swaps.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """A search box over your own documents that becomes better while it is used.

    Texts, Markdown, HTML, reStructuredText, e-mail, JSON Lines, CSV and Parquet are read; what cannot be read is named
    and left out. Changed files are read again at every start, and what was learned stays. Queries are kept in the data
    folder and nowhere else: --forget takes them out again.
    """
    from rankloop.search.box import SearchBox, data_beside, source_of
    from rankloop.search.local_engine import LocalEngine
    from rankloop.search.routes import SearchPage
    from rankloop.service.http.server import serve
    from rankloop.service.settings import Settings, environment_keys, keys_file

    folder = data or data_beside(source)
    parts: Any = columns_of(columns or ())
    names = tuple(fields or ())
    if forget is not None:
        with SearchBox(source, folder, fields=names, engine=engine, language=language, seed=seed, **parts) as box:
            count = box.forget(**what_to_forget(forget))
        print_json({"forgotten": count}) if as_json else typer.echo(f"forgotten: {count} searches")
        return
    settings = Settings(host=host, port=port, data=folder, keys=environment_keys(), keys_file=keys_file())
    documents = source_of(source, folder, parts, names)
    page = SearchPage(LocalEngine(folder, engine, language), documents, study=study, seed=seed, fields=names)
    _show_refresh(page.found, as_json)

    def announce(address: str) -> None:
        n = page.found.documents
        typer.echo(f"rankloop: searching {n:,} documents on {address}/search, log in {folder}", err=True)
        if browse:
            webbrowser.open(f"{address}/search")

    serve(settings, announce, addition=page)


def columns_of(texts: Any) -> dict[str, str]:
    """Return the columns of `--column`, each part=name, by part."""
    columns = dict(text.partition("=")[::2] for text in texts)
    for part, name in columns.items():
        if part not in ("id", "title", "body") or not name:
            raise InvalidInput(f"--column {part}={name}: give id=NAME, title=NAME or body=NAME")
    return columns


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


def _show_refresh(found: Any, as_json: bool) -> None:
    """What was read, and what could not be."""
    if as_json:
        print_json(found._asdict() | {"skipped": dict(found.skipped)})
        return
    typer.echo(
        f"{found.documents:,} documents: {found.added:,} new, {found.changed:,} changed, {found.removed:,} gone",
        err=True,
    )
    for what, reason in list(found.skipped.items())[:MAX_SKIPPED]:
        typer.echo(f"  left out: {what}: {reason}", err=True)
    if len(found.skipped) > MAX_SKIPPED:
        typer.echo(f"  and {len(found.skipped) - MAX_SKIPPED:,} more", err=True)
