"""Options that several commands share, described once."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class EngineName(StrEnum):
    """Where runs are computed."""

    here = "here"
    local = "local"
    cluster = "cluster"


AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, for programs.")]
EngineChoice = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        metavar="here|local|cluster",
        help="Compute in this process, in one per core (local), or on a Ray cluster.",
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, metavar="N", help="How many processes; by default one per core.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Far fewer rounds and seeds: to see that it works.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="The folder for results.")]


def _imported(modules: list[str] | None) -> list[str] | None:
    if modules:
        from rankloop.experiments.spec.plugins import import_modules

        import_modules(modules)
    return modules


Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=_imported,
        help="Import this module or .py file first: it registers learners, measures … of your own. May be repeated.",
    ),
]


def log_option(name: str | tuple[str, ...], metavar: str, help: str, **limits: float) -> Any:
    """An option that counts with --log only."""
    names = (name,) if isinstance(name, str) else name
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel="From a log", **limits)  # type: ignore[arg-type]


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
ListsLog = Annotated[
    str, typer.Option("--log", metavar="LOG", help="A table of shown lists and their clicks, or a service's log.")
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the answer into this file (PNG, SVG, PDF).")
]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Of every draw.")]


def numbers_of(option: str, text: str) -> list[float]:
    """Return the numbers of an option such as 1,0.5,0.3."""
    from rankloop.core.errors import InvalidInput

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{option} {text!r}: write numbers with commas between, as 1,0.5,0.3") from None


FeatureColumns = Annotated[
    list[str] | None,
    log_option("--feature", "COLUMN", "Learn from this column even if it looks like an outcome; may be repeated."),
]

# Of `train` and `train-clicks`.
Loss = Annotated[
    str | None, typer.Option("--loss", metavar="NAME", help="ordinal, list_net, …, or a measure: nDCG@10, P@5, ERU.")
]
Tight = Annotated[bool, typer.Option("--tight", help="The tighter, non-convex bound on a measure.")]
Regularisation = Annotated[
    str,
    typer.Option(
        "--regularisation",
        metavar="NUMBERS",
        help="A number, several with commas between, or `path` for the usual.",
    ),
]
Tolerance = Annotated[float, typer.Option("--tolerance", metavar="NUMBER", help="How near to the optimum.")]
Trees = Annotated[
    str | None,
    typer.Option("--trees", metavar="BOOSTER", help="Cross-fitted trees as a base score: lightgbm or xgboost."),
]
TrainOut = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder for model and picture.")]
TrainEngine = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        metavar="here|local|cluster",
        help="Compute in threads of this process (here), in processes (local), or on a Ray cluster.",
    ),
]


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

    if name is EngineName.here:
        return Threads(workers=workers) if threads else Here()
    return LocalProcesses(workers=workers) if name is EngineName.local else Cluster(workers=workers)


@contextmanager
def log_file(log: str, ranker: str = "") -> Iterator[Path]:
    """A table or an export by its path; of the folder or database of a service, one ranker's export while open."""
    from tempfile import TemporaryDirectory

    from rankloop.core.errors import InvalidInput
    from rankloop.data.folder import given_path
    from rankloop.logs.reader import is_service_log
    from rankloop.service.application.rankings import write_export

    if not is_service_log(log):
        if ranker:
            raise InvalidInput("--ranker is for the log of a service")
        yield given_path(log)
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{ranker or 'log'}.parquet"
        write_export(log, path, ranker)
        yield path


RESUMABLE = "finished runs are kept, the same command goes on from here"


@contextmanager
def interruptible(meaning: str = RESUMABLE) -> Iterator[None]:
    """Ctrl-C ends the command with one line that says what it means, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nrankloop: interrupted; {meaning}", err=True)
        raise typer.Exit(130) from None
