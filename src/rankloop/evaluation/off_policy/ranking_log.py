"""Logged rankings with the policies that drew them, as summands of the estimators for rankings."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Preferred, Problem, Query, Relevances
from rankloop.core.types import Rows as SparseRows
from rankloop.evaluation.off_policy.estimators import SPANS, Span, method_of, series_of
from rankloop.evaluation.off_policy.logged_propensities import (
    RankingPolicy,
    position_probabilities,
    prefix_probabilities,
    shown_parts,
)
from rankloop.evaluation.off_policy.slates import (
    cascade_series,
    either_sign,
    position_series,
    slate_weight,
    weighted_series,
)
from rankloop.evaluation.off_policy.sums import Series
from rankloop.features.encoder import Encoder
from rankloop.logs.choice_log import ChoiceRows, rows_of
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

    The target is asked by the schema of the `encoder`, where it has one of its own.
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

    def both(entry: LoggedRanking, probabilities: Callable[..., Floats]) -> tuple[Floats, Floats]:
        """Return the probabilities by the policy that drew the ranking, and by the target."""
        ranking, n_seen = entry.ranking, len(entry.rewards)
        logged = probabilities(entry.drawn_by, entry.query, ranking, n_seen)
        return logged, probabilities(target, entry.query_by(encoder), ranking, n_seen)

    entries, first = iter(log), 1
    while piece := [entry._replace(rewards=entry.rewards[:positions]) for entry in islice(entries, MAX_PIECE_RANKINGS)]:
        if method == "pseudo_inverse":
            weights = _of_each(piece, first, lambda entry: _slate_weight(entry, target, encoder))
            yield weighted_series(np.array([entry.rewards.sum() for entry in piece]), np.array(weights))
        elif method == "cascade_ips":
            pairs = _of_each(piece, first, lambda entry: both(entry, prefix_probabilities))
            yield cascade_series(_by_position(piece, pairs, first))
        elif method == "position_wise":
            pairs = _of_each(piece, first, lambda entry: both(entry, position_probabilities))
            yield position_series(_by_position(piece, pairs, first))
        else:  # with the probability of all positions that count together
            pairs = _of_each(piece, first, lambda entry: both(entry, prefix_probabilities))
            logged, target_probability = ([probabilities.prod() for probabilities in side] for side in zip(*pairs))
            rows = rows_of([entry.rewards.sum() for entry in piece], logged, target_probability, first_row=first)
            yield series_of(rows, method_of(method), limit)
        first += len(piece)


def span_of(method: str) -> Span:
    """Return the range of a summand, for the bounds that need one."""
    if method == "pseudo_inverse":
        return either_sign
    return SPANS["ips" if method in SUMMED_METHODS else method_of(method)]


def _by_position(piece: list[LoggedRanking], pairs: Sequence[tuple[Floats, Floats]], first: int) -> ChoiceRows:
    """One row per ranking; shorter ones end in positions that earn nothing and that both policies fill alike."""
    reward = np.zeros((len(piece), max(len(entry.rewards) for entry in piece)))
    probabilities = np.ones((2, *reward.shape))
    for row, (entry, pair) in enumerate(zip(piece, pairs)):
        reward[row, : len(entry.rewards)] = entry.rewards
        probabilities[:, row, : len(entry.rewards)] = pair
    return rows_of(reward, probabilities[0], probabilities[1], first_row=first, ndim=2)


def _slate_weight(entry: LoggedRanking, target: RankingPolicy, encoder: Encoder | None) -> float:
    n_seen, n_items = len(entry.rewards), entry.query.n_items
    logged, targeted = (
        shown_parts(entry.drawn_by, entry.query, n_seen),
        shown_parts(target, entry.query_by(encoder), n_seen),
    )
    both = sorted(logged.keys() | targeted.keys())
    of_log, of_target = ([parts.get(shown, 0.0) for shown in both] for parts in (logged, targeted))
    return slate_weight(entry.ranking[:n_seen].tolist(), both, of_log, of_target, n_items)


def _of_each(piece: list[LoggedRanking], first: int, judge: Callable[[LoggedRanking], Entry]) -> list[Entry]:
    """Judge every ranking; an error names its number."""
    results = []
    for number, entry in enumerate(piece, first):
        try:
            results.append(judge(entry))
        except InvalidInput as error:
            raise InvalidInput(f"ranking {number}: {error}") from None
    return results


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
            _check_names(query.features.shape[1], problem, names_in_log, model)
        session.log_prob(query, np.arange(query.n_items))  # checks all of it, as the learner itself does not
        return chain((first,), entries)
    return entries


def _check_names(n_features: int, problem: Problem, names: Sequence[str], model: str) -> None:
    """Refuse a log of other features than those that were learned from; equal numbers may mean something else."""
    learned_names = problem.feature_names
    if n_features == problem.n_features and (not learned_names or not names or tuple(names) == tuple(learned_names)):
        return
    learned, logged = _named(learned_names, problem.n_features), _named(names, n_features)
    raise InvalidInput(f"{model} learned from {learned}; the log has {logged}")


def _named(names: Sequence[str], n_features: int) -> str:
    return ", ".join(names) or f"{n_features} feature{'s' * (n_features != 1)} per item"
