"""`rankloop export`: a saved ranker for the engine that is there."""

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, argument, flag, option
from rankloop.cli.output import print_json

EXTENSIONS = {"onnx": ".onnx"}


@command(
    "In use",
    "rankloop export shop.rankloop --to opensearch-ltr",
    "rankloop export shop.rankloop --to onnx --out shop.onnx",
    "rankloop export shop.rankloop --to solr --approximate --log shop.csv",
)
def export(
    model: Annotated[Path, argument("MODEL", "A saved ranker.")],
    to: Annotated[str, option("--to", "FORMAT", "elasticsearch-ltr, opensearch-ltr, solr, onnx or json.")],
    out: Annotated[Path | None, option("--out", "FILE", "The file; beside the model unless given.")] = None,
    name: Annotated[str, option("--name", "NAME", "What the engine calls the model.")] = "",
    approximate: Annotated[
        bool, flag("--approximate", "Leave out what the format cannot hold, such as exploration.")
    ] = False,
    log: Annotated[
        Path | None,
        option(
            "--log", "TABLE", "With --approximate: lists on which a sum of numbers is fitted to a ranker with a schema."
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
    from rankloop.export.formats import UPLOADS, export_model

    called = name or model.stem
    exported = export_model(model, to, name=called, approximate=approximate, log=log)
    path = out or model.with_name(f"{model.stem}.{to}").with_suffix(EXTENSIONS.get(to, ".json"))
    atomic_write(path, exported.content)
    if as_json:
        answer = {"file": str(path), "format": to, "name": called}
        print_json(answer | {"lost": exported.lost, "agreement": exported.agreement})
        return
    typer.echo(f"{path}: {called} as {to}")
    for part in exported.lost:
        typer.echo(f"left out: {part}")
    if exported.agreement < 1.0:
        typer.echo(f"it orders {exported.agreement:.1%} of the pairs of {log} as the ranker does")
    if to in UPLOADS:
        typer.echo(f"upload: {UPLOADS[to].format(file=path, name=called)}")
