"""The types of an experiment's TOML table: what is played, by which learners, how long, and what is claimed.

A claim comes from a small vocabulary, so that its verdict is computed.
"""

from typing import Any, Literal

from msgspec import Struct

from rankloop.core.registry import build

Thing = str | dict[str, Any]  # what `build` takes
FLOOR, CEILING = "random order", "best possible"
FIELDS_WITHOUT_EFFECT = ("seeds", "title", "description", "figures", "claims", "quick")  # on the numbers
Quantity = Literal["average", "recent", "predicted", "regret", "new_queries"]


class _About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="check"):
    """Common part of all claims: the text, the arm, the measure, its quantity and the round."""

    text: str
    left: str
    measure: str
    quantity: Quantity = "average"
    at: int | None = None  # the checkpoint; None: the last
    paper: str = ""  # what the paper prints, and where, for the report


class _Compared(_About, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Claim that compares an arm with `right`, another arm, or with `value`, a number."""

    right: str | None = None
    value: float | None = None


class Above(_Compared, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="above"):
    """Claim that left − right > by."""

    by: float = 0.0


class Below(_Compared, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="below"):
    """Claim that right − left > by."""

    by: float = 0.0


class Near(_Compared, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="near"):
    """Claim that |left − right| ≤ within + standard_errors · (standard error of the difference)."""

    within: float = 0.0
    standard_errors: float = 0.0


class Exponent(_About, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="exponent"):
    """Claim that low ≤ a ≤ high, where the summed quantity grows as t^a from round `since` on."""

    low: float
    high: float
    since: int = 1


Claim = Above | Below | Near | Exponent


class Arm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Learner with the feedback that it gets."""

    name: str
    learner: Thing
    feedback: Thing = "full"
    delivery: Thing | None = None


class Figures(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Axes and quantities of the charts; by default the rounds are on a logarithmic axis if the checkpoints are."""

    log_x: bool | None = None
    log_y: bool = False
    quantities: tuple[Quantity, ...] = ()  # by default what says most


class Quick(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of `--quick`; by default a twentieth of the rounds and two seeds."""

    horizon: int | None = None
    seeds: int | tuple[int, ...] = 2
    checkpoints: int | tuple[int, ...] | None = None


class Experiment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Experiment in which every arm plays every stream with every seed; measures are recorded at checkpoints.

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
        """Return the arms, then the random order if `floor` is true; the ceiling has no learner and is not an arm."""
        floor = (Arm(name=FLOOR, learner="random_order"),) if self.floor else ()
        return self.arms + floor

    @property
    def all_streams(self) -> dict[str, Thing]:
        """Return the streams by name; a single stream has the name of the experiment."""
        return self.streams or {self.name: self.stream or ""}

    def build(self, thing: Thing, category: str) -> Any:
        """Build a part of the experiment; "$horizon" in its table stands for the number of rounds."""
        return build(_with_horizon(thing, self.horizon), category)


def _with_horizon(value: Any, horizon: int) -> Any:
    if isinstance(value, dict):
        return {name: _with_horizon(part, horizon) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_horizon(part, horizon) for part in value]
    return horizon if value == "$horizon" else value
