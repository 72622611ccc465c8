"""Which data of a command stay on the disks, and are read by the workers."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.folder import given_path
from rankloop.data.parts.memory import fit_memory
from rankloop.data.parts.source import SCHEME, Source, sources_in
from rankloop.engine import Cluster, Engine, SummingEngine
from rankloop.service.log.stores.open import POSTGRES
from rankloop.service.log.stores.sqlite import FILE

if TYPE_CHECKING:
    from rankloop.cli.train_schema import LogTraining


def address_of(data: str, engine: Engine, stream: bool) -> str | None:
    """Where the parts lie; None: the data are read into the memory of this process.

    An address, a folder of parts, a folder with a cluster, and whatever is asked to be streamed or needs more memory
    than there is. On a cluster, a path that this machine does not see is left to the workers.
    """
    if SCHEME in data:
        return data
    try:
        path = given_path(data)
    except NotFound:
        if isinstance(engine, Cluster):
            return data
        raise
    if stream or (path.is_dir() and (isinstance(engine, Cluster) or not _has_folds(path))):
        return str(path)
    return None if fit_memory(_files(path)) else str(path)


def is_in_parts(log: str) -> bool:
    """Whether a log is a folder or an address; what only the workers of a cluster see is given as file://…

    The folder or the database of a service is a log of its own.
    """
    if log.startswith(POSTGRES):
        return False
    if SCHEME in log:
        return True
    try:
        path = given_path(log)
    except NotFound:
        return False
    return path.is_dir() and not (path / FILE).exists()


def train_on_parts(address: str, how: "LogTraining", engine: SummingEngine, out: Path, as_json: bool) -> None:
    """A ranker from a log of lists and clicks in parts."""
    from rankloop.cli.output import print_json, show_table
    from rankloop.cli.progress import progress_bar
    from rankloop.cli.train_schema import bias_of
    from rankloop.click_logs.parts import LogColumns, train_on_click_parts
    from rankloop.click_logs.train import GAIN
    from rankloop.experiments.report.model import Table
    from rankloop.logs.columns import LIST_GUESSES, named_columns

    for name in ("schema", "guess", "learner", "passes", "shown", "epsilon"):
        if getattr(how, name) is not None:
            raise InvalidInput(f"--{name} is for a log in one file; {address!r} holds parts")
    roles = named_columns(how.column, tuple(LIST_GUESSES))
    columns = LogColumns(tuple(how.without), tuple(roles.items()), tuple(how.features))
    bias = None if how.position_bias is None else bias_of(how.position_bias).tolist()
    where = address if SCHEME in address else str(given_path(address))
    with progress_bar("training", unit="fits") as progress:
        ranker = train_on_click_parts(
            where,
            engine,
            how.loss,
            columns=columns,
            path=how.path,
            position_bias=bias,
            clip=how.clip,
            progress=progress,
        )
    out.mkdir(parents=True, exist_ok=True)
    model = out / "model.rankloop"
    ranker.save(model)
    curve = {f"{regularisation:g}": gain for regularisation, gain in ranker.gains.items()}
    if as_json:
        answer = {"model": str(model), "regularisation": ranker.regularisation, "held_out": curve}
        print_json(answer | {"looked_at": ranker.examined.tolist(), "features": ranker.feature_names})
        return
    typer.echo(f"features: {', '.join(ranker.feature_names)}")
    rows = [(regularisation, f"{gain:.4f}") for regularisation, gain in curve.items()]
    show_table(Table("Weighted clicks gained on held-out lists", ("regularisation", GAIN), rows))
    typer.echo(f"chosen: {ranker.regularisation:g}\nmodel: {model}")


def _has_folds(folder: Path) -> bool:
    return (folder / "folds.json").is_file() or any(each.is_dir() for each in folder.glob("Fold*"))


def _files(path: Path) -> list[Source]:
    """What training would read; of folders Fold1 … those of the first, since one is in memory as often as another."""
    try:
        return sources_in(str(path))
    except NotFound:
        return [source for folder in path.glob("Fold*") for source in sources_in(str(folder))]
