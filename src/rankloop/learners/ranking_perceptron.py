"""The perceptron for ranking: a step on the SLAM surrogate whenever the measure sees a mistake."""

from typing import ClassVar

from rankloop.core.kernels import kernel, ranking_of, scores_of, seen_count
from rankloop.core.learner import all_finite
from rankloop.core.registry import Spec, register
from rankloop.core.types import Decision, Floats, Ints
from rankloop.learners._shared.compiled_rounds import QueryRounds, more_rounds, next_query, write_history, write_round
from rankloop.learners._shared.perceptron_step import MistakeDriven, Rule, State, is_mistaken_order, moved, slam_slope


@kernel
def _many_rounds(weights: Floats, mistakes: int, rounds: QueryRounds, rule: Rule) -> tuple[Floats, int]:
    """Rounds over queries until the draws are used up, exactly as `play` would go through them."""
    cutoff, binary, margin, rate = rule
    refused, with_history = 0, len(rounds.history) > 0
    while more_rounds(rounds, False):
        start, end, first = next_query(rounds)
        size, features = end - start, rounds.features[start:end]
        order = rounds.order[first : first + size]
        scores = scores_of(features, weights)[order]
        ranking = ranking_of(scores)
        if with_history:
            write_history(rounds, (start, mistakes, refused, 0.0, 0.0), weights)
        write_round(rounds, ranking)
        items = ranking[: seen_count(rounds.depth, size)]
        shown, grades = scores[items], rounds.grades[first : first + size][items]
        if is_mistaken_order(shown, grades, cutoff, binary):
            slope = slam_slope(shown, grades, cutoff, binary, margin)
            after = moved(weights, features, order[items], slope, rate)
            if all_finite(after):
                weights, mistakes = after, mistakes + 1
            else:
                refused += 1
    if with_history:
        write_history(rounds, (0, mistakes, refused, 0.0, 0.0), weights)
    return weights, mistakes


@register("ranking_perceptron")
class RankingPerceptron(MistakeDriven):
    """Algorithm 2 of Chaudhuri (2016): on a mistake w ← w − η · ∇_w slam(features · w, relevance), else w stays.

    A mistake is a round whose `measure` (nDCG, nDCG@k or AP) is below its best, ties broken against the learner; `slam`
    has the weights of that measure and this `margin`; η is `learning_rate`. On data that some w ranks perfectly with a
    margin, the summed loss of the measure stays bounded however long it runs. With grades of the first items only,
    these alone are its list.

    Use it with full relevance when the data are nearly separable, or when most rounds should cost no update.
    Reference: Chaudhuri and Tewari (2015), Perceptron-like Algorithms for Online Learning to Rank.
    """

    one_pair: ClassVar[bool] = False
    compiled: ClassVar[type | None] = QueryRounds  # its kernel knows every measure that is allowed here
    examples: ClassVar[tuple[Spec, ...]] = ({}, {"measure": "AP"}, {"measure": "nDCG@2", "margin": 0.5})

    def doubles(self, n_items: int) -> int:
        return 0

    def recorded_decision(self, ranking: Ints, numbers: list[float], familiar: Ints) -> Decision[tuple[()]]:
        """The decision of a round of `many_rounds`, from the history of the rounds."""
        return Decision(ranking, 0.0, ())

    def many_rounds(self, state: State, rounds: QueryRounds) -> State:
        weights, mistakes = _many_rounds(state.weights, state.mistakes, rounds, self._rule)
        return state if mistakes == state.mistakes else State(weights, mistakes, state.shown)
