"""An experiment is data: the TOML table that says what is played, by whom, how long, and what is claimed of it.

A claim comes from a small vocabulary, so that its verdict is computed.
"""

from typing import Any, Literal

from msgspec import Struct

Thing = str | dict[str, Any]  # what `build` takes; the string "$horizon" inside stands for the number of rounds
FLOOR, CEILING = "random order", "best possible"
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


class Arm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner together with the feedback it gets."""

    name: str
    learner: Thing
    feedback: Thing = "full"
    delivery: Thing | None = None


class Figures(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the curves are drawn; by default the rounds on a logarithmic axis where the checkpoints are."""

    log_x: bool | None = None
    log_y: bool = False
    quantities: tuple[Quantity, ...] = ()  # by default what says most


class Quick(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `--quick` changes; by default a twentieth of the rounds and two seeds."""

    horizon: int | None = None
    seeds: int | tuple[int, ...] = 2
    checkpoints: int | tuple[int, ...] | None = None


class Experiment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every arm plays every stream with every seed; at the checkpoints the measures are written down.

    `average` is the mean of a measure over the rounds so far, `recent` over the last `window` (a share of the horizon),
    `predicted` the average of the learner's best ranking without exploration, `regret` the average distance from
    `regret_factor` times the best fixed ranking of the rounds so far (fixed sets only). After the rounds `new_queries`
    the queries that a stream holds out (`held_out`) are ranked without exploration, and the quantity of that name is
    the mean over them. `imports` are modules, or .py files beside the experiment, that register learners and other
    things; they are imported before anything is built.
    """

    name: str
    title: str = ""
    description: str = ""
    imports: tuple[str, ...] = ()
    stream: Thing | None = None
    streams: dict[str, Thing] = {}
    arms: tuple[Arm, ...] = ()
    measures: tuple[Thing, ...]
    horizon: int
    seeds: int | tuple[int, ...] = 5
    checkpoints: int | tuple[int, ...] = 40
    spacing: Literal["log", "linear"] = "log"
    window: float = 0.1
    predicted: bool = False
    new_queries: tuple[int, ...] = ()
    regret: bool = False
    regret_factor: float = 1.0
    floor: bool = True
    ceiling: bool = True
    figures: Figures = Figures()
    claims: tuple[Claim, ...] = ()
    quick: Quick = Quick()

    @property
    def all_arms(self) -> tuple[Arm, ...]:
        """The arms, then the floor if it is wanted; the ceiling has no learner and is not among them."""
        floor = (Arm(name=FLOOR, learner="random_order"),) if self.floor else ()
        return self.arms + floor

    @property
    def all_streams(self) -> dict[str, Thing]:
        """The streams by name; a single one bears the experiment's."""
        return self.streams or {self.name: self.stream or ""}
