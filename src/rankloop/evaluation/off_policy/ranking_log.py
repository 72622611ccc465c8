"""Logged rankings with the policies that drew them, as summands of the estimators for rankings."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Preferred, Query, Relevances
from rankloop.core.types import Rows as SparseRows
from rankloop.evaluation.off_policy import logged_propensities
from rankloop.evaluation.off_policy.estimators import method_of, series_of
from rankloop.evaluation.off_policy.logged_propensities import RankingPolicy
from rankloop.evaluation.off_policy.slates import slate_series, slate_weight
from rankloop.evaluation.off_policy.sums import Series
from rankloop.features.encoder import Encoder
from rankloop.logs.choice_log import rows_of
from rankloop.logs.list_log import ShownList

MAX_PIECE_RANKINGS = 1024
BY_SCHEMA, BY_NUMBERS = "values by a schema", "plain numbers"
SUMMED_METHODS = ("cascade_ips", "position_wise")  # over positions, each with a weight of its own
BY_POSITION = (*SUMMED_METHODS, "pseudo_inverse")  # these need to know which policy drew a ranking
Entry = TypeVar("Entry")


class LoggedRanking(NamedTuple):
    """A logged ranking, the rewards of its positions, and the policy that drew it."""

    query: Query
    ranking: Ints
    rewards: Floats  # by position; as many as were seen
    drawn_by: RankingPolicy
    shown_list: ShownList | None = None  # the query in values by name, for rankers with another schema
    session: str = ""  # whose it is, where the log tells
    ids: Sequence[str] = ()  # of the items
    outcomes: Mapping[str, Floats] = {}  # by name and position, where the ranker declares some
    propensity: float | None = None  # as logged, of a list that `drawn_by` did not draw: its state was unlearned

    def query_by(self, encoder: Encoder | None) -> Query:
        """Return the query as a ranker with this schema sees it; as it was where there is none."""
        return self.query if encoder is None or self.shown_list is None else self.shown_list.query(encoder)


def rewards_by_position(ranking: Ints, feedback: Feedback, positions: int) -> Floats:
    """Return what each of the first `positions` earned: its click weights, its grade, or the reward at the first.

    Args:
      ranking: The ranking, best first.
      feedback: The feedback on the ranking.
      positions: How many positions count, from the first.
    """
    if isinstance(feedback, Preferred):
        raise InvalidInput("a preferred order has no value by itself, so it cannot judge a policy")
    rewards = np.zeros(positions)
    if isinstance(feedback, Clicks | Relevances):
        values = feedback.weights if isinstance(feedback, Clicks) else feedback.grades
        earned = dict(zip(feedback.items.tolist(), values.tolist()))
        rewards[:] = [earned.get(item, 0.0) for item in ranking[:positions].tolist()]
    else:
        rewards[0] = feedback.value
    return rewards


def ranking_series(
    log: Iterable[LoggedRanking],
    target: RankingPolicy,
    method: str,
    positions: int | None = None,
    limit: float = math.inf,
    encoder: Encoder | None = None,
) -> Iterator[Series]:
    """Yield the summands of an estimator, piece by piece.

    Methods that are not for rankings (ips, snips, clipped_ips) weigh by the probability of all that was seen.
    Refused, with the number of the ranking: a policy that cannot say with which probability it shows what was shown.

    Args:
      log: The logged rankings.
      target: The policy to estimate.
      method: The name of the estimator.
      positions: Only what the first so many positions earned counts; None: all.
      limit: The weight beyond which the estimator cuts or uses the model.
      encoder: The encoder of the target's schema; None: the queries as they are.
    """
    entries, first = (entry for entry in log if entry.propensity is None), 1
    while piece := [entry._replace(rewards=entry.rewards[:positions]) for entry in islice(entries, MAX_PIECE_RANKINGS)]:
        judged, totals = [], np.array([entry.rewards.sum() for entry in piece])
        for number, entry in enumerate(piece, first):
            try:
                judged.append(_judged(entry, target, method, encoder))
            except InvalidInput as error:
                raise InvalidInput(f"ranking {number}: {error}") from None
        if method == "pseudo_inverse":
            yield Series.of_weights(totals, np.array(judged))
        elif method in SUMMED_METHODS:
            # Shorter rankings end in positions that earn nothing and that both policies fill alike.
            reward = np.zeros((len(piece), max(len(entry.rewards) for entry in piece)))
            probabilities = np.ones((2, *reward.shape))
            for row, (entry, pair) in enumerate(zip(piece, judged)):
                reward[row, : len(entry.rewards)] = entry.rewards
                probabilities[:, row, : len(entry.rewards)] = pair
            rows = rows_of(reward, probabilities[0], probabilities[1], first_row=first, ndim=2)
            yield slate_series(rows, cascade=method == "cascade_ips")
        else:
            logged, targeted = ([probabilities.prod() for probabilities in side] for side in zip(*judged))
            yield series_of(rows_of(totals, logged, targeted, first_row=first), method_of(method), limit)
        first += len(piece)


def _judged(entry: LoggedRanking, target: RankingPolicy, method: str, encoder: Encoder | None) -> Any:
    """Return the probabilities of both policies by position, or the weight of `pseudo_inverse`."""
    ranking, n_seen = entry.ranking, len(entry.rewards)
    policies = ((entry.drawn_by, entry.query), (target, entry.query_by(encoder)))
    if method != "pseudo_inverse":
        by_position = logged_propensities.prefix_probabilities
        if method == "position_wise":
            by_position = logged_propensities.position_probabilities
        return [by_position(policy, query, ranking, n_seen) for policy, query in policies]
    logged, targeted = (logged_propensities.shown_parts(policy, query, n_seen) for policy, query in policies)
    both = sorted(logged.keys() | targeted.keys())
    of_log, of_target = ([parts.get(shown, 0.0) for shown in both] for parts in (logged, targeted))
    return slate_weight(ranking[:n_seen].tolist(), both, of_log, of_target, entry.query.n_items)


def checked_first(
    log: Iterable[Entry],
    query_of: Callable[[Entry], Query],
    session: Session,
    model: str,
    names_in_log: Sequence[str] = (),
) -> Iterator[Entry]:
    """Return the log, or refuse it if its first query does not have the session's features, items or context.

    One ranker made all of the log, so its first query stands for the others.

    Args:
      log: The log.
      query_of: Returns the query of an entry.
      session: The session of the ranker.
      model: The name of the model, for messages.
      names_in_log: The feature names of the log.
    """
    entries = iter(log)
    for first in entries:
        query, problem = query_of(first), session.problem
        by_schema = type(query.features) is SparseRows
        if by_schema != bool(problem.n_hashed):
            learned_kind, kind_in_log = (BY_SCHEMA, BY_NUMBERS) if problem.n_hashed else (BY_NUMBERS, BY_SCHEMA)
            raise InvalidInput(f"{model} learned from {learned_kind}; the log has {kind_in_log}")
        if not by_schema:
            # Equal numbers of features may mean something else, so names are compared where both sides tell them.
            sides = ((problem.feature_names, problem.n_features), (names_in_log, query.features.shape[1]))
            (learned_names, n_learned), (logged_names, n_logged) = sides
            renamed = learned_names and logged_names and tuple(learned_names) != tuple(logged_names)
            if n_learned != n_logged or renamed:
                learned, logged = (", ".join(names) or f"{n} feature{'s' * (n != 1)} per item" for names, n in sides)
                raise InvalidInput(f"{model} learned from {learned}; the log has {logged}")
        session.log_prob(query, np.arange(query.n_items))  # checks all of it, as the learner itself does not
        return chain((first,), entries)
    return entries
