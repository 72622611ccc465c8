"""The commands of `python -m research`: reproduce, list, shop and search-study."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from rankloop.cli.options import AsJson, EngineChoice, Out, Quick, Workers, engine_of, interruptible
from rankloop.cli.output import print_json, progress_bar, show_claims, show_table
from rankloop.core.errors import RankloopError
from rankloop.experiments.report.html import write_report
from rankloop.experiments.report.model import Finding
from research import registry
from research.front_page import claim_counts, duration
from research.options import Options
from research.search.collection import collection
from research.search.visitor_study import DEFAULT_VISITS as STUDY_VISITS
from research.search.visitor_study import simulated
from research.shop.demo import DEFAULT_VISITS as SHOP_VISITS
from research.shop.demo import shop_finding

MAX_CHANCE_P_VALUE = 0.05
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="The seed of everything that is drawn.")]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Reproductions of papers, a simulated shop and search studies.",
)


@app.command()
def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Figures and tables by their ids; all of them by default."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, as without an id.")] = False,
    quick: Quick = False,
    out: Out = None,
    engine: EngineChoice = "local",
    workers: Workers = None,
    rounds: Annotated[int | None, typer.Option(metavar="N", help="Rounds of each run.")] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Runs of each learner.")] = None,
    data: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A data set; may be repeated.")] = None,
    topics: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A topic of a collection, or all.")] = None,
    items: Annotated[int | None, typer.Option(metavar="N", help="The number of candidates in a list.")] = None,
    empty: Annotated[
        str | None, typer.Option(metavar="RULE", help="The value of a list without a relevant item: skip, zero or one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute figures and tables of the papers again, and say which of their claims hold.

    `python -m research list` shows the ids. Results go to results/reproduce unless --out says otherwise: one report,
    and summary.json over everything that is finished there. After an interruption the same command goes on. A figure
    refuses the options --rounds, --seeds, --data, --topics, --items and --empty that it does not have.
    """
    chosen = [registry.find(id) for id in ids or ()] if not everything else []
    options = Options(
        rounds=rounds, seeds=seeds, data=tuple(data or ()), topics=tuple(topics or ()), items=items, empty=empty
    )
    with interruptible():
        findings, report = registry.reproduce_into(
            out or Path("results") / ("reproduce-quick" if quick else "reproduce"),
            chosen or list(registry.everything().values()),
            engine_of(engine, workers),
            progress_bar,
            quick=quick,
            skip_failing=not chosen,
            options=options,
        )
    if as_json:
        print_json({"report": str(report), "findings": list(map(_as_table, findings))})
    else:
        _print(findings, report)


def _print(findings: Sequence[Finding], report: Path) -> None:
    for finding in findings:
        typer.echo(f"{finding.id}: {finding.title}")
        show_claims(finding.claims)
        if finding.seconds is None:  # it was not reproduced, and the text says why
            typer.echo(finding.text)
    if len(findings) > 1:
        seconds = duration(sum(finding.seconds or 0.0 for finding in findings))
        typer.echo(f"{claim_counts(claim for finding in findings for claim in finding.claims)}; {seconds}")
    typer.echo(f"report: {report}")


def _as_table(finding: Finding) -> dict[str, Any]:
    """Return what a program may want to know of a finding: everything except its charts."""
    return {
        "id": finding.id,
        "title": finding.title,
        "text": finding.text,
        "seconds": finding.seconds,
        "facts": dict(finding.facts),
        "missing": finding.missing,
        "claims": [msgspec.structs.asdict(verdict) for verdict in finding.claims],
        "tables": [table._asdict() for table in finding.tables],
    }


@app.command("list")
def list_reproductions(as_json: AsJson = False) -> None:
    """List the figures and tables that can be reproduced, by id."""
    reproductions = registry.everything().values()
    if as_json:
        print_json([{"id": item.id, "title": item.title, "options": sorted(item.takes)} for item in reproductions])
        return
    width = max(len(item.id) for item in reproductions)
    for item in reproductions:
        typer.echo(f"{item.id:{width}}  {item.title}")


@app.command()
def shop(
    seed: Seed = 0,
    visits: Annotated[int, typer.Option("--visits", min=20, metavar="N", help="Visits to the shop.")] = SHOP_VISITS,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder of the report.")] = Path(
        "results/shop"
    ),
    as_json: AsJson = False,
) -> None:
    """Rank the products of a simulated shop: clicks per page of rankloop and of simpler orders."""
    with interruptible("nothing was written"), progress_bar("playing the shop", "pages") as progress:
        finding = shop_finding(seed, visits, progress)
    report = write_report(out, finding.title, [finding])
    table = finding.tables[0]
    if as_json:
        clicks = {name: dict(zip(table.header[1:3], map(float, values))) for name, *values in table.rows}
        print_json({"shop": clicks, "report": str(report)})
        return
    show_table(table)
    for notice in finding.missing:
        typer.echo(notice)
    typer.echo(f"report: {report.resolve()}")


@app.command("search-study")
def search_study(
    seed: Seed = 0,
    visits: Annotated[int, typer.Option("--visits", min=4, metavar="N", help="Visits to the page.")] = STUDY_VISITS,
    as_json: AsJson = False,
) -> None:
    """Let simulated visitors use a search box over HTTP; half of them teach it, half compare two orders."""
    name, documents, notice = collection()
    if notice:
        typer.echo(f"research: {notice.strip()}", err=True)
    with interruptible("nothing was written"), progress_bar(f"visitors search {name}", "visits") as progress:
        *_, end = simulated(name, documents, visits, seed, progress)
    if as_json:
        print_json({"data": name} | end._asdict())
        return
    better = "better" if end.wins > end.losses else "worse"
    verdict = f"the learned order is {better}" if end.p_value < MAX_CHANCE_P_VALUE else "this can be chance"
    typer.echo(f"{end.visits:,} visits to a search box over {name}: half taught, half compared with the engine's order")
    typer.echo(f"wins {end.wins}, losses {end.losses}, ties {end.ties}: p = {end.p_value:.2g} at any time, {verdict}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name and exit with its code: 0, 2 for wrong input, 130 when interrupted."""
    try:
        code = app(args=arguments, prog_name="python -m research", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        parser_message = getattr(error, "format_message", None)  # of typer's errors, whose classes are private
        if parser_message is None and not isinstance(error, RankloopError | OSError):
            raise
        print("research:", " ".join(str(parser_message() if parser_message else error).split()), file=sys.stderr)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
