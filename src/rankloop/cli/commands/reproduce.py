"""`rankloop reproduce`: figures and tables of the papers, computed again, in one report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, EngineChoice, EngineName, Out, Quick, Workers, engine_of, interruptible
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.experiments.report.model import Finding


@command(
    "Experiments",
    "rankloop list experiments",
    "rankloop reproduce top1-1 --quick",
    "rankloop reproduce --all --quick",
    "rankloop reproduce coactive-4 --data Reuters --topics all --rounds 50000",
)
def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="What to reproduce: figures and tables by their own ids."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All there is.")] = False,
    quick: Quick = False,
    out: Out = None,
    engine: EngineChoice = EngineName.local,
    workers: Workers = None,
    rounds: Annotated[int | None, typer.Option(metavar="N", help="Rounds of each run.")] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Runs of each learner.")] = None,
    data: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A data set; may be given again.")] = None,
    topics: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A topic of a collection, or all.")] = None,
    items: Annotated[int | None, typer.Option(metavar="N", help="How many items are candidates in a list.")] = None,
    empty: Annotated[
        str | None, typer.Option(metavar="RULE", help="What a list without a relevant item counts: skip, zero or one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute figures and tables of the papers again, and say which of their claims hold.

    `rankloop list experiments` shows what there is. Results go to results/reproduce unless --out says otherwise: one
    report, and summary.json over everything that is finished there. Interrupted, the same command goes on. What
    a figure lets one change is asked for by --rounds, --seeds, --data, --topics, --items and --empty; others refuse it.
    """
    from rankloop.cli.progress import progress_bar
    from research import registry
    from research.options import Options

    if not ids and not everything:
        raise InvalidInput("say what to reproduce, or --all; `rankloop list experiments` shows what there is")
    chosen = list(registry.everything().values()) if everything else [registry.find(id) for id in ids or []]
    folder = out or Path("results") / ("reproduce-quick" if quick else "reproduce")
    options = Options(rounds, seeds, tuple(data or ()), tuple(topics or ()), items, empty)
    with interruptible():
        findings, report = registry.reproduce_into(
            folder,
            chosen,
            engine_of(engine, workers),
            progress_bar,
            quick=quick,
            skip_failing=everything,
            options=options,
        )
    if as_json:
        _print_json(findings, report)
    else:
        _print(findings, report)


def _print(findings: "list[Finding]", report: Path) -> None:
    from rankloop.cli.output import show_claims
    from rankloop.experiments.report.html import duration, told_apart

    for finding in findings:
        typer.echo(f"{finding.id}: {finding.title}")
        show_claims(finding.claims)
        if finding.text.startswith("Not reproduced"):
            typer.echo(finding.text)
    if len(findings) > 1:
        whole = duration(sum(finding.seconds or 0.0 for finding in findings))
        typer.echo(f"{told_apart(claim for finding in findings for claim in finding.claims)}; {whole}")
    typer.echo(f"report: {report}")


def _print_json(findings: "list[Finding]", report: Path) -> None:
    from rankloop.cli.output import print_json

    tables = [
        {
            "id": finding.id,
            "title": finding.title,
            "text": finding.text,
            "seconds": finding.seconds,
            "facts": dict(finding.facts),
            "missing": finding.missing,
            "claims": [verdict._asdict() for verdict in finding.claims],
            "tables": [table._asdict() for table in finding.tables],
        }
        for finding in findings
    ]
    print_json({"report": str(report), "findings": tables})
