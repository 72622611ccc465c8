"""DBGD: compares itself with one random neighbour at a time."""

from typing import ClassVar

from rankloop.core.registry import Spec, register
from rankloop.interleaving.base import Interleaving
from rankloop.interleaving.team_draft import TeamDraft
from rankloop.learners._shared.duel import DuellingLearner


@register("dbgd")
class Dbgd(DuellingLearner):
    """Duelling bandit gradient descent: w ← w + `learning_rate` · `spread` · u when people prefer w + `spread` · u.

    The direction u is uniform on the unit sphere; the two rankings are interleaved and the clicks say who won.

    Use it as the classical baseline of online learning to rank; `pdgd` and `3pr` learn much faster.
    Reference: Yue and Joachims (2009), Interactively Optimizing Information Retrieval Systems as a Dueling Bandits
    Problem.
    """

    learning_rate: float = 0.01
    spread: float = 1.0
    interleaving: Interleaving = TeamDraft()
    start: tuple[float, ...] = ()

    examples: ClassVar[tuple[Spec, ...]] = ({}, {"interleaving": "probabilistic"}, {"interleaving": "balanced"})
