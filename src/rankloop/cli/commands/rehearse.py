"""`rankloop rehearse`: simulate learners on a log, to estimate their gain and the cost of exploration."""

from pathlib import Path
from typing import Annotated, Any

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import engine_of, interruptible, option
from rankloop.cli.output import print_result, progress_bar

LEARNER_HELP = "A learner to simulate. Default: those that advise recommends. Repeatable."


@command("Your data")
def rehearse(
    log: options.ListsLog,
    schema: Annotated[Path | None, option("--schema FILE", "A schema of the columns. Default: guessed.")] = None,
    model: options.ClickModelName = "best",
    learner: Annotated[list[str] | None, option("--learner SPEC", LEARNER_HELP)] = None,
    pages: Annotated[int, option("--pages N", "Number of simulated pages per learner.", min=20)] = 3000,
    seeds: Annotated[int, option("--seeds N", "Number of simulations, for the intervals.", min=2)] = 5,
    column: options.ColumnRoles = None,
    skip_bad_rows: options.SkipBadRows = False,
    without: options.WithoutColumns = None,
    ranker: options.RankerName = "",
    out: options.Out = None,
    engine: options.EngineChoice = "local",
    workers: options.Workers = None,
    quick: options.Quick = False,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Simulate learners with users that are fitted to a log, and compare them with the logged order.

    Click models are fitted to the log, and queries, items and fields are taken from it. The result names the best
    learner with its parameters, its gain in clicks (and in purchases and money where the log has them), and the cost of
    exploration; or says that there is no gain, or that the log is not enough to decide.
    """
    from rankloop.experiments.rehearsal.answer import rehearse as simulate_learners
    from rankloop.features.schema import Schema
    from rankloop.logs.columns import named_columns

    name = Path(log).name
    if quick:
        pages, seeds = max(20, pages // 10), 2
    kinds = None if schema is None else Schema.from_toml(schema)
    settings: dict[str, Any] = {"columns": named_columns(column or []), "ranker": ranker, "without": without or []}
    settings |= {"skip_bad_rows": skip_bad_rows, "learners": learner or [], "engine": engine_of(engine, workers)}
    with interruptible("nothing was saved"), progress_bar(f"rehearsing {name}", unit="learners") as progress:
        rehearsal = simulate_learners(log, model, schema=kinds, pages=pages, seeds=seeds, progress=progress, **settings)
    report = rehearsal.write_report(out or Path("results") / f"rehearsal-{Path(name).stem}")
    print_result(rehearsal, as_json, {"report": str(report)}, [f"report: {report}"])
