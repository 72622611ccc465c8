"""Files for other engines: uploads of the learning-to-rank plugins, ONNX, and JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats
from rankloop.export.linear_model import HashedModel, LinearModel, saved_model
from rankloop.export.tree_model import (
    TreeModel,
    json_trees,
    lost_in_engines,
    onnx_attributes,
    plugin_trees,
    read_tree_model,
    solr_trees,
)

ONNX_MISSING = "ONNX needs the package onnx, which is not installed: pip install 'rankloop[onnx]'"
OPSET, ML_OPSET, IR_VERSION = 13, 3, 8  # as old as can be, so that most runtimes read it
FORMAT_VERSION = 1
HASHED_COLUMNS = (
    "{to} has named numbers only, and {file} has a schema, whose texts, crosses and curves of numbers it cannot "
    "compute: let the service rank, export it --to json, or train trees on the columns that the engine has "
    "(train-clicks LOG --trees lightgbm --without COLUMN) and export those"
)


def _plugin_upload(model: LinearModel | TreeModel, name: str) -> bytes:
    """Return the body of `POST _ltr/_featureset/SET/_createmodel` of the Elasticsearch and OpenSearch plugins."""
    if isinstance(model, TreeModel):
        return _json(plugin_trees(model, name))
    normalizers = {
        term.name: {"standard": {"mean": term.mean, "standard_deviation": term.deviation}}
        for term in model.terms
        if term.is_scaled
    }
    weights = json.dumps({term.name: term.weight for term in model.terms})
    definition: dict[str, Any] = {"type": "model/linear", "definition": weights}
    if normalizers:
        definition["feature_normalizers"] = normalizers
    return _json({"model": {"name": name, "model": definition}})


def _solr_upload(model: LinearModel | TreeModel, name: str) -> bytes:
    """Return the body of `PUT …/schema/model-store` of Solr: trees, or a linear model with a normalizer per feature."""
    if isinstance(model, TreeModel):
        return _json(solr_trees(model, name))
    features = []
    for term in model.terms:
        feature: dict[str, Any] = {"name": term.name}
        if term.is_scaled:
            params = {"avg": repr(term.mean), "std": repr(term.deviation)}
            feature["norm"] = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": params}
        features.append(feature)
    return _json(
        {
            "class": "org.apache.solr.ltr.model.LinearModel",
            "name": name,
            "features": features,
            "params": {"weights": {term.name: term.weight for term in model.terms}},
        }
    )


def _onnx_file(model: LinearModel | TreeModel, name: str) -> bytes:
    """Return an ONNX graph from `features` (n_items, n_features) to `scores` (n_items,), in float64.

    The names of the features, in their order, are in the metadata as JSON; of trees on texts also their encoding.
    """
    try:
        import onnx
        from onnx import helper
    except ImportError:
        raise InvalidInput(ONNX_MISSING) from None

    nodes, constants = _onnx_trees(model) if isinstance(model, TreeModel) else _onnx_sum(model)
    names = model.names
    inputs = helper.make_tensor_value_info("features", onnx.TensorProto.DOUBLE, ["n_items", len(names)])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.DOUBLE, ["n_items"])
    graph = helper.make_graph(nodes, name, [inputs], [scores], constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="rankloop")
    made.ir_version = IR_VERSION
    metadata = {"feature_names": json.dumps(names), "lost": json.dumps(getattr(model, "lost", ()))}
    if isinstance(model, TreeModel):
        metadata["columns"] = json.dumps([column._asdict() for column in model.columns])
    helper.set_model_props(made, metadata)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def _onnx_sum(model: LinearModel) -> tuple[list[Any], list[Any]]:
    """Return the nodes and constants of a weighted sum."""
    from onnx import helper

    _, weights, means, deviations = zip(*model.terms)
    nodes = [
        helper.make_node("Sub", ["features", "means"], ["centred"]),
        helper.make_node("Div", ["centred", "deviations"], ["scaled"]),
        helper.make_node("MatMul", ["scaled", "weights"], ["scores"]),
    ]
    parts = {"means": means, "deviations": deviations, "weights": weights}
    return nodes, [_onnx_constant(values, part) for part, values in parts.items()]


def _onnx_trees(model: TreeModel) -> tuple[list[Any], list[Any]]:
    """Return the nodes and constants of a sum of trees."""
    from onnx import TensorProto, helper

    attributes: dict[str, Any] = dict(onnx_attributes(model))
    for part in ("nodes_values", "target_weights"):
        attributes[f"{part}_as_tensor"] = _onnx_constant(attributes.pop(part), part)
    ensemble = helper.make_node(
        "TreeEnsembleRegressor", ["features"], ["column"], domain="ai.onnx.ml", n_targets=1, **attributes
    )
    shaped = helper.make_node("Reshape", ["column", "shape"], ["flat"])
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [-1])
    return [ensemble, shaped, helper.make_node("Cast", ["flat"], ["scores"], to=TensorProto.DOUBLE)], [shape]


def _onnx_constant(values: Any, name: str) -> Any:
    import numpy as np
    from onnx import numpy_helper

    array: Floats = np.array(values, dtype=np.float64)
    return numpy_helper.from_array(array, name)


def _json_file(model: LinearModel | HashedModel | TreeModel, name: str) -> bytes:
    """Return the weights by feature as JSON, the nodes of trees, or a schema and the weights by its columns."""
    if isinstance(model, TreeModel):
        return _json({"format": FORMAT_VERSION, "kind": "trees", "name": name, **json_trees(model)})
    if isinstance(model, HashedModel):
        weights = {str(column): weight for column, weight in sorted(model.columns.items())}
        plain = {"schema": model.schema.to_plain(), "weights": weights}
        return _json({"format": FORMAT_VERSION, "kind": "hashed", "name": name, **plain, "lost": model.lost})
    terms = [term._asdict() for term in model.terms]
    return _json({"format": FORMAT_VERSION, "kind": "linear", "name": name, "features": terms, "lost": model.lost})


WRITERS: dict[str, Callable[[Any, str], bytes]] = {
    "elasticsearch-ltr": _plugin_upload,
    "opensearch-ltr": _plugin_upload,
    "solr": _solr_upload,
    "onnx": _onnx_file,
    "json": _json_file,
}
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

    Returns:
      The content of the file.
    """
    if to not in WRITERS:
        raise InvalidInput(f"--to {to!r} is not known{nearest(to, WRITERS)}")
    file = Path(path)
    if not file.is_file():
        raise NotFound(f"there is no file {path}")
    with file.open("rb") as opened:
        is_trees = opened.read(5).startswith((b"{", b"tree\n"))
    model = read_tree_model(file) if is_trees else saved_model(file)
    if isinstance(model, HashedModel) and to != "json":
        raise InvalidInput(HASHED_COLUMNS.format(to=to, file=file.name))
    if isinstance(model, TreeModel):
        lost = () if to in ("onnx", "json") else lost_in_engines(model, keeps_missing=to == "solr")
    else:
        lost = model.lost
    if lost and not approximate:
        raise InvalidInput(f"{to} cannot hold all of {file.name}: {'; '.join(lost)}. Leave it out with --approximate")
    return ExportedModel(WRITERS[to](model, name), lost)


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
