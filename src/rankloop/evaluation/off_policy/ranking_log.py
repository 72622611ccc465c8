"""Logged rankings: with which probability policies show them, as summands of the estimators for rankings."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import ALL_POSITIONS, seen_count
from rankloop.core.learner import from_layers, with_in_layers
from rankloop.core.protocols import AnyLearner
from rankloop.core.saved_session import dumps, loads
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Clicks, Feedback, Floats, Ints, Preferred, Query, Relevances
from rankloop.core.types import Rows as SparseRows
from rankloop.engine import Engine, Here
from rankloop.engine.base import PIECE_ENTRIES, Piece, over_pieces
from rankloop.evaluation.off_policy.estimators import SUMMED_METHODS, method_of, series_of
from rankloop.evaluation.off_policy.running_sums import Series
from rankloop.evaluation.off_policy.slates import slate_weight
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.choice_log import ChoiceRows, rows_of
from rankloop.logs.list_log import ShownList

MAX_PREFIXES = 20_000  # examined before a distribution counts as too wide to be written down
ROUNDING_TOLERANCE = 1e-12
MAX_PIECE_ROWS = 4096  # rows at a time
MAX_PIECE_RANKINGS = 1024
MAX_LOADED_RANKERS = 4  # that a worker remembers
BY_SCHEMA, BY_NUMBERS = "values by a schema", "plain numbers"
BY_POSITION = (*SUMMED_METHODS, "pseudo_inverse")  # these need to know which policy drew a ranking
LOCAL_ENGINE = Here()
Entry = TypeVar("Entry")
Watch = Callable[[int], None]  # called with the number of entries that are finished


class RankingPolicy(NamedTuple):
    """A learner in one of its states: the policy that drew a ranking, or one that might."""

    learner: AnyLearner
    state: Any

    @property
    def name(self) -> str:
        """The class name of the learner, for messages."""
        return type(self.learner).__name__

    def positions_seen(self, n_items: int) -> int:
        """Return how many positions users see when this policy ranks so many items."""
        return int(seen_count(int(from_layers(self.state, "shown", ALL_POSITIONS)), n_items))

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        """Return the log-probability of a ranking with the learner in another state."""
        value = self.learner.log_prob(state, query, ranking)
        if math.isnan(value):
            action = "shows these items at these positions (it has no closed form)"
            raise InvalidInput(f"{self.name} cannot say with which probability it {action}")
        return value


class AskedRanker:
    """A ranker and the schema by which it is asked, where it has one; workers get it as its saved file."""

    def __init__(self, session: Session, schema: Schema | None = None) -> None:
        self.session, self.schema = session, schema
        self.encoder = None if schema is None else Encoder(schema)

    def arrival(self, shown: Arrival | ShownList) -> Arrival:
        """Return what was shown, as this ranker sees it."""
        if isinstance(shown, Arrival):
            return shown
        if self.encoder is None:
            raise InvalidInput(
                "the log has values by name, and this ranker has no schema: judge one with the log's schema"
            )
        return shown.arrival(self.encoder)

    def checked(
        self, log: Iterable[Entry], query_of: Callable[[Entry], Query], model: str, names_in_log: Sequence[str] = ()
    ) -> Iterator[Entry]:
        """Return the log, or refuse it if its first query does not have the ranker's features, items or context.

        One ranker made all of the log, so its first query stands for the others; `model` is the ranker in messages.
        """
        entries = iter(log)
        for first in entries:
            query, problem = query_of(first), self.session.problem
            by_schema = type(query.features) is SparseRows
            if by_schema != bool(problem.n_hashed):
                learned_kind, kind_in_log = (BY_SCHEMA, BY_NUMBERS) if problem.n_hashed else (BY_NUMBERS, BY_SCHEMA)
                raise InvalidInput(f"{model} learned from {learned_kind}; the log has {kind_in_log}")
            if not by_schema:
                # Equal numbers of features may mean something else, so names are compared where both sides tell them.
                both = ((problem.feature_names, problem.n_features), (names_in_log, query.features.shape[1]))
                (learned_names, n_learned), (logged_names, n_logged) = both
                renamed = learned_names and logged_names and tuple(learned_names) != tuple(logged_names)
                if n_learned != n_logged or renamed:
                    learned, logged = (", ".join(names) or f"{n} feature{'s' * (n != 1)} per item" for names, n in both)
                    raise InvalidInput(f"{model} learned from {learned}; the log has {logged}")
            self.session.log_prob(query, np.arange(query.n_items))  # checks all of it, as the learner itself does not
            return chain((first,), entries)
        return entries

    def rows(
        self, log: Iterable[Arrival | ShownList], engine: Engine = LOCAL_ENGINE, watch: Watch = lambda finished: None
    ) -> Iterator[ChoiceRows]:
        """Yield rows for the estimators, in the order of the log; the same on every engine, to the last bit."""
        pieces = over_pieces(engine, log, _rows_of_piece, self, progress=watch)
        while together := list(islice(pieces, MAX_PIECE_ROWS // PIECE_ENTRIES)):
            reward, propensity, target = (np.concatenate(columns) for columns in zip(*together))
            yield ChoiceRows(reward, propensity, target)

    @cached_property
    def _saved(self) -> tuple[bytes, str]:
        return dumps(self.session), "" if self.schema is None else json.dumps(self.schema.to_plain())

    def __reduce__(self) -> Any:
        return _loaded_ranker, self._saved


@lru_cache(MAX_LOADED_RANKERS)
def _loaded_ranker(session: bytes, schema: str) -> AskedRanker:
    return AskedRanker(loads(session), Schema.from_plain(json.loads(schema)) if schema else None)


def _rows_of_piece(piece: Piece) -> tuple[Floats, Floats, Floats]:
    """Return reward, propensity and target of each entry, by the ranker that came with the piece."""
    (rows,) = session_rows(piece.shared.session, map(piece.shared.arrival, piece.entries), first=piece.first)
    return rows.reward, rows.propensity, rows.target


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


def prefix_probabilities(policy: RankingPolicy, query: Query, ranking: Ints, positions: int) -> Floats:
    """Return the probability of each position's item given those above it: a row of `cascade_ips`.

    P(first p + 1 items) / P(first p items), from `log_prob` of a state in which only so many positions are seen.

    Args:
      policy: A learner in one of its states.
      query: The query.
      ranking: The ranking, best first.
      positions: How many positions count, from the first.
    """
    logs = [0.0] + [policy.log_prob(state, query, ranking) for state in _by_depth(policy, positions)]
    possible = np.isfinite(logs)
    steps = np.diff(np.where(possible, logs, 0.0))
    probabilities: Floats = np.where(possible[1:], np.exp(np.minimum(steps, 0.0)), 0.0)
    return probabilities


def position_probabilities(policy: RankingPolicy, query: Query, ranking: Ints, positions: int) -> Floats:
    """Return the probability of each item at its position, whatever stands elsewhere: a row of `position_wise`.

    Exact, as a sum over all that the policy can show in these positions; refused where that is too much.

    Args:
      policy: A learner in one of its states.
      query: The query.
      ranking: The ranking, best first.
      positions: How many positions count, from the first.
    """
    probabilities = np.zeros(positions)
    for shown, probability in shown_parts(policy, query, positions).items():
        probabilities += probability * (np.array(shown) == ranking[:positions])
    return np.minimum(probabilities, 1.0)


def shown_parts(policy: RankingPolicy, query: Query, positions: int) -> dict[tuple[int, ...], float]:
    """Return everything that the policy can show in the first `positions`, with its probability.

    A prefix is followed by the items that `predict` has next, until its probability is used up; so learners that move
    items a little (3pr, fair_pairs) are quickly written down, and those that may show any order only for few positions.

    Args:
      policy: A learner in one of its states.
      query: The query.
      positions: How many positions count, from the first.
    """
    expected: list[int] = policy.learner.predict(policy.state, query).tolist()
    parts: dict[tuple[int, ...], float] = {(): 1.0}
    examined = 0
    for state in _by_depth(policy, positions):
        longer: dict[tuple[int, ...], float] = {}
        for prefix, probability in parts.items():
            left = probability
            remaining_items = [item for item in expected if item not in prefix]
            for position, item in enumerate(remaining_items):
                others = remaining_items[:position] + remaining_items[position + 1 :]
                joint = math.exp(policy.log_prob(state, query, np.array([*prefix, item, *others], dtype=np.int64)))
                examined += 1
                if examined > MAX_PREFIXES:
                    fault = f"{policy.name} can show too many different orders in the first {positions} positions"
                    advice = "judge fewer positions, or use cascade_ips, which does not need them"
                    raise InvalidInput(f"{fault} to write them all down; {advice}")
                if joint > 0.0:
                    longer[*prefix, item] = joint
                left -= joint
                if left <= ROUNDING_TOLERANCE * probability:
                    break
        parts = longer
    return parts


def _by_depth(policy: RankingPolicy, positions: int) -> list[Any]:
    """The policy's state as it would be if only the first 1, 2, … `positions` were seen."""
    if from_layers(policy.state, "shown") is None:
        problem = "does not know with which probability it shows an item at a position: use ips or snips"
        raise InvalidInput(f"{policy.name} {problem}")
    return [with_in_layers(policy.state, "shown", position + 1) for position in range(positions)]


def _reward_of(feedback: Feedback) -> float:
    """Return the worth of feedback: the reward itself, the clicks with their weights, or the grades, summed."""
    if isinstance(feedback, Preferred):
        raise InvalidInput("a preferred order has no value by itself; give `reward`, a function of the feedback")
    if isinstance(feedback, Clicks):
        return float(feedback.weights.sum())
    return float(feedback.grades.sum()) if isinstance(feedback, Relevances) else float(feedback.value)


def session_rows(
    session: Session, log: Iterable[Arrival], reward: Callable[[Feedback], float] = _reward_of, first: int = 0
) -> Iterator[ChoiceRows]:
    """Yield rows for `estimate`; the target is the session as it is now, exploration included.

    Refused, with the row: a decision whose propensity is unknown, and a target without a closed form for its own.

    Args:
      session: The session of the ranker.
      log: The arrivals: decisions with their log-propensity, and feedback.
      reward: The value of feedback.
      first: The number of the first row, for messages.
    """
    entries = iter(log)
    while piece := list(islice(entries, MAX_PIECE_ROWS)):
        log_probs = [session.log_prob(arrival.query, arrival.decision.ranking) for arrival in piece]
        if np.isnan(log_probs).any():
            row = first + int(np.argmax(np.isnan(log_probs)))
            cannot = "cannot say with which probability it shows this ranking (it has no closed form)"
            advice = "so the log cannot be weighted; evaluate a learner that can, such as 3pr, pdgd or auc_policy"
            raise InvalidInput(f"row {row}: {type(session.learner).__name__} {cannot}, {advice}")
        logged = np.exp([arrival.decision.log_propensity for arrival in piece])
        target = list(map(math.exp, log_probs))
        yield rows_of([reward(arrival.feedback) for arrival in piece], logged, target, first_row=first)
        first += len(piece)


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
            yield series_of(rows, method_of(method), limit)
        else:
            logged, targeted = ([probabilities.prod() for probabilities in side] for side in zip(*judged))
            yield series_of(rows_of(totals, logged, targeted, first_row=first), method_of(method), limit)
        first += len(piece)


def _judged(entry: LoggedRanking, target: RankingPolicy, method: str, encoder: Encoder | None) -> Any:
    """Return the probabilities of both policies by position, or the weight of `pseudo_inverse`."""
    ranking, n_seen = entry.ranking, len(entry.rewards)
    policies = ((entry.drawn_by, entry.query), (target, entry.query_by(encoder)))
    if method != "pseudo_inverse":
        by_position = position_probabilities if method == "position_wise" else prefix_probabilities
        return [by_position(policy, query, ranking, n_seen) for policy, query in policies]
    logged, targeted = (shown_parts(policy, query, n_seen) for policy, query in policies)
    both = sorted(logged.keys() | targeted.keys())
    of_log, of_target = ([parts.get(shown, 0.0) for shown in both] for parts in (logged, targeted))
    return slate_weight(ranking[:n_seen].tolist(), both, of_log, of_target, entry.query.n_items)
