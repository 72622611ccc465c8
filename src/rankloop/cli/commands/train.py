"""`rankloop train`: a ranker from a data set with grades."""

from pathlib import Path
from typing import Annotated

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import argument, batch_solver, engine_of, flag, interruptible, option
from rankloop.cli.output import print_trained, progress_bar, save_trees


@command(
    "Your data",
    "rankloop train web.txt --loss ordinal",
    "rankloop train MQ2008/ --loss nDCG@10 --tight --folds 5",
    "rankloop train s3://bucket/parts/ --engine cluster",
    "rankloop train web.txt --trees lightgbm --out results/trees",
)
def train(
    data: Annotated[
        str,
        argument(
            "DATA",
            "A LETOR file, a folder with folds.json or Fold1 … (also in $RANKLOOP_DATA), or a folder or an "
            "address (s3://…, gs://…) of parts: LETOR files, CSV or Parquet tables with query and relevance.",
        ),
    ],
    loss: options.Loss = None,
    tight: options.Tight = False,
    regularisation: options.Regularisation = "path",
    tolerance: options.Tolerance = 1e-4,
    folds: Annotated[int, option("--folds", "N", "How many folds.", min=3)] = 5,
    measure: Annotated[str, option("--measure -m", "NAME", "What chooses the regularisation.")] = "nDCG@10",
    normalise: Annotated[bool, flag("--normalise", "Scale every feature from 0 to 1 inside each query.")] = False,
    stream: Annotated[
        bool,
        flag(
            "--stream",
            "Read the data from a cache on disk at every pass. Done by itself with a folder of parts, and with "
            "data that need more memory than there is.",
        ),
    ] = False,
    trees: options.Trees = None,
    engine: options.EngineChoice = "here",
    workers: options.Workers = None,
    out: options.TrainOut = Path("results/train"),
    seed: options.Seed = 0,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a linear ranker from grades, and save it for evaluate and serve.

    Each fold trains along the path of regularisations, keeps the one that is best on its validation queries, and is
    judged on its test queries. The saved model is trained on all queries with the one that is best on average.

    Parts are read by the workers, each its own; on a cluster the folder or address need only be seen by them. Their
    folds go by the hash of the query, so that it does not matter how the queries are spread over the parts.

    With --trees the result is a file of cross-fitted boosters of LightGBM or XGBoost: its score is the base from which
    an online learner goes on (docs/guides/trees-in-the-loop.md). Logs of clicks are for train-clicks, logs of single
    choices for train-policy.
    """

    if trees is not None:
        from rankloop.training.trees.tree_ranker import train_trees

        boosters, measures = train_trees(data, kind=trees)
        save_trees(boosters, measures, out, as_json)
        return
    from rankloop.engine import kept
    from rankloop.training.train import find_folds
    from rankloop.training.validation import cross_validate

    solver = batch_solver(loss, tight, regularisation, tolerance, engine_of(engine, workers, threads=True))
    with interruptible("nothing was saved"), kept(solver.settings.engine) as where:
        with progress_bar("reading", unit="parts") as progress:
            parts = find_folds(data, folds, where, normalise=normalise, stream=stream, seed=seed, progress=progress)
        solver = solver._replace(settings=solver.settings._replace(engine=where))
        with progress_bar("training", unit="fits") as progress:
            result = cross_validate(parts, solver, measure=measure, is_normalised=normalise, progress=progress)
    print_trained(result, out, as_json, plot="validation.png")
