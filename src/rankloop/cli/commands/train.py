"""`rankloop train`: a linear ranker from a data set with grades or from clicks, or a policy from a log of ads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import (
    AsJson,
    ContextColumns,
    EngineName,
    Imports,
    PositionBias,
    RankerName,
    WithoutColumns,
    engine_of,
    interruptible,
    log_option,
)
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.training.folds import Fold
    from rankloop.training.validation import Progress, Validated

REPORT = ("nDCG@1", "nDCG@3", "nDCG@5", "nDCG@10", "AP")


@command(
    "Your data",
    "rankloop train web.txt --loss ordinal",
    "rankloop train MQ2008/ --loss nDCG@10 --tight --folds 5",
    "rankloop train s3://bucket/parts/ --engine cluster",
    "rankloop train --log clicks.csv --out results/from-clicks",
    "rankloop train --log shop.csv --guess-schema shop.toml",
    "rankloop train --log shop.csv --schema shop.toml --out results/shop",
    "rankloop train --log shop-data --solver batch --loss clicked_items --out results/shop",
    "rankloop train --log ads.csv --epsilon 0.1 --out results/ads",
    "rankloop train web.txt --trees --out results/trees",
)
def train(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A LETOR file, a folder with folds.json or Fold1 … (also in $RANKLOOP_DATA), or a folder or an "
            "address (s3://…, gs://…) of parts: LETOR files, CSV or Parquet tables with query and relevance.",
        ),
    ] = None,
    loss: Annotated[
        str, typer.Option("--loss", metavar="NAME", help="ordinal, list_net, …, or a measure: nDCG@10, P@5, ERU.")
    ] = "ordinal",
    tight: Annotated[bool, typer.Option("--tight", help="The tighter, non-convex bound on a measure.")] = False,
    regularisation: Annotated[
        str,
        typer.Option(
            "--regularisation",
            metavar="NUMBERS",
            help="A number, several with commas between, or `path` for the usual.",
        ),
    ] = "path",
    folds: Annotated[int, typer.Option("--folds", min=3, metavar="N", help="How many folds.")] = 5,
    measure: Annotated[
        str, typer.Option("--measure", "-m", metavar="NAME", help="What chooses the regularisation.")
    ] = "nDCG@10",
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Scale every feature from 0 to 1 inside each query.")
    ] = False,
    tolerance: Annotated[float, typer.Option("--tolerance", metavar="NUMBER", help="How near to the optimum.")] = 1e-4,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder for model and picture.")] = Path(
        "results/train"
    ),
    engine: Annotated[
        EngineName,
        typer.Option(
            "--engine",
            metavar="here|local|cluster",
            help="Compute in threads of this process (here), in processes (local), or on a Ray cluster.",
        ),
    ] = EngineName.here,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="How many; by default all cores.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read the data from a cache on disk at every pass. Done by itself with a folder of parts, and with "
            "data that need more memory than there is.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="How one file is cut into folds.")] = 0,
    imports: Imports = None,
    log: Annotated[
        str | None,
        log_option(
            "--log",
            "LOG",
            "Learn from a log instead of grades: a table of lists and clicks or of shown ads, the folder or export of "
            "a service; lists also in parts, in a folder or under an address (s3://…).",
        ),
    ] = None,
    position_bias: PositionBias = None,
    clip: Annotated[float, log_option("--clip", "NUMBER", "No click counts more than this.")] = 10.0,
    without: WithoutColumns = None,
    context: ContextColumns = None,
    epsilon: Annotated[
        float | None, log_option("--epsilon", "SHARE", "How often the policy of an ad log explores.", min=0.0, max=1.0)
    ] = None,
    column: Annotated[
        list[str] | None,
        log_option(
            "--column",
            "ROLE=NAME",
            "Which column is what: list=NAME, query=, item=, position=, click=, with a schema also time=; of an ad log "
            "action=, reward=, propensity=, position=.",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        log_option("--schema", "FILE", "Learn from texts, categories, ids … by the kinds and crosses in this file."),
    ] = None,
    guess_schema: Annotated[
        Path | None,
        log_option("--guess-schema", "FILE", "Write the schema that the log suggests to this file, and stop."),
    ] = None,
    learner: Annotated[
        str | None,
        log_option("--learner", "SPEC", "What learns with a schema: click_regression, online_gradient or their specs."),
    ] = None,
    solver: Annotated[
        str | None,
        log_option(
            "--solver",
            "online|batch",
            "With a schema: passes of an online learner (the default), or all lists at once, to the optimum of --loss.",
        ),
    ] = None,
    ranker: RankerName = "",
    passes: Annotated[
        int | None, log_option("--passes", "N", "Go over the log at most so many times with a schema; else 5.", min=1)
    ] = None,
    shown: Annotated[
        int | None,
        log_option(
            "--shown", "N", "How many positions people see, with a schema; else all of the longest list.", min=1
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        log_option("--feature", "COLUMN", "Learn from this column even if it looks like an outcome; may be repeated."),
    ] = None,
    trees: Annotated[
        bool, typer.Option("--trees", help="Trees instead, cross-fitted: a base score for a learner.")
    ] = False,
    booster: Annotated[
        str, typer.Option("--booster", metavar="NAME", help="What grows the trees: lightgbm or xgboost.")
    ] = "lightgbm",
    as_json: AsJson = False,
) -> None:
    """Train a linear ranker from grades or clicks, and save it for evaluate and serve.

    Each fold trains along the path of regularisations, keeps the one that is best on its validation queries, and is
    judged on its test queries. The saved model is trained on all queries with the one that is best on average.

    Parts are read by the workers, each its own; on a cluster the folder or address need only be seen by them. Their
    folds go by the hash of the query, so that it does not matter how the queries are spread over the parts.

    With --log, clicks take the place of grades: each counts by how unlikely its position was to be examined. The
    default loss is then the weighted ranking SVM, which is unbiased. For the loss of a measure (--loss nDCG@10) all
    lists of a query are merged into one first, so it needs queries that come again.

    With --schema, columns are numbers, categories, texts, ids, flags and dates as people have them, crossed as the
    file says; a learner goes over the logged lists, and held-out lists say how often. With --solver batch the loss
    (ordinal, list_net, clicked_items …) is minimised over all lists at once instead, and held-out lists choose the
    regularisation; the saved ranker goes on learning from there. --guess-schema writes a schema. The log of a service
    has its schema in it. Columns that are known only after the click, such as a purchase
    or a second name of the click, are never features unless --feature or the schema asks for them.

    With --trees the result is a file of cross-fitted boosters of LightGBM or XGBoost, from grades or from clicks: its
    score is the base from which an online learner goes on (docs/guides/trees-in-the-loop.md).

    A log of single ads (context, ad, click, propensity) trains a policy of AUC-optimised rankers on half of the rows;
    the other half says what it would earn, beside the policy that made the log.
    """
    if (data is None) == (log is None):
        raise InvalidInput("give either DATA with grades, or --log with a log of clicks")
    if trees:
        from rankloop.cli.logs.train_schema import LogTraining
        from rankloop.cli.logs.train_trees import train_trees

        columns = column or [], context or [], without or [], feature or []
        asked = LogTraining(loss, tight, (), position_bias, clip, epsilon, seed, *columns)
        train_trees(data, log, booster, asked, out, as_json)
        return
    if log is not None:
        from rankloop.cli.logs.train_log import is_in_parts, train_on_log, train_on_parts
        from rankloop.cli.logs.train_schema import LogTraining
        from rankloop.engine import kept
        from rankloop.training.solution_path import SolverSettings

        columns = column or [], context or [], without or [], feature or []
        how = LogTraining(loss, tight, _path(regularisation), position_bias, clip, epsilon, seed, *columns)
        how = how._replace(schema=schema, guess=guess_schema, learner=learner, passes=passes, shown=shown)
        settings = SolverSettings(tolerance=tolerance, engine=engine_of(engine, workers, threads=True))
        how = how._replace(solver=solver, settings=settings, ranker=ranker)
        if is_in_parts(log):
            with interruptible("nothing was saved"), kept(settings.engine) as where:
                train_on_parts(log, how, where, out, as_json)
            return
        train_on_log(log, how, out, as_json)
        return
    from rankloop.cli.progress import progress_bar
    from rankloop.engine import kept
    from rankloop.training.risks.base import risk_of
    from rankloop.training.solution_path import SolverSettings
    from rankloop.training.validation import cross_validate

    risk, path = risk_of(loss), _path(regularisation)
    with interruptible("nothing was saved"), kept(engine_of(engine, workers, threads=True)) as where:
        with progress_bar("reading", unit="parts") as progress:
            parts = _folds(str(data), folds, seed, normalise, stream, where, progress)
        settings = SolverSettings(tolerance=tolerance, engine=where)
        with progress_bar("training", unit="fits") as progress:
            result = cross_validate(
                parts, risk, path, measure=measure, report=REPORT, tight=tight, settings=settings, progress=progress
            )
    model = _save(result, out, loss, tight, normalise)
    if as_json:
        _print_json(result, model)
        return
    _print(result, model)
    solution = result.model.solution
    if not solution.converged:
        typer.echo(
            f"warning: stopped after {solution.iterations} iterations, at most {solution.gap:.2g} above the optimum: "
            "raise the regularisation, or scale the features (--normalise)",
            err=True,
        )
    if result.model.no_better_than_zero(tolerance):
        instead = "--loss ordinal" if tight else "--loss ordinal or --tight"
        typer.echo(
            f"warning: the optimum of {loss} is no better than w = 0: nothing was learned; try {instead}", err=True
        )


def _folds(
    data: str, n_folds: int, seed: int, normalise: bool, stream: bool, engine: Any, progress: "Progress"
) -> "list[Fold]":
    """In memory, or on the disks where the data are parts, too large, or only seen by the workers of a cluster."""
    from rankloop.data.public_sets import public_path
    from rankloop.engine import Cluster
    from rankloop.training.folds import read_folds
    from rankloop.training.stored_folds import stored_address, stored_folds

    address = stored_address(data, isinstance(engine, Cluster), stream)
    if address is not None:
        return stored_folds(address, n_folds, engine, normalise=normalise, progress=progress)
    return read_folds(public_path(data), n_folds, seed, normalise)


def _path(text: str) -> tuple[float, ...]:
    from rankloop.training.solution_path import DEFAULT_PATH

    if text == "path":
        return DEFAULT_PATH
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--regularisation {text!r} is neither `path` nor numbers with commas between") from None


def _save(result: "Validated", out: Path, loss: str, tight: bool, normalise: bool) -> Path:
    from rankloop.core.files import atomic_write
    from rankloop.core.saved_session import save
    from rankloop.training.estimator import NORMALISED, session_of
    from rankloop.training.validation import validation_curve

    notes = {"loss": loss, "tight": tight, "regularisation": result.best, NORMALISED: normalise}
    out.mkdir(parents=True, exist_ok=True)
    save(session_of(result.model.weights), out / "model.rankloop", notes)
    atomic_write(out / "validation.png", validation_curve(result))
    return out / "model.rankloop"


def _print(result: "Validated", model: Path) -> None:
    from rankloop.cli.output import show_table
    from rankloop.experiments.report.model import Table

    rows = [
        (fold.fold, f"{fold.regularisation:g}", *(f"{fold.test[name]:.4f}" for name in REPORT)) for fold in result.folds
    ]
    rows.append(("mean", f"{result.best:g}", *(f"{result.mean(name):.4f}" for name in REPORT)))
    header = ("fold", "regularisation", *("MAP" if name == "AP" else name for name in REPORT))
    show_table(Table("On the test queries of each fold", header, rows))
    typer.echo(f"model: {model}\nvalidation curve: {model.with_name('validation.png')}")


def _print_json(result: "Validated", model: Path) -> None:
    from rankloop.cli.output import print_json

    folds = [
        {
            "fold": fold.fold,
            "regularisation": fold.regularisation,
            "validation": dict(zip(map(str, result.path), fold.curve.tolist())),
            "test": fold.test,
            "gap": fold.fit.solution.gap,
        }
        for fold in result.folds
    ]
    mean = {name: result.mean(name) for name in REPORT}
    print_json({"model": str(model), "regularisation": result.best, "mean": mean, "folds": folds})
