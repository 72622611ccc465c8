"""A learner whose exploration can be limited: `explore_at_most` keeps every item near its predicted position.

python examples/05_limited_exploration.py
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rankloop import Clicks, Decision, InvalidInput, Problem, Query, build, parse_measure, play, register
from rankloop.core.kernels import clicked_weights, due_item, kernel, ranking_of, seen_count
from rankloop.core.learner import expect, require_finite, shown_or_all
from rankloop.core.types import Feedback, Floats, Ints, Limit

NO_DRAWS, NO_LIMIT = np.empty(0), Limit()


class Counts(NamedTuple):
    """The number of showings and the click weight per item, and the number of positions that users see."""

    showings: Floats
    clicked: Floats
    shown: int


@kernel
def fill_ranking(
    best: Ints, ranking: Ints, n_seen: int, epsilon: float, positions: int, keep_first: bool, draws: Floats
) -> float:
    """Fill the ranking by the draws, if there are any, and return the log-probability of its seen part."""
    taken, log_prob, positions = np.zeros(len(best), np.int64), 0.0, min(positions, len(best))
    for position in range(len(best)):
        end = len(best) if positions < 0 else min(len(best), position + positions + 1)  # items that may rise this far
        left = best[:end][taken[best[:end]] == 0]
        due = due_item(best, position, positions, keep_first, taken)
        if due >= 0:
            left = np.array([due])
        if len(draws):
            u = draws[position]
            ranking[position] = left[int(u / epsilon * len(left))] if u < epsilon else left[0]
        item = ranking[position]
        probability = epsilon * np.mean(left == item) + (1.0 - epsilon) * (left[0] == item)
        if position < n_seen:
            log_prob += np.log(probability) if probability > 0.0 else -np.inf
        taken[item] = 1
    return log_prob


@register("click_rate")
@dataclass(frozen=True, kw_only=True)
class ClickRate:
    """Rank a fixed set by click rate, with a random item at each position with probability `epsilon`."""

    accepts: ClassVar = (Clicks,)
    reports: ClassVar = ()
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise InvalidInput(f"epsilon = {self.epsilon} must be a probability between 0 and 1")

    def init(self, problem: Problem) -> Counts:
        if problem.n_items is None:
            raise InvalidInput("click_rate ranks a fixed set of items: say how many there are (n_items)")
        return Counts(np.zeros(problem.n_items), np.zeros(problem.n_items), shown_or_all(problem))

    def rank(self, state: Counts, query: Query, rng: Generator, limit: Limit = NO_LIMIT) -> Decision[tuple[()]]:
        best = self.predict(state, query)
        ranking, n_seen = np.empty(len(best), np.int64), seen_count(state.shown, len(best))
        log_prob = fill_ranking(best, ranking, n_seen, self.epsilon, *limit, rng.random(len(best)))
        return Decision(ranking, log_prob, ())

    def learn(self, state: Counts, query: Query, decision: Decision[tuple[()]], feedback: Feedback) -> Counts:
        items, weights = expect(feedback, Clicks)
        showings = state.showings.copy()
        showings[decision.ranking[: seen_count(state.shown, len(showings))]] += 1.0
        clicked = state.clicked + clicked_weights(len(showings), items, weights)
        return Counts(showings, require_finite(clicked), state.shown)

    def predict(self, state: Counts, query: Query) -> Ints:
        # A loaded file may hold negative counts, so that they are cut at 0.
        return ranking_of((state.clicked + 1.0) / (np.maximum(state.showings, 0.0) + 2.0))

    def log_prob(self, state: Counts, query: Query, ranking: Ints, limit: Limit = NO_LIMIT) -> float:
        n_seen = seen_count(state.shown, len(ranking))
        return fill_ranking(self.predict(state, query), ranking.copy(), n_seen, self.epsilon, *limit, NO_DRAWS)


def main() -> None:
    stream = build("flipped_relevance(n_items=8, n_relevant=3)", "stream")
    users, measure = build("position_based", "feedback"), parse_measure("DCG")
    for learner in ("click_rate", "explore_at_most(inner='click_rate', places=1)"):
        rounds = play(build(learner, "learner"), stream, users, horizon=1000, seed=0)
        values = [measure(round.decision.ranking, round.relevance) for round in rounds]
        print(f"{learner}: DCG {sum(values[-200:]) / 200:.2f} in the last 200 rounds")


if __name__ == "__main__":
    main()
