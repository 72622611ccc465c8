"""`rankloop export`: write a saved ranker in the format of another engine."""

from pathlib import Path
from typing import Annotated

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, argument, option
from rankloop.cli.output import show

FORMAT_EXTENSIONS = {"onnx": ".onnx"}


@command("In use")
def export(
    model: Annotated[Path, argument("MODEL", "A saved ranker, or the file of boosted trees.")],
    to: Annotated[str, option("--to FORMAT", "elasticsearch-ltr, opensearch-ltr, solr, onnx or json.")],
    out: Annotated[Path | None, option("--out FILE", "Output file. Default: beside the model.")] = None,
    name: Annotated[str, option("--name NAME", "Name of the model in the engine.")] = "",
    approximate: Annotated[bool, option("--approximate", "Leave out what the format lacks, as exploration.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write a saved ranker or boosted trees for another engine, which then orders items alike.

    A linear ranker becomes a weighted sum of named features, each with its normaliser; the trees of --trees become
    trees. Exploration and features of the user are not supported by the formats: such a ranker is refused unless
    --approximate. Texts and the columns of a schema are refused, as the message says: only json holds them all.
    """
    from rankloop.core.files import atomic_write
    from rankloop.export.formats import UPLOAD_COMMANDS, export_model

    model_name = name or model.stem
    exported = export_model(model, to, name=model_name, approximate=approximate)
    path = out or model.with_suffix(FORMAT_EXTENSIONS.get(to, ".json"))
    if path.resolve() == model.resolve():
        path = model.with_name(f"{model.stem}-{to}.json")
    atomic_write(path, exported.content)
    lines = [f"{path}: {model_name} as {to}", *(f"left out: {part}" for part in exported.lost)]
    if to in UPLOAD_COMMANDS:
        lines.append(f"upload: {UPLOAD_COMMANDS[to].format(file=path, name=model_name)}")
    show(as_json, {"file": str(path), "format": to, "name": model_name, "lost": exported.lost}, lines)
