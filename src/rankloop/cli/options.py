"""Options that several commands share, described once."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankloop.core.errors import InvalidInput


def option(names: str, metavar: str, help: str, **more: Any) -> Any:
    """An option that takes a value; several names have spaces between."""
    return typer.Option(*names.split(), metavar=metavar, help=help, **more)


def flag(names: str, help: str) -> Any:
    """An option that takes no value."""
    return typer.Option(*names.split(), help=help)


def argument(metavar: str, help: str) -> Any:
    """A positional argument."""
    return typer.Argument(metavar=metavar, help=help)


log_option = partial(option, rich_help_panel="From a log")  # one that counts with a log only


EngineName = Literal["here", "local", "cluster"]
AsJson = Annotated[bool, flag("--json", "Print the answer as JSON, for programs.")]
EngineChoice = Annotated[
    EngineName,
    option("--engine", "here|local|cluster", "Compute in this process, in one per core (local), or on a Ray cluster."),
]
Workers = Annotated[int | None, option("--workers", "N", "How many processes; by default one per core.", min=1)]
Quick = Annotated[bool, flag("--quick", "Far fewer rounds and seeds: to see that it works.")]
Out = Annotated[Path | None, option("--out", "FOLDER", "The folder for results.")]


def _imported(modules: list[str] | None) -> list[str] | None:
    if modules:
        from rankloop.experiments.spec.plugins import import_modules

        import_modules(modules)
    return modules


Imports = Annotated[
    list[str] | None,
    option(
        "--import",
        "MODULE",
        "Import this module or .py file first: it registers learners, measures … of your own. May be repeated.",
        callback=_imported,
    ),
]


ContextColumns = Annotated[
    list[str] | None, log_option("--context", "COLUMN", "Learn from this column of an ad log; may be repeated.")
]
WithoutColumns = Annotated[
    list[str] | None, log_option("--without", "COLUMN", "Do not learn from this column; may be repeated.")
]
PositionBias = Annotated[
    str | None,
    log_option("--position-bias", "NUMBERS", "How likely each position is seen, 1,0.5,…; estimated unless given."),
]
RankerName = Annotated[str, log_option("--ranker", "NAME", "Which ranker of a service, where it has several.")]
ColumnRoles = Annotated[
    list[str] | None,
    log_option("--column", "ROLE=NAME", "Which column of a log is what, as in item=sku; may be repeated."),
]
ListsLog = Annotated[str, option("--log", "LOG", "A table of shown lists and their clicks, or a service's log.")]
ClickModelName = Annotated[str, option("--model", "NAME", "pbm, cascade, dcm, sdbn, dbn, ubm, or the best of them.")]
Plot = Annotated[Path | None, option("--plot", "FILE", "Draw the answer into this file (PNG, SVG, PDF).")]
Port = Annotated[int, option("--port", "N", "The port to listen on.", min=0, max=65535)]
Host = Annotated[str, option("--host", "ADDRESS", "Other than 127.0.0.1 needs keys in RANKLOOP_KEYS.")]
Seed = Annotated[int, option("--seed", "N", "Of every draw.", min=0)]
FeatureColumns = Annotated[
    list[str] | None,
    log_option("--feature", "COLUMN", "Learn from this column even if it looks like an outcome; may be repeated."),
]

# Of `train` and `train-clicks`.
Loss = Annotated[str | None, option("--loss", "NAME", "ordinal, list_net, …, or a measure: nDCG@10, P@5, ERU.")]
Tight = Annotated[bool, flag("--tight", "The tighter, non-convex bound on a measure.")]
Regularisation = Annotated[
    str, option("--regularisation", "NUMBERS", "A number, several with commas between, or `path` for the usual.")
]
Tolerance = Annotated[
    float, option("--tolerance", "NUMBER", "The share of the possible improvement over w = 0 that may be missing.")
]
Trees = Annotated[str | None, option("--trees", "BOOSTER", "Cross-fitted trees as a base score: lightgbm or xgboost.")]
TrainOut = Annotated[Path, option("--out", "FOLDER", "The folder for model and picture.")]


def numbers_of(option: str, text: str) -> list[float]:
    """Return the numbers of an option such as 1,0.5,0.3."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{option} {text!r}: write numbers with commas between, as 1,0.5,0.3") from None


def batch_solver(loss: str | None, tight: bool, regularisation: str, tolerance: float, engine: Any) -> Any:
    """The solver of these options."""
    from rankloop.training.risks.base import risk_of
    from rankloop.training.solution_path import DEFAULT_PATH, BatchSolver, SolverSettings

    risk_of(loss or "ordinal")  # a wrong name is said before the data are read
    path = DEFAULT_PATH if regularisation == "path" else tuple(numbers_of("--regularisation", regularisation))
    return BatchSolver(loss or "ordinal", tight, path, SolverSettings(tolerance=tolerance, engine=engine))


def engine_of(name: EngineName, workers: int | None, threads: bool = False) -> Any:
    """The engine of this name; `here` may use the threads of this process."""
    from rankloop.engine import Cluster, Here, LocalProcesses, Threads

    if name == "here":
        return Threads(workers=workers) if threads else Here()
    return LocalProcesses(workers=workers) if name == "local" else Cluster(workers=workers)


RESUMABLE = "finished runs are kept, the same command goes on from here"


@contextmanager
def interruptible(meaning: str = RESUMABLE) -> Iterator[None]:
    """Ctrl-C ends the command with one line that says what it means, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nrankloop: interrupted; {meaning}", err=True)
        raise typer.Exit(130) from None
