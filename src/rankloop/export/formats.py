"""Files for other engines: uploads of the learning-to-rank plugins, ONNX, and JSON."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.extras import import_extra
from rankloop.core.registry.specs import nearest
from rankloop.export.linear_model import HashedModel, LinearModel, saved_model
from rankloop.export.tree_model import TreeModel, read_tree_model

OPSET, ML_OPSET, IR_VERSION = 13, 3, 8  # as old as can be, so that most runtimes read it
FORMAT_VERSION = 1
HASHED_COLUMNS = (
    "{to} has named numbers only, and {file} has a schema, whose texts, crosses and curves of numbers it cannot "
    "compute: let the service rank, export it --to json, or train trees on the columns that the engine has "
    "(train-clicks LOG --trees lightgbm --without COLUMN) and export those"
)
PLUGIN_COMMAND = (
    "curl -X POST -H 'Content-Type: application/json' --data-binary @{file} "
    "'http://localhost:9200/_ltr/_featureset/{name}/_createmodel'"
)
UPLOAD_COMMANDS = {
    "elasticsearch-ltr": PLUGIN_COMMAND,
    "opensearch-ltr": PLUGIN_COMMAND,
    "solr": "curl -X PUT -H 'Content-Type: application/json' --data-binary @{file} "
    "'http://localhost:8983/solr/COLLECTION/schema/model-store'",
}
FORMATS = (*UPLOAD_COMMANDS, "onnx", "json")


class ExportedModel(NamedTuple):
    """The content of a file for another engine, which orders items alike, and what it does not hold of the ranker."""

    content: bytes
    lost: tuple[str, ...]


def export_model(path: str | Path, to: str, *, name: str, approximate: bool = False) -> ExportedModel:
    """Convert a saved ranker, or the file of boosted trees, to the format of another engine.

    Args:
      path: The file.
      to: The format: elasticsearch-ltr, opensearch-ltr, solr, onnx or json.
      name: What the engine calls the model.
      approximate: Leave out what the format cannot hold, such as exploration.
    """
    if to not in FORMATS:
        raise InvalidInput(f"--to {to!r} is not known{nearest(to, FORMATS)}")
    file = Path(path)
    if not file.is_file():
        raise NotFound(f"there is no file {path}")
    with file.open("rb") as opened:
        is_trees = opened.read(5).startswith((b"{", b"tree\n"))
    model = read_tree_model(file) if is_trees else saved_model(file)
    if isinstance(model, HashedModel) and to != "json":
        raise InvalidInput(HASHED_COLUMNS.format(to=to, file=file.name))
    lost = model.lost_in(to) if isinstance(model, TreeModel) else model.lost
    if lost and not approximate:
        raise InvalidInput(f"{to} cannot hold all of {file.name}: {'; '.join(lost)}. Leave it out with --approximate")
    if to == "json" or isinstance(model, HashedModel):
        return ExportedModel(_json({"format": FORMAT_VERSION, **model.to_plain(name)}), lost)
    if to == "onnx":
        return ExportedModel(_onnx_file(model, name, lost), lost)
    return ExportedModel(_json(model.solr_upload(name) if to == "solr" else model.plugin_upload(name)), lost)


def _onnx_file(model: LinearModel | TreeModel, name: str, lost: tuple[str, ...]) -> bytes:
    """Return an ONNX graph from `features` (n_items, n_features) to `scores` (n_items,), in float64.

    The names of the features, in their order, are in the metadata as JSON; of trees on texts also their encoding.
    """
    onnx, helper = import_extra("onnx"), import_extra("onnx.helper")
    nodes, constants = model.onnx_nodes()
    inputs = helper.make_tensor_value_info("features", onnx.TensorProto.DOUBLE, ["n_items", len(model.names)])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.DOUBLE, ["n_items"])
    graph = helper.make_graph(nodes, name, [inputs], [scores], constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="rankloop")
    made.ir_version = IR_VERSION
    metadata = {"feature_names": json.dumps(model.names), "lost": json.dumps(lost)}
    if isinstance(model, TreeModel):
        metadata["columns"] = json.dumps([column._asdict() for column in model.columns])
    helper.set_model_props(made, metadata)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
