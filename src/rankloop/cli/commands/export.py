"""`rankloop export`: write a saved ranker in the format of another engine."""

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, argument, flag, option
from rankloop.cli.output import print_json

FORMAT_EXTENSIONS = {"onnx": ".onnx"}


@command(
    "In use",
    "rankloop export shop.rankloop --to opensearch-ltr",
    "rankloop export shop.rankloop --to onnx --out shop.onnx",
    "rankloop export shop.rankloop --to solr --approximate --log shop.csv",
)
def export(
    model: Annotated[Path, argument("MODEL", "A saved ranker.")],
    to: Annotated[str, option("--to", "FORMAT", "elasticsearch-ltr, opensearch-ltr, solr, onnx or json.")],
    out: Annotated[Path | None, option("--out", "FILE", "Output file. Default: beside the model.")] = None,
    name: Annotated[str, option("--name", "NAME", "Name of the model in the engine.")] = "",
    approximate: Annotated[
        bool, flag("--approximate", "Leave out what the format does not support, such as exploration.")
    ] = False,
    log: Annotated[
        Path | None,
        option(
            "--log", "TABLE", "With --approximate: lists on which a linear model is fitted to a ranker with a schema."
        ),
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write a saved ranker for another engine: a weighted sum of named features, each with its normaliser.

    Exploration, features of the user and the hashed columns of a schema (except in json) are not supported by the
    formats: such a ranker is refused unless --approximate. A ranker with a schema is approximated by its numeric
    columns, on the lists of a table; the command prints the share of item pairs that both order alike.
    """
    from rankloop.core.files import atomic_write
    from rankloop.export.formats import UPLOAD_COMMANDS, export_model

    model_name = name or model.stem
    exported = export_model(model, to, name=model_name, approximate=approximate, log=log)
    path = out or model.with_name(f"{model.stem}.{to}").with_suffix(FORMAT_EXTENSIONS.get(to, ".json"))
    atomic_write(path, exported.content)
    if as_json:
        answer = {"file": str(path), "format": to, "name": model_name}
        print_json(answer | {"lost": exported.lost, "agreement": exported.agreement})
        return
    typer.echo(f"{path}: {model_name} as {to}")
    for part in exported.lost:
        typer.echo(f"left out: {part}")
    if exported.agreement < 1.0:
        typer.echo(f"the export orders {exported.agreement:.1%} of the item pairs of {log} as the ranker does")
    if to in UPLOAD_COMMANDS:
        typer.echo(f"upload: {UPLOAD_COMMANDS[to].format(file=path, name=model_name)}")
