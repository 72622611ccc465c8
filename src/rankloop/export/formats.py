"""Files for other engines: uploads of the learning-to-rank plugins, ONNX, and JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats
from rankloop.export.linear_model import (
    LOST_HASHED_COLUMNS,
    HashedModel,
    LinearModel,
    linear_approximation,
    saved_model,
)
from rankloop.logs.reader import lists_in

ONNX_MISSING = "ONNX needs the package onnx, which is not installed: pip install 'rankloop[onnx]'"
OPSET, IR_VERSION = 13, 8  # as old as can be, so that most runtimes read it
FORMAT_VERSION = 1


def plugin_upload(model: LinearModel, name: str) -> bytes:
    """Return the body of `POST _ltr/_featureset/SET/_createmodel` of the Elasticsearch and OpenSearch plugins.

    Args:
      model: The model.
      name: Its name in the engine.
    """
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


def solr_upload(model: LinearModel, name: str) -> bytes:
    """Return the body of `PUT …/schema/model-store` of Solr: a `LinearModel` with a `StandardNormalizer` per feature.

    Args:
      model: The model.
      name: Its name in the engine.
    """
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


def onnx_file(model: LinearModel, name: str) -> bytes:
    """Return an ONNX graph from `features` (n_items, n_features) to `scores` (n_items,), in float64.

    The names of the features, in their order, are in the metadata as JSON.

    Args:
      model: The model.
      name: Its name in the engine.
    """
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError:
        raise InvalidInput(ONNX_MISSING) from None
    import numpy as np

    names, weights, means, deviations = zip(*model.terms)

    def constant(values: Any, called: str) -> Any:
        array: Floats = np.array(values, dtype=np.float64)
        return numpy_helper.from_array(array, called)

    nodes = [
        helper.make_node("Sub", ["features", "means"], ["centred"]),
        helper.make_node("Div", ["centred", "deviations"], ["scaled"]),
        helper.make_node("MatMul", ["scaled", "weights"], ["scores"]),
    ]
    inputs = helper.make_tensor_value_info("features", onnx.TensorProto.DOUBLE, ["n_items", len(names)])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.DOUBLE, ["n_items"])
    constants = [constant(means, "means"), constant(deviations, "deviations"), constant(weights, "weights")]
    graph = helper.make_graph(nodes, name, [inputs], [scores], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="rankloop")
    made.ir_version = IR_VERSION
    helper.set_model_props(made, {"feature_names": json.dumps(names), "lost": json.dumps(model.lost)})
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def json_file(model: LinearModel | HashedModel, name: str) -> bytes:
    """Return the weights by feature as JSON; for a ranker with a schema the schema and the weights by column.

    Args:
      model: The model.
      name: Its name in the engine.
    """
    if isinstance(model, HashedModel):
        weights = {str(column): weight for column, weight in sorted(model.columns.items())}
        plain = {"schema": model.schema.to_plain(), "weights": weights}
        return _json({"format": FORMAT_VERSION, "kind": "hashed", "name": name, **plain, "lost": model.lost})
    terms = [term._asdict() for term in model.terms]
    return _json({"format": FORMAT_VERSION, "kind": "linear", "name": name, "features": terms, "lost": model.lost})


WRITERS: dict[str, Callable[[LinearModel, str], bytes]] = {
    "elasticsearch-ltr": plugin_upload,
    "opensearch-ltr": plugin_upload,
    "solr": solr_upload,
    "onnx": onnx_file,
    "json": json_file,
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
    """The content of a file for another engine, and what it does not hold of the ranker."""

    content: bytes
    lost: tuple[str, ...]
    agreement: float  # share of the pairs of items that it orders as the ranker does


def export_model(path: str | Path, to: str, *, name: str, approximate: bool = False, log: Any = None) -> ExportedModel:
    """Convert a saved ranker to the format of another engine.

    Args:
      path: The file of the ranker.
      to: The format: elasticsearch-ltr, opensearch-ltr, solr, onnx or json.
      name: What the engine calls the model.
      approximate: Leave out what the format cannot hold, such as exploration.
      log: A log of lists (what `read_log` reads) on which a sum of numbers is fitted to a ranker with a schema.

    Returns:
      The content of the file.

    Raises:
      InvalidInput: If the format is unknown, or cannot hold all of the ranker and `approximate` is false.
    """
    if to not in WRITERS:
        raise InvalidInput(f"--to {to!r} is not known{nearest(to, WRITERS)}")
    model, file = saved_model(path), Path(path).name
    is_hashed = isinstance(model, HashedModel) and to != "json"
    lost = (*model.lost, *((LOST_HASHED_COLUMNS,) if is_hashed else ()))
    if lost and not approximate:
        raise InvalidInput(f"{to} cannot hold all of {file}: {'; '.join(lost)}. Leave it out with --approximate")
    if isinstance(model, HashedModel):
        if to == "json":
            return ExportedModel(json_file(model, name), lost, 1.0)
        if log is None:
            raise InvalidInput(
                f"{to} has named numbers only, and {file} has a schema: give a table of lists on which to fit them, "
                "--log TABLE"
            )
        model = linear_approximation(model, lists_in(log, schema=model.schema).lists(model.schema))
    return ExportedModel(WRITERS[to](model, name), model.lost, model.agreement)


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
