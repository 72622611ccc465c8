"""Risks, which the bundle method minimises: a loss summed over many queries, with its slope in every score."""

from typing import Protocol, cast, runtime_checkable

from rankloop.core import registry
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest, parse_spec
from rankloop.core.types import Floats, Ints

RISK_OF_NAME = {"p": "precision", "rank_svm": "ordinal"}  # other names of risks


@runtime_checkable
class Risk(Protocol):
    """A convex function of the scores, never negative; query q owns the entries from offsets[q] to offsets[q + 1]."""

    def of_lists(self, scores: Floats, relevance: Floats, offsets: Ints) -> tuple[float, Floats]:
        """Return the sum over the queries, and a sub-gradient over the scores."""


@runtime_checkable
class StructuredRisk(Risk, Protocol):
    """A risk that is a maximum over rankings, which has a tighter form that is not convex."""

    def anchors(self, scores: Floats, relevance: Floats, offsets: Ints) -> Floats:
        """Return the slope over the scores of max over rankings of Σ_i c_position(i) · scores[i]."""

    def ideal_anchors(self, relevance: Floats, offsets: Ints) -> Floats:
        """Return the slope at an ideal ranking, which the convex form subtracts; equal gains share theirs."""


registry.category("risk", Risk)


def risk_of(loss: str | registry.Spec | Risk) -> Risk:
    """Build the risk of a spec, of its text (`ordinal`, `ndcg@10`), or of the measure that it bounds (`nDCG@10`)."""
    if not isinstance(loss, str):
        return cast(Risk, registry.build(loss, "risk"))
    table = parse_spec(loss)
    kinds = [entry.kind for entry in registry.entries("risk")]
    kind = RISK_OF_NAME.get(table["kind"].lower(), table["kind"].lower())
    if kind not in kinds:
        raise InvalidInput(f"no loss {table['kind']!r}{nearest(kind, kinds)}")
    return cast(Risk, registry.build(table | {"kind": kind}, "risk"))
