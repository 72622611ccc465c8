"""The configuration of a ranker: learner, problem and names, checked when it is created and when its schema changes."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from rankloop.adapter import INVALID_ID, Adapter, Id, QueryRequest, RawValues, is_valid_id
from rankloop.core.errors import InvalidInput, Rejected, rejected_as
from rankloop.core.learner import from_layers
from rankloop.core.plain_values import receipt_type
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import build, spec_of
from rankloop.core.session import Session, check_uses_context, with_robust
from rankloop.core.types import Clicks, Problem
from rankloop.core.weight_table import with_columns
from rankloop.evaluation.ranking.score import NORMALISED_NOTE
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema, sorted_cross
from rankloop.learners.wrappers.hashed_weights import BaseScore, with_hashed
from rankloop.logs.context import Encoding
from rankloop.logs.list_log import with_logged_score
from rankloop.outcomes import DeclaredOutcomes, declared_outcomes
from rankloop.rules import Rules
from rankloop.service.domain.base_score import BASE_SCORE, Base, score_name
from rankloop.service.domain.named_values import logged_values
from rankloop.service.records import Ranked, SchemaChanged
from rankloop.service.request_bodies import MAX_SIZE, CreateBody, OutcomeBody, ProblemBody, RankBody, SchemaBody

T = TypeVar("T")
FREE_FIELDS = ("shown", "depth", "catalogue")  # of a problem that are settings of a ranker, not of its model


class RankerConfig(NamedTuple):
    """A checked `CreateBody`."""

    body: CreateBody
    learner: AnyLearner
    problem: Problem
    adapter: Adapter  # turns requests into queries
    base: Base = Base()
    encoding: Encoding | None = None  # of a context by column names
    encoders: Mapping[int, Encoder] = {}  # with a schema: by version, since late feedback needs the version of its time
    rules: Rules | None = None  # applied to the learner's order
    outcomes: DeclaredOutcomes = DeclaredOutcomes()

    @property
    def schema(self) -> Schema | None:
        """The newest version of the schema; None if features are plain numbers."""
        return self.encoders[max(self.encoders)].schema if self.encoders else None

    @property
    def schemas(self) -> list[Schema]:
        """All versions of the schema."""
        return [encoder.schema for encoder in self.encoders.values()]

    def with_schemas(self, schemas: Iterable[Schema]) -> "RankerConfig":
        """Return the configuration with further versions of its schema; new requests use the newest."""
        encoders = dict(self.encoders) | {schema.version: Encoder(schema) for schema in schemas}
        newest = encoders[max(encoders)]
        names = tuple(newest.schema.features)
        problem = self.problem._replace(n_features=newest.schema.n_hashed + newest.schema.n_dense)
        adapter = self.adapter._replace(feature_names=names, n_features=len(names), encoder=newest)
        return self._replace(problem=problem, adapter=adapter, encoders=encoders)

    def with_change(self, event: SchemaChanged) -> "RankerConfig | None":
        """Return the configuration after a change of the schema; None if another change came first."""
        schema, current = Schema.from_plain(event.schema), self.schema
        return self.with_schemas([schema]) if current is not None and schema.version == current.version + 1 else None

    def with_rules(self, rules: Rules) -> "RankerConfig":
        """Return the configuration with other rules, or refuse a field that the items do not have."""
        for field in rules.fields:
            if field not in self.adapter.feature_names:
                valid = ", ".join(self.adapter.feature_names) or "none by name"
                raise Rejected("rules", f"{field!r:.80} is not a field of the items, which are {valid:.300}")
        return self._replace(rules=rules if rules != Rules() else None)

    def ruled_query(self, ids: list[Id], rows: Any, body: RankBody, at: float = 0.0) -> QueryRequest:
        """Return the query of a request without the items that rules leave out, and with those that they pin first."""
        if self.rules is None or body.order:
            return self.adapter.query(ids, rows, body.context, body.query_id, body.pinned, body.excluded, at)
        items = ids or list(self.adapter.items)
        first, left_out = self.rules.choose(items, _value_reader(rows, self.adapter.feature_names))
        left_out_ids = {str(items[item]) for part in left_out.values() for item in part}
        pinned = [id for id in body.pinned if str(id) not in left_out_ids]
        taken = left_out_ids.union(map(str, [*body.pinned, *body.excluded]))
        pinned += [items[item] for item in first if str(items[item]) not in taken]
        newly_excluded = left_out_ids.difference(map(str, body.excluded))
        excluded = [*body.excluded, *(id for id in items if str(id) in newly_excluded)]
        pinned = pinned[: max(len(items) - len(excluded) - 1, len(body.pinned))]  # something is left to rank
        query = self.adapter.query(ids, rows, body.context, body.query_id, pinned, excluded, at)
        return query._replace(rules=({"pin": first} if first else {}) | left_out)

    def ruled_order(self, request: QueryRequest, order: list[int]) -> tuple[list[int], dict[str, list[int]], bool]:
        """Return an order after the rules that move items, the items that each touched, and if they can move any."""
        rows = request.features if request.values is None else request.values.rows
        value_of, n_pinned = _value_reader(rows, self.adapter.feature_names), len(request.pinned)
        rules = self.rules or Rules()
        could_change = rules.could_change(order, n_pinned, value_of)
        ranked, touched = rules.arrange(order, n_pinned, value_of)
        return ranked, {**request.rules, **touched}, could_change

    def next_schema(self, body: SchemaBody) -> Schema | None:
        """Return the next version of the schema; None if the request changes nothing."""
        schema = self.schema
        if schema is None:
            raise Rejected("schema", "this ranker has no schema: its features are plain numbers")
        score = self.base.computed_score or (self.body.base and self.body.base.feature)
        if score in body.remove:
            raise Rejected("remove", f"{score!r} is the score of the base and cannot be removed")
        features = {name: kind for name, kind in body.features.items() if not _has_field(name, kind, schema.features)}
        context = {name: kind for name, kind in body.context.items() if not _has_field(name, kind, schema.context)}
        old_crosses = {sorted_cross(cross) for cross in schema.crosses}
        crosses = [cross for cross in body.crosses if sorted_cross(cross.replace(" ", "")) not in old_crosses]
        remove = [name for name in body.remove if not _was_removed(name, schema)]
        if not features and not context and not crosses and not remove:
            return None
        try:
            return schema.evolved(features=features, context=context, crosses=crosses, remove=remove)
        except InvalidInput as error:
            raise Rejected(getattr(error, "part", "schema"), str(error)) from None

    def check_new(self, is_copy: bool = False) -> None:
        """Refuse a new ranker whose learner cannot start with its problem."""
        # These checks are not in `config_of`, so that rankers of an existing log always start again. A copy of a ranker
        # or of a file may have a context that its learner ignores.
        if not all(map(is_valid_id, self.adapter.items)):
            raise Rejected("problem.items", INVALID_ID)
        with rejected_as("problem.context" if self.encoding else "problem.n_context"):
            check_uses_context(self.learner, 0 if is_copy else self.problem.n_context)
        self.outcomes.check_learned_by(self.learner)
        if self.base.booster is not None:
            _check_booster(self.base.booster, self.schema)
        with rejected_as("learner"):
            receipt_type(self.learner)
            self.learner.init(self.problem)

    def fitted(self, state: Any) -> Any:
        """Return a state, perhaps of an earlier schema, with a column for everything in the newest schema."""
        return with_columns(state, self.problem.n_features) if self.encoders else state

    def evolved_session(self, session: Session) -> Session:
        """Return a session continued under the newest schema."""
        return session.continued(self.learner, self.problem, self.fitted(session.state))

    def logged_values(self, ranked: Ranked) -> RawValues:
        """Return the values by name that an impression was ranked by."""
        if ranked.schema not in self.encoders:
            raise InvalidInput(f"the impression has version {ranked.schema} of a schema, which this ranker never had")
        return logged_values(ranked)

    def notes(self) -> dict[str, Any]:
        """Return the names that a saved file keeps."""
        notes: dict[str, Any] = {"items": list(self.adapter.items)} if self.adapter.items else {}
        if self.encoding is not None:
            notes |= {"context": self.encoding.context_names, "encoding": self.encoding.to_plain()}
        notes |= {"outcomes": self.outcomes.to_plain()} if self.outcomes else {}
        return notes | self.schema_notes()

    def schema_notes(self) -> dict[str, Any]:
        """Return every version of the schema, as saved files and snapshots keep them."""
        return {"schemas": [schema.to_plain() for schema in self.schemas]} if self.encoders else {}

    def body_now(self) -> CreateBody:
        """Return a request that creates a ranker with the current schema."""
        if self.schema is None:
            return self.body
        problem = msgspec.structs.replace(self.body.problem, schema=self.schema.to_plain())
        return msgspec.structs.replace(self.body, problem=problem)


def _value_reader(rows: Any, names: Sequence[str]) -> Callable[[int, str], Any]:
    """Return a function that reads the value of an item by name, from rows by name or in order."""
    columns = {name: column for column, name in enumerate(names)}

    def value_of(item: int, field: str) -> Any:
        row = rows[item] if len(rows) else {}
        if isinstance(row, Mapping):
            return row.get(field)
        return float(row[columns[field]]) if columns[field] < len(row) else None

    return value_of


def config_of(body: CreateBody) -> RankerConfig:
    """Check a request and return the configuration, whose `body` is the request in normal form, or refuse it."""
    given_base, plain = body.base, body.problem
    n_different = len({str(item) for item in plain.items or ()})
    if plain.items is not None and (n_different == 0 or n_different != len(plain.items)):
        raise Rejected("problem.items", "must have at least one item, and each item once")
    items, schema, encoding = tuple(plain.items or ()), None, None
    if plain.schema is not None:
        for name in ("n_features", "feature_names", "context", "n_context"):
            if getattr(plain, name) not in (None, 0):
                raise Rejected(f"problem.{name}", "cannot be combined with a schema: leave out one of the two")
        with rejected_as("problem.schema"):
            schema = _with_base_score(Schema.from_plain(plain.schema), body)
        sizes = {name: getattr(plain, name) for name in ("shown", "depth", "max_grade")}
        problem = schema.problem(n_items=len(items) or None, **sizes)
        with rejected_as("learner"):
            learner: AnyLearner = with_hashed(build(body.learner, "learner"))
        base = Base.of(given_base, problem, schema)
        plain = msgspec.structs.replace(plain, schema=schema.to_plain())
        adapter = Adapter((), 0, items)
    else:
        if plain.catalogue is not None:
            raise Rejected("problem.catalogue", "needs a schema, which declares the kinds of the values in its rows")
        encoding = _encoding(plain)
        problem = _problem(plain, encoding)
        learner = build(body.learner, "learner")
        fills_gaps = from_layers(learner, "fills_gaps", False)
        names, n_features, n_context = problem.feature_names, problem.n_features, problem.n_context
        adapter = Adapter(names, n_features, items, n_context, encoding=encoding, fills=fills_gaps)
        base = Base.of(given_base, problem, None)
        if base.computed_score:
            all_names = (*names, base.computed_score) if names else ()
            problem = problem._replace(n_features=n_features + 1, feature_names=all_names)
    body = msgspec.structs.replace(body, learner=spec_of(learner), problem=plain)
    if given_base is not None and given_base.weight and base.column is not None:
        learner = BaseScore(inner=learner, feature=base.column, weight=given_base.weight)
    if body.default_feedback == "not_clicked" and Clicks not in learner.accepts:
        raise Rejected("default_feedback", "not_clicked is for learners that learn from clicks; this one does not")
    for name in ("shadow", "evaluation_share", "guard"):
        if getattr(body, name) and given_base is None:
            raise Rejected(name, "needs a base to show or to compare with: give base")
    if body.guard and not body.evaluation_share:
        raise Rejected("guard", "needs an evaluation_share above 0, since it compares the ranker with the base")
    outcomes = declared_outcomes(msgspec.to_builtins(body.outcomes))
    learner = with_robust(learner, problem, has_users=True, max_weight=outcomes.max_weight(body.max_click_weight))
    config = RankerConfig(body, learner, problem, adapter, base, encoding, outcomes=outcomes)
    config = config if schema is None else config.with_schemas([schema])
    if given_base is None or given_base.booster is None:
        return config
    from rankloop.training.trees.booster_file import NamedBooster

    booster = NamedBooster(given_base.booster, [name for name in config.adapter.feature_names if name != BASE_SCORE])
    base = base._replace(booster=booster, model=base.model or booster.hash)
    body = msgspec.structs.replace(body, base=msgspec.structs.replace(given_base, model=base.model))
    return config._replace(body=body, base=base)


def _with_base_score(schema: Schema, body: CreateBody) -> Schema:
    """Return a schema with a field for the score of the base, if the service computes it."""
    base, name = body.base, score_name(body.base)
    if base is None or not name or not base.weight or name in schema.features or name in schema.context:
        return schema
    if base.kind is not None:
        return with_logged_score(schema)
    return dataclasses.replace(schema, features={**schema.features, BASE_SCORE: {"kind": "number", "scale": "linear"}})


def body_of_file(session: Session, notes: Mapping[str, Any], settings: Mapping[str, Any]) -> CreateBody:
    """Return the request that creates a ranker like a saved session.

    The base of a file that has no feature for its score is only compared with (`weight` 0).

    Args:
      session: The saved session.
      notes: The names that its file keeps.
      settings: Fields of `CreateBody` by name; of `problem` only those that do not change the features.
    """
    plain, problem = msgspec.to_builtins(_body_of_session(session, notes)), settings.get("problem", {})
    fixed = ["learner"] if "learner" in settings else [f"problem.{name}" for name in problem if name not in FREE_FIELDS]
    if fixed:
        raise Rejected(fixed[0], "follows from the uploaded file: leave it out")
    body = _converted(plain | settings | {"problem": plain["problem"] | problem}, CreateBody, "settings")
    base = body.base
    if base is None:
        return body
    if isinstance(body.learner, dict) and body.learner["kind"] == "base_score":
        body = msgspec.structs.replace(body, learner=body.learner["inner"])
    score, names = score_name(base), body.problem.feature_names or []
    fields = names if body.problem.schema is None else body.problem.schema["features"]
    if score and score not in fields:
        if settings["base"].get("weight"):
            raise Rejected("base.weight", "the file has no feature for the score of this base: leave the weight out")
        return msgspec.structs.replace(body, base=msgspec.structs.replace(base, weight=0.0))
    if score and names:  # the base adds the feature again
        features = {"feature_names": names[:-1], "n_features": len(names) - 1}
        body = msgspec.structs.replace(body, problem=msgspec.structs.replace(body.problem, **features))
    return body


def _converted(plain: Mapping[str, Any], kind: type[T], field: str) -> T:
    """Return a part of the request for a file, or refuse a file or settings that no ranker can have."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise Rejected(field, f"no ranker can have this: {error}") from None


def _body_of_session(session: Session, notes: Mapping[str, Any]) -> CreateBody:
    if notes.get(NORMALISED_NOTE):
        reason = "this model needs features that are scaled within each query, which the service does not do"
        raise Rejected("state", reason)
    fields, items = session.problem._asdict(), notes.get("items")
    n_items, names = fields.pop("n_items"), list(fields.pop("feature_names"))
    if fields.pop("n_hashed", 0):
        fields |= {"n_features": None, "schema": _newest_schema(notes, session.problem)}
    encoding = Encoding.from_plain(notes["encoding"]).to_plain() if notes.get("encoding") is not None else None
    fields["items"] = None if n_items is None else items or list(range(n_items))
    fields["feature_names"] = names or None
    fields["context"] = encoding and {name: encoding[name] for name in ("columns", "values", "means")}
    problem = _converted(fields, ProblemBody, "problem")
    if problem.items is not None and len(problem.items) != n_items:
        raise Rejected("problem.items", f"the file names {len(problem.items)} items, its fixed set has {n_items}")
    outcomes = _converted(notes.get("outcomes", {}), dict[str, OutcomeBody], "outcomes")
    return CreateBody(learner=spec_of(session.learner), problem=problem, seed=session.seed, outcomes=outcomes)


def _newest_schema(notes: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    """Return the newest schema in the notes of a file, or refuse one that did not make the file's columns."""
    try:
        schemas = [Schema.from_plain(plain) for plain in notes.get("schemas", ())]
        newest = max(schemas, key=lambda schema: schema.version)
    except (InvalidInput, TypeError, ValueError) as error:
        raise Rejected("state", f"this file has hashed columns, but no schema that makes them ({error})") from None
    if (newest.n_hashed, newest.n_dense) != (problem.n_hashed, problem.n_dense):
        raise Rejected("state", "the schema of this file is not the one that made its columns")
    return newest.to_plain()


def _encoding(body: ProblemBody) -> Encoding | None:
    if body.context is None:
        return None
    with rejected_as("problem.context"):
        encoding = Encoding.from_plain(msgspec.to_builtins(body.context) | {"ads": map(str, body.items or ())})
    names = encoding.context_names
    if len(set(names)) != len(names):
        raise Rejected("problem.context", "a column or one of its values occurs twice")
    if len(names) > MAX_SIZE:
        raise Rejected("problem.context", f"has {len(names)} columns, more than {MAX_SIZE}")
    if body.n_context not in (0, len(names)):
        raise Rejected("problem.n_context", f"is {body.n_context}, but the context has {len(names)} columns")
    return encoding


def _problem(body: ProblemBody, encoding: Encoding | None) -> Problem:
    names = tuple(body.feature_names or ())
    if len(set(names)) != len(names):
        raise Rejected("problem.feature_names", "a name occurs twice")
    if body.n_features is None and not names and body.items is None:
        reason = "is missing: give the number of features of an item, or name them in feature_names"
        raise Rejected("problem.n_features", reason)
    n_features = len(names) if body.n_features is None else body.n_features
    if names and len(names) != n_features:
        raise Rejected("problem.feature_names", f"{len(names)} names for {n_features} features")
    n_context = body.n_context if encoding is None else encoding.n_context
    return Problem(n_features, len(body.items or ()) or None, n_context, body.shown, body.depth, body.max_grade, names)


def _has_field(name: str, kind: object, fields: object) -> bool:
    """Return True if the schema has a field of this kind; an invalid kind is refused later, with its name."""
    try:
        return spec_of(build(kind, "field")) == spec_of(fields[name])  # type: ignore[index]
    except (InvalidInput, KeyError):
        return False


def _was_removed(name: str, schema: Schema) -> bool:
    """Return True if a field or a cross was removed earlier; removed crosses are not kept, only their fields."""
    parts = name.replace(" ", "").split("*")
    if len(parts) == 1:
        return name in schema.retired and name not in schema.features and name not in schema.context
    fields = {*schema.features, *schema.context, *schema.retired}
    return set(parts) <= fields and sorted_cross("*".join(parts)) not in {sorted_cross(c) for c in schema.crosses}


def _check_booster(booster: Any, schema: Schema | None) -> None:
    """Refuse a booster whose features a ranker does not have, or not as numbers."""
    with rejected_as("base.booster"):
        names = booster.feature_names
    fields = {} if schema is None else schema.features
    if not fields and booster.text_fields:
        listed = ", ".join(booster.text_fields)
        raise Rejected("base.booster", f"it was grown on texts ({listed:.200}): declare them in problem.schema")
    for name in filter(fields.__contains__, names):
        kind = spec_of(fields[name])["kind"]
        if name not in booster.text_fields and kind not in ("number", "flag", "date"):
            raise Rejected("base.booster", f"{name!r:.80} is a {kind} in the schema; a booster needs numbers and flags")
