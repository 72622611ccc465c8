"""`rankloop search`: serve a search box over documents; its ranking learns from clicks."""

import os
import re
import secrets
import webbrowser
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Host, Port, Seed, argument, option
from rankloop.cli.output import print_json
from rankloop.core.errors import InvalidInput

VISITOR_PATTERN = re.compile(r"[0-9a-f]{32}")
DAYS_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(?:d|days?)?")
COLUMN_PARTS = ("id", "title", "body", "at", "words", "vector")  # the last three of running engines only
MAX_SKIPPED_LISTED = 10  # files that could not be read
ORIGINS_HELP = "A web page elsewhere that may search and show this page in a frame. Repeatable."
SOURCE_HELP = "A folder, or a file of JSON Lines, CSV or Parquet; none with --engine NAME=URL."
COLUMNS_HELP = "The column of id, title, body or at, if it has another name. Repeatable."


@command("In use")
def search(
    source: Annotated[Path | None, argument("SOURCE", SOURCE_HELP)] = None,
    data: Annotated[Path | None, option("--data FOLDER", "Folder of index and log. Default: beside SOURCE.")] = None,
    columns: Annotated[list[str] | None, option("--column PART=NAME", COLUMNS_HELP)] = None,
    fields: Annotated[list[str] | None, option("--field COLUMN", "Column to cross with segments. Repeatable.")] = None,
    engine: Annotated[str | None, option("--engine NAME=URL", "A running engine in place of SOURCE.")] = None,
    language: Annotated[str, option("--language NAME", "Stemming language; auto: guessed by document.")] = "auto",
    meaning: Annotated[str, option("--meaning NAME", "Search by meaning: lsa, wordllama or off.")] = "lsa",
    remember_visitors: Annotated[bool, option("--remember-visitors", "Learn for each visitor, too.")] = False,
    watch: Annotated[bool, option("--watch", "Read files again when they change.")] = False,
    mcp: Annotated[str | None, option("--mcp stdio|http", "Serve agents by the Model Context Protocol.")] = None,
    origins: Annotated[list[str] | None, option("--allow-origin ORIGIN", ORIGINS_HELP)] = None,
    study: Annotated[bool, option("--study", "Learn from half of the visitors, compare orders on the others.")] = False,
    forget: Annotated[str | None, option("--forget QUERY|VISITOR|DAYS", "Forget these searches, then stop.")] = None,
    port: Port = 8080,
    host: Host = "127.0.0.1",
    browse: Annotated[bool, option("--open/--no-open", "Open the page in a browser.")] = True,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Serve a search box over your documents whose ranking learns from clicks.

    It reads text, Markdown, HTML, reStructuredText, e-mail, JSON Lines, CSV and Parquet; files that cannot be read are
    listed and left out. Changed files are read again at every start; what was learned is kept. Queries are stored in
    the data folder only; --forget deletes them.
    """
    from rankloop.logs.columns import named_columns
    from rankloop.search.box import OpenedEngine, SearchBox, data_beside
    from rankloop.search.routes import SearchPage
    from rankloop.service.http.server import serve
    from rankloop.service.settings import Settings, keys_from

    data = data or (Path("rankloop-search") if source is None else data_beside(source))
    names, parts = tuple(fields or ()), named_columns(columns or [], COLUMN_PARTS)
    new_box = partial(SearchBox, source, data, columns=parts, seed=seed, fields=names, engine=engine, language=language)
    if forget is not None:
        with new_box(meaning="off") as box:
            count = box.forget(**_forget_options(forget))
        print_json({"forgotten": count}) if as_json else typer.echo(f"deleted searches: {count}")
        return
    if mcp is not None:
        from rankloop.search.integrations.agent_server import make_agent_server

        if mcp not in ("stdio", "http") or watch or study or origins:
            raise InvalidInput(f"--mcp {mcp!r:.40}: give stdio or http, without --watch, --study or --allow-origin")
        with new_box(meaning=meaning, remember_visitors=remember_visitors) as box:
            server = make_agent_server(box, secrets.token_hex(16) if mcp == "stdio" else "")
            server.run("stdio") if mcp == "stdio" else server.run("streamable-http", host="127.0.0.1", port=port)
        return
    keys, file = keys_from(os.environ.get("RANKLOOP_KEYS", "")), os.environ.get("RANKLOOP_KEYS_FILE")
    settings = Settings(host=host, port=port, data=data, keys=keys, keys_file=Path(file) if file else None)
    opened = OpenedEngine.of(source, engine, data, parts, names, language, meaning)
    page = SearchPage(
        opened.engine,
        opened.source,
        study=study,
        seed=seed,
        fields=names,
        remember_visitors=remember_visitors,
        origins=origins or (),
    )
    if watch:
        page.watch()
    _show_refresh(page.last_refresh, as_json)

    def announce(address: str) -> None:
        n = page.last_refresh.documents
        typer.echo(f"rankloop: searching {n:,} documents on {address}/search, log in {data}", err=True)
        if browse:
            webbrowser.open(f"{address}/search")

    serve(settings, announce, addition=page)


def _forget_options(text: str) -> dict[str, Any]:
    """Read --forget: a visitor id, a number of days or a query; the prefixes query:, visitor: and days: decide."""
    kind, colon, value = text.partition(":")
    if colon and kind in ("query", "visitor", "days"):
        return {"days": _days(value)} if kind == "days" else {kind: value}
    if DAYS_PATTERN.fullmatch(text.strip()):
        return {"days": _days(text)}
    return {"visitor": text} if VISITOR_PATTERN.fullmatch(text) else {"query": text}


def _days(text: str) -> float:
    match = DAYS_PATTERN.fullmatch(text.strip())
    if not match:
        raise InvalidInput(f"--forget: {text.strip()!r:.60} is not a number of days: write days:30")
    return float(match[1])


def _show_refresh(refresh: Any, as_json: bool) -> None:
    """Print the numbers of documents, and the files that could not be read."""
    if as_json:
        print_json(refresh._asdict() | {"skipped": dict(refresh.skipped)})
        return
    changes = f"{refresh.added:,} new, {refresh.changed:,} changed, {refresh.removed:,} removed"
    lines = [f"{refresh.documents:,} documents: {changes}"]
    lines += [f"  left out: {name}: {reason}" for name, reason in islice(refresh.skipped.items(), MAX_SKIPPED_LISTED)]
    if len(refresh.skipped) > MAX_SKIPPED_LISTED:
        lines.append(f"  and {len(refresh.skipped) - MAX_SKIPPED_LISTED:,} more")
    typer.echo("\n".join(lines), err=True)
