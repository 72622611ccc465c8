"""Options that several commands share, described once."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.core.files import check_picture


def option(usage: str, help: str, **more: Any) -> Any:
    """Declare an option by its usage, as `--measure -m NAME`; one without a name for its value is a flag.

    Args:
      usage: The names and the value's name in the help text, separated by spaces.
      help: The help text.
      **more: Further arguments of `typer.Option`.
    """
    names = [part for part in usage.split() if part.startswith("-")]
    metavar = " ".join(usage.split()[len(names) :])
    return typer.Option(*names, metavar=metavar or None, help=help, **more)


def argument(metavar: str, help: str) -> Any:
    """Declare a positional argument.

    Args:
      metavar: The argument's name in the help text.
      help: The help text.
    """
    return typer.Argument(metavar=metavar, help=help)


log_option = partial(option, rich_help_panel="From a log")  # an option that applies to logs only


EngineName = Literal["here", "local", "cluster"]
AsJson = Annotated[bool, option("--json", "Print the result as JSON.")]
ENGINE_HELP = "Run in this process, in local processes, or on a Ray cluster."
EngineChoice = Annotated[EngineName, option("--engine here|local|cluster", ENGINE_HELP)]
Workers = Annotated[int | None, option("--workers N", "Number of processes. Default: one per core.", min=1)]
Quick = Annotated[bool, option("--quick", "Run far fewer rounds and seeds, as a trial.")]
Out = Annotated[Path | None, option("--out FOLDER", "Folder for the results.")]


def _import_modules(modules: list[str] | None) -> list[str] | None:
    if modules:
        from rankloop.experiments.spec.plugins import import_modules

        import_modules(modules)
    return modules


def _check_plot(file: Path | None) -> Path | None:
    """Refuse a plot that cannot be written before a command computes for long."""
    if file is not None:
        check_picture(file)
        import_extra("matplotlib")
    return file


IMPORT_HELP = "Import this module or .py file first, to register your own learners, measures or streams. Repeatable."
Imports = Annotated[list[str] | None, option("--import MODULE", IMPORT_HELP, callback=_import_modules)]

ContextColumns = Annotated[list[str] | None, log_option("--context COLUMN", "Column that is a feature. Repeatable.")]
WithoutColumns = Annotated[list[str] | None, log_option("--without COLUMN", "A column to leave out. Repeatable.")]
POSITION_BIAS_HELP = "Probability that each position is examined, as 1,0.5,… Default: estimated."
PositionBias = Annotated[str | None, log_option("--position-bias NUMBERS", POSITION_BIAS_HELP)]
RankerName = Annotated[str, log_option("--ranker NAME", "The ranker, if the service has several.")]
COLUMN_HELP = "A column and its role, as item=sku: list, query, position, click, user, purchase, revenue … Repeatable."
ColumnRoles = Annotated[list[str] | None, log_option("--column ROLE=NAME", COLUMN_HELP)]
SkipBadRows = Annotated[bool, option("--skip-bad-rows", "Leave rows with a bad cell out, and count them.")]
ListsLog = Annotated[str, option("--log LOG", "A table of shown lists and their clicks, or the log of a service.")]
ClickModelName = Annotated[str, option("--model NAME", "pbm, cascade, dcm, sdbn, dbn, ubm, or best.")]
PLOT_HELP = "Write a plot to this file (.png, .svg or .pdf)."
Plot = Annotated[Path | None, option("--plot FILE", PLOT_HELP, callback=_check_plot)]
Port = Annotated[int, option("--port N", "Port to listen on.", min=0, max=65535)]
Host = Annotated[str, option("--host ADDRESS", "Address to listen on; all but 127.0.0.1 need keys (RANKLOOP_KEYS).")]
Seed = Annotated[int, option("--seed N", "Seed of the random numbers.", min=0)]
FEATURE_HELP = "Use this column as a feature even if it looks like an outcome. Repeatable."
FeatureColumns = Annotated[list[str] | None, log_option("--feature COLUMN", FEATURE_HELP)]

# Options of `train` and `train-clicks`.
Loss = Annotated[str | None, option("--loss NAME", "A loss, as ordinal or list_net, or a measure: nDCG@10, ERU.")]
Regularisation = Annotated[str, option("--regularisation NUMBERS", "Numbers separated by commas, or `path`.")]
Trees = Annotated[Literal["lightgbm"] | None, option("--trees lightgbm", "Cross-fitted trees as a base score.")]
TrainOut = Annotated[Path, option("--out FOLDER", "Folder for the model and its plot.")]


def numbers_of(option: str, text: str) -> list[float]:
    """Return the numbers of an option such as 1,0.5,0.3.

    Args:
      option: The option's name, for the error message.
      text: Its value.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        advice = "write them separated by commas, as 1,0.5,0.3"
        raise InvalidInput(f"{option} {text!r} is not a list of numbers: {advice}") from None


def batch_solver(loss: str | None, regularisation: str, engine: Any, tight: bool = False) -> Any:
    """Return the batch solver of these options.

    Args:
      loss: The value of --loss.
      regularisation: The value of --regularisation.
      engine: The engine that computes.
      tight: The value of --tight.
    """
    from rankloop.training.risks.base import risk_of
    from rankloop.training.solution_path import DEFAULT_PATH, BatchSolver, SolverSettings

    risk_of(loss or "ordinal")  # reports a wrong name before the data are read
    path = DEFAULT_PATH if regularisation == "path" else tuple(numbers_of("--regularisation", regularisation))
    return BatchSolver(loss or "ordinal", tight, path, SolverSettings(engine=engine))


def engine_of(name: EngineName, workers: int | None, threads: bool = False) -> Any:
    """Return the engine of the options --engine and --workers.

    Args:
      name: The value of --engine.
      workers: The value of --workers.
      threads: Use the threads of this process for the engine `here`.
    """
    from rankloop.engine import Cluster, Here, LocalProcesses, Threads

    if name == "here":
        return Threads(workers=workers) if threads else Here()
    return LocalProcesses(workers=workers) if name == "local" else Cluster(workers=workers)


@contextmanager
def interruptible(outcome: str = "finished runs are kept; run the same command again to continue") -> Iterator[None]:
    """End the command on Ctrl-C with one line about the outcome, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nrankloop: interrupted; {outcome}", err=True)
        raise typer.Exit(130) from None
