"""What a request makes of a live schema; the same request again makes nothing of it."""

from rankloop.core.errors import InvalidInput, Rejected
from rankloop.core.registry import build, spec_of
from rankloop.features.schema import Schema, sorted_cross
from rankloop.service.ranker.config import BASE_SCORE, RankerConfig, checked_schema
from rankloop.service.requests import SchemaBody


def next_schema(config: RankerConfig, body: SchemaBody) -> Schema | None:
    """The next version; None where the schema is already as it is asked for."""
    schema = config.schema
    if schema is None:
        raise Rejected("schema", "this ranker has no schema: its features are plain numbers")
    base = config.body.base
    score = None if base is None else base.feature if base.booster is None else BASE_SCORE
    if score in body.remove:
        raise Rejected("remove", f"{score!r} is the score of today's ranker, which is compared with")
    features = {name: kind for name, kind in body.features.items() if not _is_there(name, kind, schema.features)}
    context = {name: kind for name, kind in body.context.items() if not _is_there(name, kind, schema.context)}
    known = {sorted_cross(cross) for cross in schema.crosses}
    crosses = [cross for cross in body.crosses if sorted_cross(cross.replace(" ", "")) not in known]
    remove = [name for name in body.remove if not _is_gone(name, schema)]
    if not features and not context and not crosses and not remove:
        return None
    change = {"features": features, "context": context, "crosses": crosses, "remove": remove}
    return checked_schema(lambda: schema.evolved(**change), "")  # type: ignore[arg-type]


def _is_there(name: str, kind: object, fields: object) -> bool:
    """Whether a field of this kind is there already; what is no kind is refused later, with its name."""
    try:
        return spec_of(build(kind, "field")) == spec_of(fields[name])  # type: ignore[index]
    except (InvalidInput, KeyError):
        return False


def _is_gone(name: str, schema: Schema) -> bool:
    """Whether a field or a cross was removed before, as far as can be told: of a cross, that its fields are known."""
    parts = name.replace(" ", "").split("*")
    if len(parts) == 1:
        return name in schema.retired and name not in schema.features and name not in schema.context
    fields = {*schema.features, *schema.context, *schema.retired}
    return set(parts) <= fields and sorted_cross("*".join(parts)) not in {sorted_cross(c) for c in schema.crosses}
