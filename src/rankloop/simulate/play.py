"""The loop: a query, a ranking, a simulated user, feedback that may be late, lost or repeated, a better ranking."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from numpy.random import Generator

from rankloop.core.checks import check_at_least, check_probability
from rankloop.core.errors import UnstableUpdate
from rankloop.core.protocols import AnyLearner, FeedbackModel, Stream
from rankloop.core.registry import category, register
from rankloop.core.session import Session, generators
from rankloop.core.types import Arrival, Decision, Feedback, Floats, Query, whole_number


@runtime_checkable
class Delivery(Protocol):
    """Says in which rounds the feedback of round t arrives; takes the same number of doubles every time."""

    def route(self, t: int, rng: Generator) -> tuple[int, ...]: ...


category("delivery", Delivery)


@register("late")
class LateDelivery:
    """A share of the feedback arrives up to `rounds` rounds after it was given, so out of order too."""

    rounds: int = 10
    share: float = 1.0

    def __post_init__(self) -> None:
        check_probability("share", self.share)
        check_at_least(0, rounds=self.rounds)

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        is_late, how_late = rng.random(2)
        return (t + 1 + int(how_late * self.rounds),) if is_late < self.share and self.rounds else (t,)


@register("lost")
class LostDelivery:
    """A share of the feedback never arrives."""

    share: float = 0.2

    def __post_init__(self) -> None:
        check_probability("share", self.share)

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        return () if rng.random() < self.share else (t,)


@register("repeated")
class RepeatedDelivery:
    """A share of the feedback arrives a second time, one round later."""

    share: float = 0.2

    def __post_init__(self) -> None:
        check_probability("share", self.share)

    def route(self, t: int, rng: Generator) -> tuple[int, ...]:
        return (t, t + 1) if rng.random() < self.share else (t,)


@dataclass(slots=True, eq=False)
class Round:
    """One turn of the loop.

    `feedback` is that of this round's own decision, whether or not it arrived; `refused` counts the updates so far that
    would have been unstable.
    """

    t: int
    query: Query
    relevance: Floats
    state: Any  # before
    decision: Decision[Any]
    arrived: tuple[Arrival, ...]
    learned: Any  # the state after
    feedback: Feedback
    refused: int

    def __iter__(self) -> Iterator[Any]:
        """t, query, relevance, state, decision, arrived, learned."""
        return iter((self.t, self.query, self.relevance, self.state, self.decision, self.arrived, self.learned))

    def __len__(self) -> int:
        return 7

    def __getitem__(self, position: int) -> Any:
        return tuple(self)[position]


def play(
    learner: AnyLearner,
    stream: Stream,
    users: FeedbackModel,
    *,
    horizon: int,
    seed: int,
    delivery: Delivery | None = None,
) -> Iterator[Round]:
    """Show `horizon` rankings to simulated users and learn from what they reveal.

    Two learners with the same seed meet the same queries and the same users. An update that would be unstable is
    refused and counted in `refused` of the rounds; the loop goes on.

    Args:
      learner: The learner that ranks; it begins with its first state.
      stream: Where queries and their relevance come from.
      people: The simulated users.
      horizon: The number of rounds.
      seed: Decides all random numbers.
      delivery: When feedback arrives; at once if None.

    Returns:
      The rounds, played as they are asked for.

    Raises:
      InvalidInput: If the horizon is no whole number from 0, or the learner does not fit the stream.
    """
    horizon = whole_number(horizon, "horizon", 0)
    problem = stream.problem._replace(shown=users.shown, depth=users.depth)
    return _rounds(Session(learner, problem, seed), stream, users, horizon, delivery)


def _rounds(
    session: Session, stream: Stream, users: FeedbackModel, horizon: int, delivery: Delivery | None
) -> Iterator[Round]:
    of_stream, of_users, _, of_delivery = generators(session.seed)
    on_the_way: dict[int, list[Arrival]] = {}
    for t, (query, relevance) in enumerate(islice(stream.rounds(of_stream), horizon)):
        state = session.state
        decision = session.rank(query)
        grades = relevance(decision.ranking) if callable(relevance) else relevance
        feedback = users.observe(decision.ranking, grades, of_users)
        arrived: tuple[Arrival, ...] = (Arrival(query, decision, feedback),)
        if delivery is not None:
            for due in delivery.route(t, of_delivery):
                on_the_way.setdefault(due, []).append(arrived[0])
            arrived = tuple(on_the_way.pop(t, ()))
        for arrival in arrived:
            _learn(session, arrival)
        yield Round(t, query, grades, state, decision, arrived, session.state, feedback, session.refused)


def _learn(session: Session, arrival: Arrival) -> None:
    try:
        session.learn(arrival.query, arrival.decision, arrival.feedback)
    except UnstableUpdate:
        return  # the session has counted it in `refused` and kept the old state
