"""Files for other engines: uploads of the learning-to-rank plugins, ONNX, and JSON; of weighted sums and of trees."""

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.extras import import_extra
from rankloop.core.learner import RobustState, from_layers, layers_of
from rankloop.core.registry.specs import nearest
from rankloop.core.saved_session import load_with_notes
from rankloop.core.session import Session
from rankloop.core.types import Features, Floats, Query, Rows
from rankloop.evaluation.ranking.score import NORMALISED_NOTE
from rankloop.export.tree_model import TreeModel, read_tree_model
from rankloop.features.schema import Schema
from rankloop.learners.wrappers.feature_maps import MIN_RELATIVE_DEVIATION

OPSET, ML_OPSET, IR_VERSION = 13, 3, 8  # as old as can be, so that most runtimes read it
FORMAT_VERSION = 1
FORMAT_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
UPLOAD_COMMANDS, LOST = FORMAT_TEXTS["upload"], FORMAT_TEXTS["lost"]
FORMATS = (*UPLOAD_COMMANDS, "onnx", "json")
N_CHECKED_QUERIES, N_CHECKED_ITEMS = 40, 8  # random queries by which a model is compared with the ranker
MAX_ROUNDING_ERROR = 1e-9


class Term(NamedTuple):
    """A feature, its weight, and its scaling (value − mean) / deviation."""

    name: str
    weight: float
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def is_scaled(self) -> bool:
        """True where mean or deviation is not the default."""
        return self.mean != 0.0 or self.deviation != 1.0


class LinearModel(NamedTuple):
    """score = Σ weight · (feature − mean) / deviation; `lost` says what of the ranker is not in it."""

    terms: tuple[Term, ...]
    lost: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return [term.name for term in self.terms]

    def scores(self, features: Floats) -> Floats:
        """Return the scores of rows of features, in the order of the terms."""
        _, weights, means, deviations = zip(*self.terms)
        scores: Floats = (features - np.array(means)) / np.array(deviations) @ np.array(weights)
        return scores

    def plugin_upload(self, name: str) -> dict[str, Any]:
        """Return the body of `POST _ltr/_featureset/SET/_createmodel` of the Elasticsearch and OpenSearch plugins."""
        weights = json.dumps({term.name: term.weight for term in self.terms})
        definition: dict[str, Any] = {"type": "model/linear", "definition": weights}
        scaled = [term for term in self.terms if term.is_scaled]
        if scaled:
            definition["feature_normalizers"] = {
                term.name: {"standard": {"mean": term.mean, "standard_deviation": term.deviation}} for term in scaled
            }
        return {"model": {"name": name, "model": definition}}

    def solr_upload(self, name: str) -> dict[str, Any]:
        """Return the body of `PUT …/schema/model-store` of Solr: a linear model with a normalizer per feature."""
        features: list[dict[str, Any]] = []
        for term in self.terms:
            params = {"avg": repr(term.mean), "std": repr(term.deviation)}
            norm = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": params}
            features.append({"name": term.name, "norm": norm} if term.is_scaled else {"name": term.name})
        weights = {term.name: term.weight for term in self.terms}
        kind = "org.apache.solr.ltr.model.LinearModel"
        return {"class": kind, "name": name, "features": features, "params": {"weights": weights}}

    def onnx_nodes(self) -> tuple[list[Any], list[Any]]:
        """Return the nodes and constants of a weighted sum."""
        make_node, from_array = import_extra("onnx.helper").make_node, import_extra("onnx.numpy_helper").from_array
        _, weights, means, deviations = zip(*self.terms)
        nodes = [
            make_node("Sub", ["features", "means"], ["centred"]),
            make_node("Div", ["centred", "deviations"], ["scaled"]),
            make_node("MatMul", ["scaled", "weights"], ["scores"]),
        ]
        parts = {"means": means, "deviations": deviations, "weights": weights}
        return nodes, [from_array(np.array(values, dtype=np.float64), part) for part, values in parts.items()]

    def to_plain(self, name: str) -> dict[str, Any]:
        """Return the terms as plain tables."""
        return {"kind": "linear", "name": name, "features": [term._asdict() for term in self.terms], "lost": self.lost}


class HashedModel(NamedTuple):
    """The weights of a ranker with a schema, by column; `lost` as above."""

    schema: Schema
    columns: dict[int, float]
    lost: tuple[str, ...] = ()

    def to_plain(self, name: str) -> dict[str, Any]:
        """Return the schema and the weights by its columns as plain tables."""
        weights = {str(column): weight for column, weight in sorted(self.columns.items())}
        return {"kind": "hashed", "name": name, "schema": self.schema.to_plain(), "weights": weights, "lost": self.lost}


def _saved_model(path: str | Path) -> LinearModel | HashedModel:
    """Read the weight per named feature, or per hashed column of a schema, by which a saved ranker orders items."""
    session, notes = load_with_notes(path)
    name, lost = Path(path).name, list[str]()
    if session.problem.n_features == 0:
        raise InvalidInput(f"{name} remembers single items and has no features: there is no model to export")
    if _explores(session):
        lost.append(LOST["exploration"])
    if session.problem.n_context:
        lost.append(LOST["context"].format(n=session.problem.n_context))
    if notes.get(NORMALISED_NOTE):
        lost.append(LOST["normalisation"])
    schemas = [Schema.from_plain(plain) for plain in notes.get("schemas") or ()]
    if schemas:
        newest = max(schemas, key=lambda schema: schema.version)
        columns, values = from_layers(session.state, "table").used()
        weights = {int(column): float(weight) for column, weight in zip(columns, values[:, 0]) if weight != 0.0}
        return HashedModel(newest, weights, tuple(lost))
    if isinstance(session.state, RobustState):
        lost.append(LOST["ranges"])
        learner: Any = session.learner
        session = session.continued(learner.inner, session.problem, session.state.inner)
    model = LinearModel(_terms(session, name), tuple(lost))
    _check(session, model, name)
    return model


def _explores(session: Session) -> bool:
    """Return true if a ranker may show another order than the one that it predicts."""
    # The exact probability of that order on a random query tells it, whatever the learner and its wrappers are.
    problem, rng = session.problem, np.random.default_rng(0)
    n_items = problem.n_items or 3
    features: Features = rng.normal(size=(n_items, problem.n_dense))
    if problem.n_hashed:
        columns = np.sort(rng.choice(problem.n_hashed, size=min(n_items, problem.n_hashed), replace=False))
        positions = np.arange(n_items) % len(columns)
        features = Rows(np.arange(n_items + 1), positions, np.ones(n_items), columns, features)  # type: ignore[arg-type]
    query = Query("", features, np.zeros(problem.n_context))
    best = session.learner.predict(session.state, query)
    return not abs(session.learner.log_prob(session.state, query, best)) <= MAX_ROUNDING_ERROR


def _terms(session: Session, name: str) -> tuple[Term, ...]:
    """Weights and the moments of `standardised`, from the layers of the state."""
    problem = session.problem
    names = problem.feature_names or tuple(f"feature_{i}" for i in range(problem.n_features))
    weights = from_layers(session.state, "weights")
    if not isinstance(weights, np.ndarray) or weights.shape != (problem.n_features,):
        raise InvalidInput(f"{name}: {type(session.learner).__name__} has no weight for each feature to export")
    means, deviations, scaled = np.zeros(len(names)), np.ones(len(names)), np.array(weights, dtype=np.float64)
    for layer in layers_of(session.state):
        if hasattr(layer, "squares") and layer.n_rows:
            means, deviations = layer.mean, np.sqrt(layer.squares / layer.n_rows)
            scaled = np.where(deviations > MIN_RELATIVE_DEVIATION * np.abs(means), scaled, 0.0)
            deviations = np.where(deviations > MIN_RELATIVE_DEVIATION * np.abs(means), deviations, 1.0)
    return tuple(map(Term, names, scaled.tolist(), means.tolist(), deviations.tolist()))


def _check(session: Session, model: LinearModel, name: str) -> None:
    """Refuse a ranker that orders items in another way than by its weights."""
    rng, learner = np.random.default_rng(0), session.learner
    means, deviations = (np.array([term[i] for term in model.terms]) for i in (2, 3))
    for _ in range(N_CHECKED_QUERIES):
        features = means + deviations * rng.normal(size=(N_CHECKED_ITEMS, len(means)))
        order = learner.predict(session.state, Query("", features, np.zeros(session.problem.n_context)))
        scores = model.scores(features)
        if np.diff(scores[order]).max(initial=-1.0) > MAX_ROUNDING_ERROR * max(1.0, float(np.abs(scores).max())):
            raise InvalidInput(
                f"{name}: {type(learner).__name__} does not order items by a weighted sum of their features, which is "
                "all that these formats hold"
            )


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
    model = read_tree_model(file) if is_trees else _saved_model(file)
    if isinstance(model, HashedModel) and to != "json":
        raise InvalidInput(FORMAT_TEXTS["hashed_columns"].format(to=to, file=file.name))
    lost = model.lost_in(to) if isinstance(model, TreeModel) else model.lost
    if lost and not approximate:
        raise InvalidInput(f"{to} cannot hold all of {file.name}: {'; '.join(lost)}. --approximate exports the rest")
    if to == "json" or isinstance(model, HashedModel):
        return ExportedModel(_json({"format": FORMAT_VERSION, **model.to_plain(name)}), lost)
    if to == "onnx":
        return ExportedModel(_onnx_file(model, name, lost), lost)
    return ExportedModel(_json(model.solr_upload(name) if to == "solr" else model.plugin_upload(name)), lost)


def _onnx_file(model: LinearModel | TreeModel, name: str, lost: tuple[str, ...]) -> bytes:
    """Return an ONNX graph from `features` (n_items, n_features) to `scores` (n_items,), in float64."""
    # The names of the features, in their order, are in the metadata as JSON; of trees on texts also their encoding.
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
