"""`rankloop evaluate`: measure rankings by judgments, or estimate from a log what a ranker would earn."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import argument, engine_of, interruptible, log_option, numbers_of, option
from rankloop.cli.output import print_result, progress_bar, show
from rankloop.core.errors import InvalidInput

DEFAULT_MEASURES = ["nDCG@10", "AP"]
LOG_HELP = "A table of shown lists, or of single choices with propensities; the folder or export of a service."
ESTIMATOR_HELP = (
    "For choices: snips, ips, clipped_ips, direct_method, doubly_robust, switch_dr. For lists: examination. "
    "For the log of a service also: cascade_ips, position_wise, pseudo_inverse. Default: by the kind of log."
)


@command("Your data")
def evaluate(
    rankings: Annotated[Path | None, argument("RANKINGS", "A saved model, or a TREC run file.")] = None,
    truth: Annotated[Path | None, argument("TRUTH", "A LETOR file for a model, TREC judgments for a run.")] = None,
    measure: Annotated[list[str], option("--measure -m NAME", "A measure. Repeatable.")] = DEFAULT_MEASURES,
    per_query: Annotated[bool, option("--per-query -q", "Also print each query.")] = False,
    every_query: Annotated[bool, option("--every-query", "Count judged queries that the run lacks, as 0.")] = False,
    log: Annotated[str | None, log_option("--log LOG", LOG_HELP)] = None,
    estimator: Annotated[str, log_option("--estimator NAME", ESTIMATOR_HELP)] = "auto",
    position_bias: options.PositionBias = None,
    column: options.ColumnRoles = None,
    skip_bad_rows: options.SkipBadRows = False,
    ranker: options.RankerName = "",
    plot: options.Plot = None,
    seed: options.Seed = 0,
    engine: options.EngineChoice = "here",
    workers: options.Workers = None,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure rankings by judgments, or estimate from a log what a ranker or a policy would earn.

    A run is scored as trec_eval scores it: ties by document id, documents without judgment are not relevant, queries
    without judgments are left out, and queries that the run lacks are left out unless --every-query.

    With --log, lists are evaluated by how likely users examine each position, which needs no propensities: in clicks
    per 1,000 pages, and purchases and money where the log has them. Single choices are evaluated by their propensities;
    without a model, by a column with the probabilities of a target policy. For the log of a service the propensities
    come from replaying it. Bounds, clipping and positions are settings of `rankloop.evaluate` in Python.
    """
    if log is None:
        _score(rankings, truth, measure, per_query, every_query, as_json)
        return
    from rankloop.evaluation.log_evaluation import evaluate as evaluate_on_log
    from rankloop.logs.columns import named_columns

    if imports and engine != "here":
        raise InvalidInput("a learner from --import is evaluated in this process: leave --engine out")
    bias = None if position_bias is None else numbers_of("--position-bias", position_bias)
    where = engine_of(engine, workers)
    options: dict[str, Any] = {"columns": named_columns(column or []), "ranker": ranker, "skip_bad_rows": skip_bad_rows}
    options |= {"estimator": estimator, "position_bias": bias, "seed": seed}
    with interruptible("nothing was saved"), progress_bar(f"evaluating {Path(log).name}", "rows") as progress:
        evaluation = evaluate_on_log(rankings, log, engine=where, progress=progress, **options)
    if plot is not None:
        evaluation.plot(plot)
    print_result(evaluation, as_json, lines=[] if plot is None else [f"plot: {plot}"])


def _score(
    rankings: Path | None, truth: Path | None, measures: list[str], per_query: bool, every_query: bool, as_json: bool
) -> None:
    if rankings is None or truth is None:
        raise InvalidInput("give RANKINGS and TRUTH, or a log, as in `rankloop evaluate ads.rankloop --log ads.csv`")
    from rankloop.evaluation.ranking.score import is_model, measures_of, score_model, was_normalised
    from rankloop.evaluation.ranking.trec import read_qrels, read_run, score_run

    parsed = measures_of(measures)  # reports a wrong name before the files are read
    if is_model(rankings):
        if was_normalised(rankings):
            typer.echo(f"note: {rankings.name} was trained with --normalise, so the features are normalised", err=True)
        from rich.console import Console
        from rich.progress import track

        console = Console(stderr=True)
        bar = partial(track, description="ranking", console=console, transient=True, disable=not console.is_terminal)
        scores = score_model(rankings, truth, parsed, watch=bar)
    else:
        scores = score_run(read_run(rankings), read_qrels(truth), parsed, every_query=every_query)
    show(as_json, scores.to_json(per_query), [scores.text(per_query)])
