"""The loop: a query, a ranking, people, feedback, a better ranking."""

from collections.abc import Iterator
from itertools import islice

from rankloop.core.errors import UnstableUpdate
from rankloop.core.protocols import AnyLearner, FeedbackModel, Stream
from rankloop.core.session import Session, generators
from rankloop.core.types import Arrival, whole_number
from rankloop.simulate.compiled.rounds import Played, can_be_compiled, compiled_rounds, played_chunks
from rankloop.simulate.delivery import Delivery
from rankloop.simulate.round import Round

__all__ = ["Round", "play"]


def play(
    learner: AnyLearner,
    stream: Stream,
    people: FeedbackModel,
    *,
    horizon: int,
    seed: int,
    delivery: Delivery | None = None,
) -> Iterator[Round]:
    """Show `horizon` rankings to simulated people and learn from what they reveal.

    Two learners with the same seed meet the same queries and the same people. An update that would be unstable is
    refused and counted in `refused` of the rounds; the loop goes on. Compiled code plays many rounds at a time where
    that changes nothing but the speed.
    """
    horizon = whole_number(horizon, "horizon", 0)
    problem = stream.problem._replace(shown=people.shown, depth=people.depth)
    session = Session(learner, problem, seed)
    if delivery is None and can_be_compiled(learner, stream, people):
        return compiled_rounds(learner, stream, people, session.state, horizon, seed)
    return _rounds(session, stream, people, horizon, delivery)


def play_chunks(
    learner: AnyLearner, stream: Stream, people: FeedbackModel, *, horizon: int, seed: int
) -> Iterator[Played]:
    """What `play` shows, many rounds at a time, where `can_be_compiled` says that this is possible."""
    problem = stream.problem._replace(shown=people.shown, depth=people.depth)
    state = Session(learner, problem, seed).state
    return played_chunks(learner, stream, people, state, whole_number(horizon, "horizon", 0), seed)


def _rounds(
    session: Session, stream: Stream, people: FeedbackModel, horizon: int, delivery: Delivery | None
) -> Iterator[Round]:
    of_stream, of_people, _, of_delivery = generators(session.seed)
    on_the_way: dict[int, list[Arrival]] = {}
    for t, (query, relevance) in enumerate(islice(stream.rounds(of_stream), horizon)):
        state = session.state
        decision = session.rank(query)
        grades = relevance(decision.ranking) if callable(relevance) else relevance
        feedback = people.observe(decision.ranking, grades, of_people)
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
        session.learn(*arrival)
    except UnstableUpdate:
        return  # the session has counted it in `refused` and kept the old state
