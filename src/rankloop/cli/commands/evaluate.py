"""`rankloop evaluate`: how good these rankings are."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from rankloop.engine import Engine
    from rankloop.evaluation.ranking.score import Scores

MEASURES = ["nDCG@10", "AP"]


@command(
    "Your data",
    "rankloop evaluate shop.rankloop test.txt -m nDCG@10",
    "rankloop evaluate bm25.run web.qrels --per-query",
    "rankloop evaluate ads.rankloop --log later.csv --plot later.png",
    "rankloop evaluate candidate.rankloop --log shop-data",
    "rankloop evaluate candidate.rankloop --log shop.csv --estimator examination_dr",
    "rankloop evaluate results/shop/model.rankloop --log later.csv --column propensity=probability",
)
def evaluate(
    rankings: Annotated[
        Path | None, typer.Argument(metavar="RANKINGS", help="A saved model, or a TREC run file.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Argument(metavar="TRUTH", help="A LETOR file for a model, TREC judgments for a run.")
    ] = None,
    measure: Annotated[list[str], typer.Option("--measure", "-m", metavar="NAME", help="May be repeated.")] = MEASURES,
    per_query: Annotated[bool, typer.Option("--per-query", "-q", help="Each query as well.")] = False,
    every_query: Annotated[
        bool, typer.Option("--every-query", help="Judged queries that a run lacks count too.")
    ] = False,
    normalise: Annotated[
        bool,
        typer.Option("--normalise", help="Scale features from 0 to 1 inside each query, as train --normalise does."),
    ] = False,
    log: Annotated[
        str | None,
        log_option(
            "--log",
            "LOG",
            "A CSV or Parquet log of shown ads: context, ad, click, propensity; of lists with their propensity, for a "
            "ranker with a schema; or the folder or export of a service.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        log_option(
            "--column",
            "ROLE=NAME",
            "Which column is what: action=NAME, reward=, propensity=, position=, target=; of lists list=, query=, "
            "item=, position=, click=, time=, propensity=.",
        ),
    ] = None,
    context: ContextColumns = None,
    without: WithoutColumns = None,
    method: Annotated[
        str,
        log_option(
            ("--estimator", "--method"),
            "NAME",
            "snips (of ads, unless said), ips, clipped_ips, direct_method, doubly_robust or switch_dr; of lists "
            "examination_dr, cascade_dr or browsing_dr (whichever fits, unless said), examination_ips; for a service "
            "also swap_dr, cascade_ips, position_wise or pseudo_inverse.",
        ),
    ] = "",
    position_bias: PositionBias = None,
    bound: Annotated[str, log_option("--bound", "NAME", "t, bootstrap, bernstein or hoeffding.")] = "t",
    level: Annotated[float, log_option("--level", "SHARE", "How sure the lower bounds are.")] = 0.95,
    limit: Annotated[
        float,
        log_option("--limit", "NUMBER", "The weight at which clipped_ips cuts and beyond which switch_dr switches."),
    ] = 100.0,
    max_reward: Annotated[
        float, log_option("--max-reward", "NUMBER", "The largest possible reward, for bernstein and hoeffding.")
    ] = 1.0,
    ranker: RankerName = "",
    positions: Annotated[
        int,
        log_option(
            ("--positions", "--places"), "N", "Of rankings, only what so many first positions earned counts.", min=1
        ),
    ] = 10,
    epsilon: Annotated[
        float, log_option("--epsilon", "SHARE", "How often the trained policy explores.", min=0.0, max=1.0)
    ] = 0.0,
    save: Annotated[Path | None, log_option("--save", "FILE", "Keep the trained policy in this file.")] = None,
    plot: Annotated[
        Path | None, log_option("--plot", "FILE", "Draw the estimates into this file (PNG, SVG, PDF).")
    ] = None,
    seed: Annotated[int, log_option("--seed", "N", "Which rows train and which evaluate.", min=0)] = 0,
    engine: Annotated[
        EngineName,
        log_option("--engine", "here|local|cluster", "Judge lists in this process, in processes, or on a Ray cluster."),
    ] = EngineName.here,
    workers: Annotated[
        int | None, log_option("--workers", "N", "How many processes; by default one per core.", min=1)
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Score rankings by any measures, or tell from a log what a policy would earn.

    A run is judged as trec_eval judges it: ties by document id, documents without judgment are not relevant, queries
    without judgments are left out, and so are those that the run lacks unless --every-query.

    With --log, a saved policy is judged beside the policy that made the log, on all rows (with a reward model, on
    half), so give it a log that it has not learned from. Where the log has a column of a target policy's probabilities,
    that policy is judged. Without either, one is trained on half of the rows and judged on the other half, as `rankloop
    train --log` does. On the log of a service a saved ranker is judged; the probabilities with which each ranking was
    drawn come from learning the log again. A ranker is judged on a table of lists in the columns that it learned from
    too, or on the export of a service; the schema of the log may be another than its own, as long as its fields are
    there. Lists are judged by which positions people examine, which needs no probabilities and answers for rankers
    without chance: clicks per 1,000 pages, and purchases and money where the log tells them. Lists and exports are
    judged wherever --engine says, with the same answer to the last digit.
    """
    if log is not None:
        from rankloop.cli.logs.evaluate_log import LogOptions, evaluate_log
        from rankloop.evaluation import Options

        options = Options(level, bound, limit, max_reward, seed=seed)  # type: ignore[arg-type]
        columns = column or [], context or [], without or []
        asked = LogOptions(rankings, method, options, ranker, positions, *columns, epsilon, save, position_bias)
        asked = asked._replace(engine=_engine(engine, workers, imports))
        with interruptible("nothing was saved"):
            evaluate_log(log, asked, plot, as_json)
        return
    if rankings is None or truth is None:
        raise InvalidInput("give RANKINGS and TRUTH, or a log, as in `rankloop evaluate ads.rankloop --log ads.csv`")
    from rankloop.evaluation.ranking.saved_model import is_model

    if is_model(rankings):
        scores = _of_model(rankings, truth, measure, normalise)
    else:
        scores = _of_run(rankings, truth, measure, every_query)
    if as_json:
        _print_json(scores, per_query)
    else:
        typer.echo(_as_text(scores, per_query))


def _engine(name: EngineName, workers: int | None, imports: list[str] | None) -> "Engine":
    if imports and name is not EngineName.here:
        raise InvalidInput("a learner of your own is judged in this process: leave --engine out")
    return engine_of(name, workers)  # type: ignore[no-any-return]


def _of_model(model: Path, data: Path, measures: list[str], normalise: bool) -> "Scores":
    from rankloop.evaluation.ranking.saved_model import score_model, was_normalised

    if not normalise and was_normalised(model):
        typer.echo(
            f"{model.name} was trained on features scaled from 0 to 1 inside each query, and is judged on such",
            err=True,
        )
    return score_model(model, data, measures, normalise=normalise, watch=_watched)


def _watched(queries: range) -> Iterable[int]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(queries, "ranking", console=console, transient=True, disable=not console.is_terminal)


def _of_run(run: Path, qrels: Path, measures: list[str], every_query: bool) -> "Scores":
    from rankloop.evaluation.ranking.score import measures_of
    from rankloop.evaluation.ranking.trec import read_qrels, read_run, score_run

    parsed = measures_of(measures)  # a wrong name is told before the files are read
    return score_run(read_run(run), read_qrels(qrels), parsed, every_query=every_query)


def _as_text(scores: "Scores", per_query: bool) -> str:
    width = max(map(len, ("all", *scores.query_ids)))
    columns = [max(len(name), 6) for name in scores.measures]

    def line(head: str, cells: Iterable[str]) -> str:
        return head.ljust(width) + "".join("  " + cell.rjust(size) for cell, size in zip(cells, columns))

    rows = zip(scores.query_ids, scores.values.tolist()) if per_query else ()
    lines = [line("", scores.measures)]
    lines += [line(query, (f"{value:.4f}" for value in values)) for query, values in rows]
    lines.append(line("all", (f"{mean:.4f}" for mean in scores.overall.values())))
    return "\n".join(lines) + f"\n{_counted(scores)}"


def _counted(scores: "Scores") -> str:
    """The last line: over how many queries the means are."""
    total = len(scores.query_ids)
    fewer = {name: n for name, n in scores.counted.items() if n < total}
    skipped = "".join(f"; {name}: {n} counted, the others have no relevant item" for name, n in fewer.items())
    return f"{total} {'query' if total == 1 else 'queries'}{skipped}"


def _print_json(scores: "Scores", per_query: bool) -> None:
    from rankloop.cli.output import print_json

    answer: dict[str, object] = {
        "n_queries": len(scores.query_ids),
        "counted": scores.counted,
        "overall": _plain(scores.overall),
    }
    if per_query:
        answer["per_query"] = {
            query: _plain(dict(zip(scores.measures, values)))
            for query, values in zip(scores.query_ids, scores.values.tolist())
        }
    print_json(answer)


def _plain(values: dict[str, float]) -> dict[str, float | None]:
    """nan, which JSON does not have, becomes null."""
    return {name: None if math.isnan(value) else value for name, value in values.items()}
