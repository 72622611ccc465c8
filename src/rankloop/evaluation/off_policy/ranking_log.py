"""Logged rankings with the policies that drew them, as summands of the estimators for rankings."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple, TypeVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Preferred, Problem, Query, Relevances
from rankloop.core.types import Rows as SparseRows
from rankloop.evaluation.off_policy.estimators import SPANS, Span, method_of, series_of
from rankloop.evaluation.off_policy.propensities import (
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
from rankloop.logs.list_log import AskedValues

PIECE = 1024
BY_SCHEMA, BY_NUMBERS = "values by a schema", "plain numbers"
SUMMED = ("cascade_ips", "position_wise")  # over positions, each with a weight of its own
BY_POSITION = (*SUMMED, "pseudo_inverse")  # these need to know which policy drew a ranking


class LoggedRanking(NamedTuple):
    """What was shown, what came of each position that was seen, and who drew it."""

    query: Query
    ranking: Ints
    rewards: Floats  # by position; as many as were seen
    drawn_by: RankingPolicy
    asked: AskedValues | None = None  # the query in values by name, for rankers with another schema
    session: str = ""  # whose it is, where the log tells
    ids: Sequence[str] = ()  # of the items

    def query_by(self, encoder: Encoder | None) -> Query:
        """The query as a ranker with this schema sees it; as it was where there is none."""
        return self.query if encoder is None or self.asked is None else self.asked.query(encoder)


def rewards_by_position(ranking: Ints, feedback: Feedback, positions: int) -> Floats:
    """What each of the first `positions` earned: its weighted clicks, its grade, or the first one the reward."""
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
    """The summands of an estimator, piece by piece; with `positions`, only what the first so many earned counts.

    The target is asked by the schema of the `encoder`, where it has one of its own.
    Methods that are not for rankings (ips, snips, clipped_ips) weigh by the probability of all that was seen.
    Refused, with the number of the ranking: a policy that cannot say with which probability it shows what was shown.
    """
    entries, first = iter(log), 1
    while piece := list(islice(entries, PIECE)):
        cut = [entry._replace(rewards=entry.rewards[:positions]) for entry in piece]
        if method == "pseudo_inverse":
            yield _weighted(cut, target, first, encoder)
        elif method == "cascade_ips":
            yield cascade_series(_rows(cut, target, prefix_probabilities, first, encoder))
        elif method == "position_wise":
            yield position_series(_rows(cut, target, position_probabilities, first, encoder))
        else:
            yield series_of(_whole(cut, target, first, encoder), method_of(method), limit)
        first += len(piece)


def span_of(method: str) -> Span:
    """The range of a summand, for the bounds that need one."""
    if method == "pseudo_inverse":
        return either_sign
    return SPANS["ips" if method in SUMMED else method_of(method)]


def _rows(
    piece: list[LoggedRanking],
    target: RankingPolicy,
    probabilities: Callable[..., Floats],
    first: int,
    encoder: Encoder | None,
) -> ChoiceRows:
    """One row per ranking; shorter ones end in positions that earn nothing and that both policies fill alike."""
    reward = np.zeros((len(piece), max(len(entry.rewards) for entry in piece)))
    logged, wanted = np.ones(reward.shape), np.ones(reward.shape)
    for row, entry in enumerate(piece):
        seen = len(entry.rewards)
        with _naming(first + row):
            reward[row, :seen] = entry.rewards
            logged[row, :seen] = probabilities(entry.drawn_by, entry.query, entry.ranking, seen)
            wanted[row, :seen] = probabilities(target, entry.query_by(encoder), entry.ranking, seen)
    return rows_of(reward, logged, wanted, first_row=first, ndim=2)


def _whole(piece: list[LoggedRanking], target: RankingPolicy, first: int, encoder: Encoder | None) -> ChoiceRows:
    """Rows with the probability of all positions that count together."""
    probabilities = np.empty((2, len(piece)))
    for row, entry in enumerate(piece):
        with _naming(first + row):
            both = (entry.drawn_by, entry.query), (target, entry.query_by(encoder))
            for column, (policy, query) in enumerate(both):
                found = prefix_probabilities(policy, query, entry.ranking, len(entry.rewards))
                probabilities[column, row] = found.prod()
    logged, wanted = probabilities
    return rows_of([entry.rewards.sum() for entry in piece], logged, wanted, first_row=first)


def _weighted(piece: list[LoggedRanking], target: RankingPolicy, first: int, encoder: Encoder | None) -> Series:
    weights = np.empty(len(piece))
    for row, entry in enumerate(piece):
        with _naming(first + row):
            weights[row] = _slate_weight(entry, target, encoder)
    return weighted_series(np.array([entry.rewards.sum() for entry in piece]), weights)


def _slate_weight(entry: LoggedRanking, target: RankingPolicy, encoder: Encoder | None) -> float:
    seen, n_items = len(entry.rewards), entry.query.n_items
    logged, wanted = shown_parts(entry.drawn_by, entry.query, seen), shown_parts(target, entry.query_by(encoder), seen)
    both = sorted(logged.keys() | wanted.keys())
    of_log, of_target = ([parts.get(shown, 0.0) for shown in both] for parts in (logged, wanted))
    return slate_weight(entry.ranking[:seen].tolist(), both, of_log, of_target, n_items)


@contextmanager
def _naming(number: int) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"ranking {number}: {error}") from None


Entry = TypeVar("Entry")


def checked_first(
    log: Iterable[Entry],
    query_of: Callable[[Entry], Query],
    session: Session,
    model: str,
    names_in_log: Sequence[str] = (),
) -> Iterator[Entry]:
    """The log, refused if its first query has other features, items or context than the session of `model` knows.

    One ranker made all of the log, so its first query stands for the others.
    """
    entries = iter(log)
    for first in entries:
        query, problem = query_of(first), session.problem
        by_schema = type(query.features) is SparseRows
        if by_schema != bool(problem.n_hashed):
            learned, given = (BY_SCHEMA, BY_NUMBERS) if problem.n_hashed else (BY_NUMBERS, BY_SCHEMA)
            raise InvalidInput(f"{model} learned from {learned}; the log has {given}")
        if not by_schema:
            _check_names(query.features.shape[1], problem, names_in_log, model)
        session.log_prob(query, np.arange(query.n_items))  # checks all of it, as the learner itself does not
        return chain((first,), entries)
    return entries


def _check_names(n_features: int, problem: Problem, names: Sequence[str], model: str) -> None:
    """Refuse a log of other features than those that were learned from; equal numbers may mean something else."""
    known = problem.feature_names
    if n_features == problem.n_features and (not known or not names or tuple(names) == tuple(known)):
        return
    learned, given = _named(known, problem.n_features), _named(names, n_features)
    raise InvalidInput(f"{model} learned from {learned}; the log has {given}")


def _named(names: Sequence[str], n_features: int) -> str:
    return ", ".join(names) or f"{n_features} feature{'s' * (n_features != 1)} per item"
