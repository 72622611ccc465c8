"""MGD: compares itself with many random neighbours at once."""

from typing import ClassVar

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import Spec, register
from rankloop.interleaving.base import Interleaving
from rankloop.interleaving.team_draft import TeamDraft
from rankloop.learners._shared.duel import DuellingLearner


@register("mgd")
class Mgd(DuellingLearner):
    """Multileave gradient descent: like `dbgd`, but with many candidates in one list, and a step to their mean.

    Of `candidates` directions u on the unit sphere, those whose ranker w + `spread` · u earned more clicks than w win,
    and w ← w + `learning_rate` · `spread` · (mean of the winning u). All rankings are multileaved into one list.

    Use it where `dbgd` is wanted and lists are long enough to compare many rankers.
    Reference: Schuth, Oosterhuis, Whiteson and de Rijke (2016), Multileave Gradient Descent for Fast Online Learning
    to Rank.
    """

    candidates: int = 9
    learning_rate: float = 0.01
    spread: float = 1.0
    interleaving: Interleaving = TeamDraft()
    start: tuple[float, ...] = ()

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"interleaving": "probabilistic", "candidates": 3})

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise InvalidInput(f"candidates = {self.candidates}: there must be at least 1")
        super().__post_init__()

    @property
    def _candidates(self) -> int:
        return self.candidates
