"""Base classes of linear learners, helpers for learners, and `robust`, through which every ranker learns."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from rankloop.core import kernels
from rankloop.core.checks import FiniteNumbers, NotNegative, Positive, check_finite
from rankloop.core.errors import IncompatibleFeedback, InvalidInput, UnstableUpdate
from rankloop.core.kernels import MAX_FLOAT, all_finite, kernel, ranking_of, scores_of, seen_count
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Examples, register
from rankloop.core.types import Clicks, Decision, Features, Feedback, Floats, Ints, Problem, Query, R

K = TypeVar("K", bound=Feedback)
MIN_RANGE_UPDATES = 8  # in which a feature varies, before its range is known
N_IGNORED_EXTREMES = 3  # the updates with the most extreme values, which do not decide a range
UPDATES_PER_IGNORED = 40  # of so many updates one more is ignored
RANGE_UPDATES = 200  # after so many a range is learned anew; the last one stays in use beside it
N_EXTREMES = N_IGNORED_EXTREMES + RANGE_UPDATES // UPDATES_PER_IGNORED + 1
MIN_STEPS = 8  # before steps are capped
MAX_STEPS_AVERAGED = 100
MAX_SHARE_MOVED = 0.25  # of the length of the weights, by one heavy click after so many steps
N_UPDATES, LAST_LOW, LAST_HIGH, LOW, HIGH, N_RANGE_ROWS = range(6)  # the rows of `RobustState.ranges`
MAX_UPDATES = 2.0**53  # above it a float is no exact count
DECLARED = -1.0  # in place of a number of updates: the range does not change
N_VOTES = 2048  # places of the table; a click takes two, and the newest takes the place of another
MAX_CLICKS_PER_ITEM = 3  # of a user on one item, for different queries
FINGERPRINT_BITS = 52  # which a float holds exactly


@kernel
def best_ranking(features: Features, weights: Floats) -> Ints:
    """Sort items by descending features · weights.

    Args:
      features: One row per item.
      weights: One weight per feature.
    """
    return ranking_of(scores_of(features, weights))


@kernel
def _point_log_prob(best: Ints, ranking: Ints, shown: int) -> float:
    """Return the log-probability of a ranking for a learner that always shows `best`: 0, or −infinity."""
    for position in range(seen_count(shown, len(best))):
        if best[position] != ranking[position]:
            return -np.inf
    return 0.0


class GreedyLearner:
    """The base class of learners whose rankings are not random: those of `predict`, or of `_ranking` if it is given."""

    reports: ClassVar[tuple[str, ...]] = ()
    predict: Callable[..., Ints]

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[tuple[()]]:
        return Decision(self._ranking(state, query), 0.0, ())

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        return _point_log_prob(self._ranking(state, query), ranking, state.shown)

    def _ranking(self, state: Any, query: Query) -> Ints:
        return self.predict(state, query)


class LinearState(NamedTuple):
    """The weights, and the number of visible positions."""

    weights: Floats
    shown: int


class LinearLearner:
    """The base class of learners that sort by features · weights, which begin at `start` (zeros if empty)."""

    start: FiniteNumbers
    accepts: ClassVar[tuple[type, ...]] = (Clicks,)
    reports: ClassVar[tuple[str, ...]] = ()

    def init(self, problem: Problem) -> Any:
        return LinearState(self.first_weights(problem), shown_or_all(problem))

    def first_weights(self, problem: Problem) -> Floats:
        """Return the first weights."""
        return start_weights(self.start, problem.n_features)

    def predict(self, state: Any, query: Query) -> Ints:
        return best_ranking(query.features, state.weights)

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        return math.nan


class SparseLearner(LinearLearner):
    """The base class of linear learners that accept `Rows`: `hashed` gives them the weights of a query's columns only.

    Changed weights are in the state's `newest` if it has one, else in `weights`. A state with `evidence`, one number
    per column from 0, sets its own step sizes.
    """

    def with_table_entries(self, state: Any, entries: Floats) -> Any:
        """Return the state with the weights and the evidence of some columns, one row each."""
        weights = np.ascontiguousarray(entries[:, 0])
        state = state._replace(**{name: weights for name in ("weights", "newest") if name in state._fields})
        return state._replace(evidence=np.ascontiguousarray(entries[:, 1])) if hasattr(state, "evidence") else state

    def table_entries_of(self, state: Any) -> Floats | None:
        """Return weights and evidence, or None where the learner does not set its own step sizes."""
        return np.column_stack([state.weights, state.evidence]) if hasattr(state, "evidence") else None


class Wrapper:
    """The base class of wrappers, which change one thing about the learner in `inner`."""

    inner: AnyLearner

    @property
    def accepts(self) -> tuple[type, ...]:
        return self.inner.accepts

    @property
    def reports(self) -> tuple[str, ...]:
        return self.inner.reports

    def _for_inner(self, state: Any, query: Query) -> tuple[Any, Query]:
        """Return the state and the query with which `inner` ranks."""
        return state, query

    def init(self, problem: Problem) -> Any:
        return self.inner.init(problem)

    def rank(self, state: Any, query: Query, rng: Generator) -> Decision[R]:
        state, query = self._for_inner(state, query)
        return self.inner.rank(state, query, rng)

    def learn(self, state: Any, query: Query, decision: Decision[R], feedback: Feedback) -> Any:
        return self.inner.learn(state, query, decision, feedback)

    def predict(self, state: Any, query: Query) -> Ints:
        state, query = self._for_inner(state, query)
        return self.inner.predict(state, query)

    def log_prob(self, state: Any, query: Query, ranking: Ints) -> float:
        state, query = self._for_inner(state, query)
        return self.inner.log_prob(state, query, ranking)


class StateWrapper(Wrapper):
    """The base class of wrappers whose state has that of `inner` in a field; they override `_for_inner`, `learn`."""

    @property
    def reports(self) -> tuple[str, ...]:
        return tuple(f"inner.{path}" for path in self.inner.reports)


def shown_or_all(problem: Problem) -> int:
    """Return `problem.shown` as a number for a state: −1 where every position is visible."""
    return kernels.ALL_POSITIONS if problem.shown is None else problem.shown


def seen_part(ranking: Ints, shown: int) -> Ints:
    """Return the visible part of a ranking.

    Args:
      ranking: The ranking.
      shown: The number of visible positions; negative: all.
    """
    return ranking if shown < 0 else ranking[:shown]


def clicks_by_item(feedback: Feedback, n_items: int) -> Floats:
    """Return the weight of the click on each item, 0 where there was none.

    Args:
      feedback: The clicks.
      n_items: The number of items of the query.
    """
    items, weights = expect(feedback, Clicks)
    return kernels.clicked_weights(n_items, items, weights)


def start_weights(start: tuple[float, ...], n_features: int) -> Floats:
    """Return the first weights of a linear learner.

    Args:
      start: The weights; empty: zeros.
      n_features: The number of features.
    """
    if start and len(start) != n_features:
        raise InvalidInput(f"start has {len(start)} weights, the problem has {n_features} features: give one for each")
    return np.array(start, dtype=np.float64) if start else np.zeros(n_features)


def expect(feedback: Feedback, kind: type[K]) -> K:
    """Return the feedback if it is of a kind.

    Args:
      feedback: The feedback.
      kind: The type that the learner accepts.
    """
    if not isinstance(feedback, kind):
        raise IncompatibleFeedback(f"this learner learns from {kind.__name__}, got {type(feedback).__name__}")
    return feedback


def check_receipt(fits: bool) -> None:
    """Raise `IncompatibleFeedback` unless a receipt fits its decision; kernels do not check bounds."""
    if not fits:
        raise IncompatibleFeedback("the receipt is not of this learner and query: pass what rank returned")


def require_finite(values: Floats) -> Floats:
    """Return the values of a new state; raise `UnstableUpdate` if one is not finite."""
    if not all_finite(values):
        raise UnstableUpdate("the update would make the state non-finite; it was refused and the state is unchanged")
    return values


def finite(value: float) -> float:
    """Return a number of a new state; raise `UnstableUpdate` if it is not finite."""
    if not math.isfinite(value):
        raise UnstableUpdate(f"the update would put {value} into the state; it was refused and the state is unchanged")
    return value


def layers_of(thing: Any) -> Iterator[Any]:
    """Yield a learner or a state, then its `inner`, and so on."""
    yield thing
    while hasattr(thing, "inner"):
        thing = thing.inner
        yield thing


def from_layers(thing: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of the outermost layer that has it.

    Args:
      thing: A learner or a state, perhaps with layers in `inner`.
      name: The attribute.
      default: The result where no layer has it.
    """
    while not hasattr(thing, name):
        if not hasattr(thing, "inner"):
            return default
        thing = thing.inner
    return getattr(thing, name)


def with_in_layers(thing: Any, name: str, value: Any) -> Any:
    """Return a learner or a state with an attribute changed in every layer that has it.

    Args:
      thing: A learner or a state, perhaps with layers in `inner`.
      name: The attribute.
      value: Its new value.
    """
    changes = {name: value} if hasattr(thing, name) else {}
    if hasattr(thing, "inner"):
        changes["inner"] = with_in_layers(thing.inner, name, value)
    is_state = isinstance(thing, tuple)  # a named tuple
    return (thing._replace(**changes) if is_state else dataclasses.replace(thing, **changes)) if changes else thing


class RobustState(NamedTuple):
    """The range of each column (the features, then the context), the typical step, and the counts of interventions."""

    ranges: Floats  # (N_RANGE_ROWS, n_columns): updates, the range before this generation, and the limits in use
    lowest: Floats  # (N_EXTREMES, n_columns): the smallest minima of this generation's updates, ascending
    highest: Floats  # (N_EXTREMES, n_columns): the largest maxima, descending
    n_steps: int  # the steps of the weights
    typical_step: float  # their mean length
    votes: Floats  # (N_VOTES, 2): a fingerprint and a count of clicks of users, see `_counted_clicks`
    clipped: int  # values outside of their range
    capped: int  # steps that were shortened
    repeated: int  # updates that counted already
    inner: Any  # the state of the inner learner

    def reachable(self, initial: "RobustState") -> bool:
        """Return true if the numbers of updates are whole, and the typical step is not negative."""
        updates, declared = self.ranges[N_UPDATES], initial.ranges[N_UPDATES] == DECLARED
        are_counts = np.all((updates >= 0.0) & (updates <= MAX_UPDATES) & (updates == np.floor(updates)) | declared)
        return bool(are_counts and self.typical_step >= 0.0)


@kernel
def _insert(extremes: Floats, column: int, value: float, n_filled: int, sign: float) -> None:
    """Insert a value into a column that is sorted by sign · value, descending; the last value is dropped."""
    place = min(n_filled, len(extremes))
    while place > 0 and sign * value > sign * extremes[place - 1, column]:
        if place < len(extremes):
            extremes[place, column] = extremes[place - 1, column]
        place -= 1
    if place < len(extremes):
        extremes[place, column] = value


@kernel
def _observe(
    ranges: Floats, lowest: Floats, highest: Floats, rows: Floats, first: int, margin: float
) -> tuple[Floats, Floats, Floats]:
    """Return the ranges and extremes after one more update; the first column of the rows has the ranges `first`."""
    # A column takes part if it varies among the rows; that of a single row (a context) if it is not 0.
    ranges, lowest, highest = ranges.copy(), lowest.copy(), highest.copy()
    is_single = len(rows) == 1
    for j in range(rows.shape[1]):
        column = first + j
        low, high = rows[0, j], rows[0, j]
        for i in range(1, len(rows)):
            low, high = min(low, rows[i, j]), max(high, rows[i, j])
        if ranges[N_UPDATES, column] < 0.0 or (low == 0.0 if is_single else low == high):
            continue
        n_before = int(ranges[N_UPDATES, column])
        n_filled = n_before % RANGE_UPDATES
        if n_before > 0 and n_filled == 0:  # a new generation begins
            ranges[LAST_LOW, column], ranges[LAST_HIGH, column] = lowest[-1, column], highest[-1, column]
        _insert(lowest, column, low, n_filled, -1.0)
        _insert(highest, column, high, n_filled, 1.0)
        ranges[N_UPDATES, column] = n_before + 1
        n_filled += 1
        if n_before + 1 < MIN_RANGE_UPDATES:
            continue
        n_ignored = N_IGNORED_EXTREMES + n_filled // UPDATES_PER_IGNORED
        low, high = lowest[n_ignored, column], highest[n_ignored, column]
        if n_before >= RANGE_UPDATES:
            last_low, last_high = ranges[LAST_LOW, column], ranges[LAST_HIGH, column]
            is_known = n_filled >= MIN_RANGE_UPDATES
            low, high = min(low, last_low) if is_known else last_low, max(high, last_high) if is_known else last_high
        if is_single:
            low, high = min(low, 0.0), max(high, 0.0)
        beyond = margin * min(max(high - low, 0.0), MAX_FLOAT)
        ranges[LOW, column] = max(low - beyond, -MAX_FLOAT)
        ranges[HIGH, column] = min(high + beyond, MAX_FLOAT)
    return ranges, lowest, highest


@kernel
def _limit(rows: Floats, ranges: Floats, first: int, is_update: bool) -> tuple[Floats, int]:
    """Return rows inside their ranges, and the number of values that were outside."""
    # In an update a column without a known range is divided by its largest absolute value, if that is above 1.
    limited, n_outside, low, high = np.empty_like(rows), 0, ranges[LOW, first:], ranges[HIGH, first:]
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            limited[i, j] = min(max(rows[i, j], low[j]), high[j])
            n_outside += limited[i, j] != rows[i, j]
    for j in range(rows.shape[1] if is_update else 0):
        if 0.0 <= ranges[N_UPDATES, first + j] < MIN_RANGE_UPDATES:
            limited[:, j] /= max(np.abs(rows[:, j]).max(), 1.0)
    return limited, n_outside


@kernel
def _shorten_step(old: Floats, new: Floats, max_length: float) -> tuple[Floats, float]:
    """Return `new` moved towards `old` until its distance is at most `max_length`, and the distance it had."""
    length = np.sqrt(np.sum((new - old) ** 2))
    if not length > max_length:
        return new, length
    return old + (new - old) * (max_length / length), length


@register("robust")
class Robust(StateWrapper):
    """Keep features inside ranges that are learned, and shorten steps that are much longer than usual.

    No single row decides the order of the others. `Ranker` and the service learn through this wrapper by default.

    The range of a feature is learned from the lists in which it varies: between the smallest minimum and the largest
    maximum of the last 200 to 400 such lists, without the 3 most extreme ones and one more in 40, extended by `margin`
    times its width at either end. Values outside are clipped, when they are ranked and when they are learned from. For
    the first 8 lists the range is not known: then a feature is learned from divided by its largest absolute value in
    the list, if that is above 1. A step of the weights is at most `max_step` times as long as the mean step.

    The state counts clipped values (`clipped`), shortened steps (`capped`) and repeated clicks (`repeated`).

    Args:
      inner: The learner.
      ranges: For each feature its (lowest, highest) value, or () where it is to be learned; empty: all are learned.
      margin: A learned range is extended by this share of its width at either end.
      max_step: The longest step, in mean steps; 0: any.
      clip: If false, features are used as they are.
      once_per_user: A user's click on an item counts once for each query, and for 3 queries at most. Clicks are
        remembered until later ones take their place in a table, after about a thousand. For queries with a user.
      max_weight: The largest weight of a click that a ranker declares by its outcomes. The step of a click of weight v
        may be v times as long, up to this weight; after 100 steps, up to a quarter of the length of the weights.

    Examples:
      >>> from rankloop import build, play
      >>> stream, users, measure = build("web_search"), build("dcm"), build("nDCG@10")
      >>> rounds = play(build("robust(inner='newton_pairs')"), stream, users, horizon=200, seed=0)
      >>> round(sum(measure(r.decision.ranking, r.relevance) for r in rounds) / 200, 3)
      0.526
    """

    inner: AnyLearner
    ranges: tuple[tuple[float, ...], ...] = ()
    margin: NotNegative = 0.5
    max_step: NotNegative = 3.0
    clip: bool = True
    once_per_user: bool = True
    max_weight: Positive = 1.0

    examples: ClassVar[Examples] = (
        {"inner": "3pr"},
        {"inner": "click_regression", "ranges": [[-1.0, 1.0], [], [0.0, 2.0]], "margin": 0.0, "max_step": 1.0},
        {"inner": "online_gradient", "max_step": 0.0, "clip": False, "once_per_user": False},
    )

    def __post_init__(self) -> None:
        for bounds in self.ranges:
            check_finite(ranges=bounds)
            if bounds and not (len(bounds) == 2 and bounds[0] <= bounds[1]):
                raise InvalidInput(f"ranges has {bounds!r:.60}: give (lowest, highest), or () where it is learned")

    @property
    def reports(self) -> tuple[str, ...]:
        return ("clipped", "capped", "repeated", *super().reports)

    def init(self, problem: Problem) -> RobustState:
        n_columns = 0 if problem.n_hashed or not self.clip else problem.n_features + problem.n_context
        if self.ranges and len(self.ranges) != problem.n_features:
            raise InvalidInput(f"there are {len(self.ranges)} ranges for {problem.n_features} features")
        ranges, extremes = np.zeros((N_RANGE_ROWS, n_columns)), np.zeros((N_EXTREMES, n_columns))
        ranges[LOW], ranges[HIGH] = -MAX_FLOAT, MAX_FLOAT
        for column, bounds in enumerate(self.ranges[:n_columns]):
            if bounds:
                ranges[N_UPDATES, column], (ranges[LOW, column], ranges[HIGH, column]) = DECLARED, bounds
        inner, votes = self.inner.init(problem), np.zeros((N_VOTES, 2))
        return RobustState(ranges, extremes, extremes.copy(), 0, 0.0, votes, 0, 0, 0, inner)

    def _for_inner(self, state: RobustState, query: Query) -> tuple[Any, Query]:
        return state.inner, _clip_values(state.ranges, query)[0]

    def learn(self, state: RobustState, query: Query, decision: Decision[R], feedback: Feedback) -> RobustState:
        old_inner = state.inner
        if self.once_per_user and query.user and query.item_ids and isinstance(feedback, Clicks):
            votes, counted = _counted_clicks(state.votes, query, feedback)
            if counted is None:
                return state._replace(repeated=state.repeated + 1)
            state, feedback = state._replace(votes=votes), counted
        ranges, lowest, highest = state.ranges, state.lowest, state.highest
        if ranges.shape[1]:
            if len(query.features) > 1:
                ranges, lowest, highest = _observe(ranges, lowest, highest, query.features, 0, self.margin)
            if len(query.context):
                n_features, context = query.features.shape[1], query.context.reshape(1, -1)
                ranges, lowest, highest = _observe(ranges, lowest, highest, context, n_features, self.margin)
        limited, n_outside = _clip_values(ranges, query, is_update=True)
        after, clipped = self.inner.learn(old_inner, limited, decision, feedback), state.clipped + n_outside
        state = state._replace(ranges=ranges, lowest=lowest, highest=highest, clipped=clipped, inner=after)
        heaviest = 1.0
        if self.max_weight > 1.0 and isinstance(feedback, Clicks):
            heaviest = min(float(feedback.weights.max(initial=1.0)), self.max_weight)
        return self._cap_step(state, old_inner, heaviest) if self.max_step else state

    def _cap_step(self, state: RobustState, old_inner: Any, heaviest: float) -> RobustState:
        """Return the state after a step by clicks of at most this weight, not longer than is allowed."""
        name = "weights" if from_layers(state.inner, "newest") is None else "newest"
        old, new = from_layers(old_inner, name), from_layers(state.inner, name)
        if not isinstance(new, np.ndarray) or new.ndim != 1 or old.shape != new.shape:
            return state
        usual = self.max_step * state.typical_step
        max_length = MAX_FLOAT if state.n_steps < MIN_STEPS else usual * heaviest
        if heaviest > 1.0 and state.n_steps >= MAX_STEPS_AVERAGED:
            max_length = max(usual, min(max_length, MAX_SHARE_MOVED * float(np.sqrt(np.sum(old**2)))))
        weights, length = _shorten_step(old, new, max_length)
        if length == 0.0:
            return state
        inner, n_steps, is_capped = state.inner, state.n_steps + 1, length > max_length
        if is_capped:
            inner = with_in_layers(inner, name, weights)
            precision = from_layers(inner, "precision")
            if precision is not None:  # Rankings are drawn from precision · mean, which must be that of the new mean.
                inner = with_in_layers(inner, "moment", precision @ weights)
            if name == "newest":  # the mean of the steps moves less by the same share
                mean, share = from_layers(old_inner, "weights"), max_length / length
                inner = with_in_layers(inner, "weights", mean + (from_layers(inner, "weights") - mean) * share)
        per_click = min(length, max_length) / heaviest
        typical = state.typical_step + (per_click - state.typical_step) / min(n_steps, MAX_STEPS_AVERAGED)
        capped = state.capped + is_capped
        return state._replace(inner=inner, n_steps=n_steps, typical_step=finite(typical), capped=capped)


def _clip_values(ranges: Floats, query: Query, is_update: bool = False) -> tuple[Query, int]:
    """Return the query with its values inside their ranges, and the number of values that were outside."""
    if not ranges.shape[1]:
        return query, 0
    features, n_outside = _limit(query.features, ranges, 0, is_update)
    context, n_more = query.context, 0
    if len(context):
        rows, n_more = _limit(context.reshape(1, -1), ranges, features.shape[1], is_update)
        context = rows[0]
    is_changed = is_update or n_outside + n_more > 0
    return (query._replace(features=features, context=context) if is_changed else query), n_outside + n_more


def _counted_clicks(votes: Floats, query: Query, feedback: Clicks) -> tuple[Floats, Clicks | None]:
    """Return the table after these clicks, and the clicks that count; None where the user said the same already."""
    # The second visit of a user to a query without a click counts no more than a second click. A weight above 1, as
    # that of a purchase, is told apart from a click.
    items, weights = feedback
    names = [f"{query.item_ids[item]} {weight > 1.0}" for item, weight in zip(items.tolist(), weights)] or [""]
    by_query = [_key(query.user, query.id, name) for name in names]
    by_item = [_key(query.user, name) for name in names]
    is_new = [votes[place, 0] != fingerprint for place, fingerprint in by_query]
    counts = [votes[place, 1] if votes[place, 0] == fingerprint else 0.0 for place, fingerprint in by_item]
    keeps = np.array([count < MAX_CLICKS_PER_ITEM for count in counts])
    if not any(is_new) or (len(items) and not keeps.any()):
        return votes, None
    votes = votes.copy()
    for key in by_query:
        votes[key[0]] = key[1], 1.0
    if not len(items):
        return votes, feedback
    for key, count, is_kept in zip(by_item, counts, keeps):
        if is_kept:
            votes[key[0]] = key[1], count + 1.0
    return votes, Clicks(items[keeps], weights[keeps])


def _key(*parts: str) -> tuple[int, float]:
    """Return the place of a click in the table, and its fingerprint."""
    content = repr(parts).encode("utf-8", "backslashreplace")
    number = int.from_bytes(blake2b(content, digest_size=8).digest(), "little")
    return number % N_VOTES, float(number >> (64 - FINGERPRINT_BITS)) + 1.0
