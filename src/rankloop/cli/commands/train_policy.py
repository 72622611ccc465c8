"""`rankloop train-policy`: train a policy on a log of single choices."""

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli import options
from rankloop.cli.app import command
from rankloop.cli.options import argument, option
from rankloop.cli.output import print_trained, progress_bar


@command("Your data")
def train_policy(
    log: Annotated[str, argument("LOG", "A table of shown ads with context, ad, click and propensity.")],
    epsilon: Annotated[float, option("--epsilon SHARE", "Probability of exploration.", min=0.0, max=1.0)] = 0.0,
    context: options.ContextColumns = None,
    column: options.ColumnRoles = None,
    without: options.WithoutColumns = None,
    feature: options.FeatureColumns = None,
    out: options.TrainOut = Path("results/train"),
    seed: options.Seed = 0,
    imports: options.Imports = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a policy of AUC-optimised rankers, one for each ad, and save it for evaluate and serve.

    Half of the rows train the policy; the other half estimates its reward and that of the logging policy.
    """
    from rankloop.logs.choice_log import ChoiceLog
    from rankloop.logs.columns import CHOICE_GUESSES, named_columns
    from rankloop.training.policy import train_policy as train_on_choices

    table = ChoiceLog(log, **named_columns(column or [], tuple(CHOICE_GUESSES)))
    with progress_bar(f"training on {table.name}", "rows") as progress:
        result = train_on_choices(
            table,
            epsilon=epsilon,
            context=context or None,
            without=without or (),
            features=feature or (),
            seed=seed,
            progress=lambda rows: progress(rows, rows),
        )
    print_trained(result, out, as_json, plot="estimates.png")
    if not (epsilon or as_json):
        typer.echo("The policy does not explore. Add --epsilon 0.1 to make its own log useful for training.")
