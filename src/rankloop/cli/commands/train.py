"""`rankloop train`: train a ranker on a data set with grades."""

from pathlib import Path
from typing import Annotated

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import argument, batch_solver, engine_of, interruptible, option
from rankloop.cli.output import print_trained, progress_bar, save_trees

DATA_HELP = (
    "A LETOR file, a folder with folds.json or Fold1 … (also in $RANKLOOP_DATA), or a folder or address "
    "(s3://…, gs://…) of LETOR files, CSV or Parquet tables with query and relevance."
)
STREAM_HELP = "Read the data from a disk cache at every pass. Automatic for folders of parts and data beyond memory."


@command("Your data")
def train(
    data: Annotated[str, argument("DATA", DATA_HELP)],
    loss: options.Loss = None,
    tight: Annotated[bool, option("--tight", "Use the tighter, non-convex bound on a measure.")] = False,
    regularisation: options.Regularisation = "path",
    folds: Annotated[int, option("--folds N", "Number of folds.", min=3)] = 5,
    measure: Annotated[str, option("--measure -m NAME", "The measure that chooses the regularisation.")] = "nDCG@10",
    normalise: Annotated[bool, option("--normalise", "Scale every feature from 0 to 1 within each query.")] = False,
    stream: Annotated[bool, option("--stream", STREAM_HELP)] = False,
    trees: options.Trees = None,
    engine: options.EngineChoice = "here",
    workers: options.Workers = None,
    out: options.TrainOut = Path("results/train"),
    seed: options.Seed = 0,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a linear ranker on grades, and save it for evaluate and serve.

    Each fold is trained with all regularisations, keeps the best one on its validation queries, and is evaluated on its
    test queries. The saved model is trained on all queries with the regularisation that is best on average.

    The workers read the parts; on a cluster only they need access to the folder or address. The fold of a query is a
    hash of its id, so it does not depend on the part.

    With --trees the result is a file of cross-fitted boosters of LightGBM, whose score is the base of an online learner
    (docs/guides/trees-in-the-loop.md). For clicks use train-clicks, for single choices train-policy.
    """
    if trees is not None:
        from rankloop.training.trees.tree_ranker import train_trees

        boosters, measures = train_trees(data)
        save_trees(boosters, measures, out, as_json)
        return
    from rankloop.engine import kept
    from rankloop.training.folds import find_folds
    from rankloop.training.train import cross_validate

    solver = batch_solver(loss, regularisation, engine_of(engine, workers, threads=True), tight)
    with interruptible("nothing was saved"), kept(solver.settings.engine) as where:
        with progress_bar("reading", unit="parts") as progress:
            parts = find_folds(data, folds, where, normalise=normalise, stream=stream, seed=seed, progress=progress)
        solver = solver._replace(settings=solver.settings._replace(engine=where))
        with progress_bar("training", unit="fits") as progress:
            result = cross_validate(parts, solver, measure=measure, is_normalised=normalise, progress=progress)
    print_trained(result, out, as_json, plot="validation.png")
