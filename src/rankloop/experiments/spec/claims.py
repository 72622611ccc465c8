"""What can be claimed of results: a small vocabulary, so that a claim is data and its verdict is computed."""

from typing import Literal

from msgspec import Struct

Quantity = Literal["average", "recent", "predicted", "regret", "new_queries"]


class _About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="check"):
    """What every claim names: its wording, the arm, the measure, and which quantity of it at which round."""

    text: str
    left: str
    measure: str
    quantity: Quantity = "average"
    at: int | None = None  # the checkpoint; None: the last
    paper: str = ""  # what the paper prints, and where, for the report


class _Compared(_About, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The other side of a comparison: `right`, another arm, or `value`, a number."""

    right: str | None = None
    value: float | None = None


class Above(_Compared, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="above"):
    """left − right > by."""

    by: float = 0.0


class Below(_Compared, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="below"):
    """right − left > by."""

    by: float = 0.0


class Near(_Compared, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="near"):
    """|left − right| ≤ within + standard_errors · (standard error of the difference)."""

    within: float = 0.0
    standard_errors: float = 0.0


class Exponent(_About, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="exponent"):
    """low ≤ a ≤ high, where the summed quantity grows as t^a over the checkpoints from round `since` on."""

    low: float
    high: float
    since: int = 1


Claim = Above | Below | Near | Exponent
PREDICATES = (Above, Below, Near, Exponent)
