"""The loop: a query, a ranking, a simulated user, feedback that may be late, lost or repeated, and an update."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from numpy.random import Generator

from rankloop.core.checks import Count, Probability
from rankloop.core.errors import UnstableUpdate
from rankloop.core.protocols import AnyLearner, FeedbackModel, Stream
from rankloop.core.registry import build, category, register
from rankloop.core.session import Session, generators
from rankloop.core.types import Arrival, Decision, Feedback, Floats, Query, whole_number
from rankloop.measures.base import mean_of


@runtime_checkable
class Delivery(Protocol):
    """A rule that says in which rounds feedback arrives; it draws a fixed number of doubles each time."""

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        """Return the rounds in which the feedback of round t arrives."""


category("delivery", Delivery)


@register("late")
class LateDelivery:
    """Deliver a share of the feedback up to `rounds` rounds late, and so out of order.

    Args:
      rounds: The largest delay.
      share: The share of the feedback that is late.
    """

    rounds: Count = 10
    share: Probability = 1.0

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        is_late, delay = rng.random(2)
        return (t + 1 + int(delay * self.rounds),) if is_late < self.share and self.rounds else (t,)


@register("lost")
class LostDelivery:
    """Lose a share of the feedback.

    Args:
      share: The share of the feedback that never arrives.
    """

    share: Probability = 0.2

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        return () if rng.random() < self.share else (t,)


@register("repeated")
class RepeatedDelivery:
    """Deliver a share of the feedback a second time, one round later.

    Args:
      share: The share of the feedback that is repeated.
    """

    share: Probability = 0.2

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        return (t, t + 1) if rng.random() < self.share else (t,)


@dataclass(slots=True, eq=False)
class Round:
    """One round of the loop; `state` is that before the round, `learned` that after it.

    `feedback` is that on this round's decision, and may arrive later; `arrived` is the feedback that came now.
    `refused` counts the updates so far that were refused as unstable.
    """

    t: int  # from 0
    query: Query
    relevance: Floats
    state: Any
    decision: Decision[Any]
    arrived: tuple[Arrival, ...]
    learned: Any
    feedback: Feedback
    refused: int


def play(
    learner: AnyLearner,
    stream: Stream,
    users: FeedbackModel,
    *,
    horizon: int,
    seed: int,
    delivery: Delivery | None = None,
) -> Iterator[Round]:
    """Show `horizon` rankings to simulated users and learn from their feedback; rounds are played as they are iterated.

    Two learners with the same seed meet the same queries and the same users. An update that would be unstable is
    refused and counted in `refused` of the rounds; the loop goes on.

    Args:
      learner: The learner that ranks; it begins with its first state.
      stream: The source of queries and their relevance.
      users: The simulated users.
      horizon: The number of rounds.
      seed: Decides all random numbers.
      delivery: The rule by which feedback arrives; at once if None.

    Examples:
      >>> from rankloop import build, play
      >>> stream, users = build("flipped_relevance"), build("top_k(depth=5)")
      >>> *_, last = play(build("rtopk"), stream, users, horizon=100, seed=0)
      >>> last.t
      99
    """
    horizon = whole_number(horizon, "horizon", 0)
    problem = stream.problem._replace(shown=users.shown, depth=users.depth)
    return _rounds(Session(learner, problem, seed), stream, users, horizon, delivery)


def play_mean(learner: Any, stream: Any, users: Any, measure: Any) -> float:
    """Return the mean of a measure over 200 rounds of `play`, for a first impression.

    Args:
      learner: The learner or its spec.
      stream: The stream or its spec.
      users: The simulated users or their spec.
      measure: The measure or its name.
    """
    judge = build(measure, "measure")
    rounds = play(build(learner, "learner"), build(stream, "stream"), build(users, "feedback"), horizon=200, seed=0)
    return mean_of([judge(each.decision.ranking, each.relevance) for each in rounds])


def _rounds(
    session: Session, stream: Stream, users: FeedbackModel, horizon: int, delivery: Delivery | None
) -> Iterator[Round]:
    stream_rng, users_rng, _, delivery_rng = generators(session.seed)
    pending: dict[int, list[Arrival]] = {}
    for t, (query, relevance) in enumerate(islice(stream.rounds(stream_rng), horizon)):
        state = session.state
        decision = session.rank(query)
        grades = relevance(decision.ranking) if callable(relevance) else relevance
        feedback = users.observe(decision.ranking, grades, users_rng)
        arrived: tuple[Arrival, ...] = (Arrival(query, decision, feedback),)
        if delivery is not None:
            for due in delivery.route(t, delivery_rng):
                pending.setdefault(due, []).append(arrived[0])
            arrived = tuple(pending.pop(t, ()))
        for arrival in arrived:
            try:
                session.learn(arrival.query, arrival.decision, arrival.feedback)
            except UnstableUpdate:
                continue  # the session has counted it in `refused` and kept the old state
        yield Round(t, query, grades, state, decision, arrived, session.state, feedback, session.refused)
