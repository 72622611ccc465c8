"""`rankloop rehearse`: would it help us, with which learner, and what would it cost?"""

from pathlib import Path
from typing import Annotated

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import engine_of, interruptible, option
from rankloop.cli.output import print_result, progress_bar


@command(
    "Your data",
    "rankloop rehearse --log clicks.parquet",
    "rankloop rehearse --log shop.csv --schema shop.toml --pages 10000 --seeds 10",
    "rankloop rehearse --log shop.csv --learner click_regression --learner pdgd --json",
)
def rehearse(
    log: options.ListsLog,
    schema: Annotated[Path | None, option("--schema", "FILE", "What the columns are, instead of a guess.")] = None,
    model: options.ClickModelName = "best",
    learner: Annotated[
        list[str] | None, option("--learner", "SPEC", "Instead of those that advise names; may be repeated.")
    ] = None,
    pages: Annotated[int, option("--pages", "N", "How long each learner is played.", min=20)] = 3000,
    seeds: Annotated[int, option("--seeds", "N", "How many worlds, for the intervals.", min=2)] = 5,
    column: options.ColumnRoles = None,
    without: options.WithoutColumns = None,
    ranker: options.RankerName = "",
    out: options.Out = None,
    engine: options.EngineChoice = "local",
    workers: options.Workers = None,
    quick: options.Quick = False,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Play learners against the users of a log, and say what they would win beside today's order.

    Click models are fitted to the log, queries, items and fields are taken from it, and the learners that fit (see
    advise) are played with the logged order as the baseline. The answer is which to take, with which parameters, what
    it would win in clicks, and in purchases and money where the log has them, and what exploring would cost; or that
    there is nothing to win, or that the log cannot tell.
    """
    from rankloop.experiments.rehearsal.answer import rehearse as rehearsed
    from rankloop.features.schema import Schema
    from rankloop.logs.columns import named_columns

    name = Path(log).name
    with interruptible("nothing was kept"), progress_bar(f"rehearsing {name}", unit="learners") as progress:
        rehearsal = rehearsed(
            log,
            model,
            schema=None if schema is None else Schema.from_toml(schema),
            pages=max(20, pages // 10) if quick else pages,
            seeds=2 if quick else seeds,
            learners=learner or [],
            engine=engine_of(engine, workers),
            progress=progress,
            columns=named_columns(column or []),
            without=without or [],
            ranker=ranker,
        )
    report = rehearsal.write_report(out or Path("results") / f"rehearsal-{Path(name).stem}")
    print_result(rehearsal, as_json, {"report": str(report)}, f"report: {report}")
