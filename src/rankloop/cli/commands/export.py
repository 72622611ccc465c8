"""`rankloop export`: a saved ranker for the engine that is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.export.linear_model import HashedModel, LinearModel

EXTENSIONS = {"onnx": ".onnx"}


@command(
    "In use",
    "rankloop export shop.rankloop --to opensearch-ltr",
    "rankloop export shop.rankloop --to onnx --out shop.onnx",
    "rankloop export shop.rankloop --to solr --approximate --log shop.csv",
)
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved ranker.")],
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="elasticsearch-ltr, opensearch-ltr, solr, onnx or json.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file; beside the model unless given.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the engine calls the model.")] = "",
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Leave out what the format cannot hold, such as exploration.")
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            metavar="TABLE",
            help="With --approximate: lists on which a sum of numbers is fitted to a ranker with a schema.",
        ),
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write a saved ranker as other engines read it: a weighted sum of named features, each with its normaliser.

    What the format cannot hold is said, and refused unless --approximate: exploration, what is known of whoever asks,
    and the hashed columns of a schema, which only json has. A ranker with a schema is approximated by its columns of
    numbers, on the lists of a table; how many pairs of items both order alike is told.
    """
    from rankloop.core.files import atomic_write
    from rankloop.export.formats import UPLOADS, exported
    from rankloop.export.linear_model import saved_model

    found, called = saved_model(model), name or model.stem
    found = _fitting(found, to, approximate, log, model)
    content = exported(found, to, called)
    path = out or model.with_name(f"{model.stem}.{to}").with_suffix(EXTENSIONS.get(to, ".json"))
    atomic_write(path, content)
    agreement = getattr(found, "agreement", 1.0)
    if as_json:
        from rankloop.cli.output import print_json

        print_json({"file": str(path), "format": to, "name": called, "lost": found.lost, "agreement": agreement})
        return
    typer.echo(f"{path}: {called} as {to}")
    for part in found.lost:
        typer.echo(f"left out: {part}")
    if agreement < 1.0:
        typer.echo(f"it orders {agreement:.1%} of the pairs of {log} as the ranker does")
    if to in UPLOADS:
        typer.echo(f"upload: {UPLOADS[to].format(file=path, name=called)}")


def _fitting(
    found: "LinearModel | HashedModel", to: str, approximate: bool, log: Path | None, model: Path
) -> "LinearModel | HashedModel":
    """The model that a format can hold, or what stands in the way."""
    from rankloop.export.formats import LINEAR
    from rankloop.export.linear_model import HASHED, HashedModel, resembling

    hashed = isinstance(found, HashedModel) and to in LINEAR and to != "json"
    lost = (*found.lost, *((HASHED,) if hashed else ()))
    if lost and not approximate:
        raise InvalidInput(f"{to} cannot hold all of {model.name}: {'; '.join(lost)}. Leave it out with --approximate")
    if not hashed or not isinstance(found, HashedModel):
        return found
    if log is None:
        raise InvalidInput(
            f"{to} has named numbers only, and {model.name} has a schema: give a table of lists on which to fit them, "
            "--log TABLE"
        )
    from rankloop.logs.reader import lists_in

    return resembling(found, lists_in(str(log), schema=found.schema), model)
