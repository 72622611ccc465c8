"""Whatever a call can log is read back as it was and folds without an error: a service can always start again."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankloop import Problem, Session, build
from rankloop.core.errors import RankloopError
from rankloop.core.saved_session import dumps
from rankloop.service.application.served_ranker import ServedRanker, query_request
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.experiment import ServedExperiment
from rankloop.service.domain.feedback_acceptance import (
    TrackedImpression,
    _merged_feedback,
    _received_feedback,
    fingerprint_of,
    impression_of,
)
from rankloop.service.domain.projection import MAX_SNAPSHOTS, SNAPSHOT_SECONDS, TEAM_DRAFT, Consumer, Projection
from rankloop.service.domain.trainer import Trainer
from rankloop.service.log.writer import entry_of
from rankloop.service.records import (
    Closed,
    Created,
    ExperimentCreated,
    FeedbackReceived,
    Frozen,
    Ranked,
    Record,
    Resumed,
    RolledBack,
    Snapshotted,
    decode,
)
from rankloop.service.request_bodies import CreateBody, ExperimentBody, FeedbackBody, Id, Item, RankBody, VariantBody
from tests.service.cases import NAMES, SHOP, Location, running

IDS: list[Id] = ["a", "b", 3, 2**64 - 1]
FEATURES = np.eye(4, 3).tolist()
LARGE = {"feature_names": NAMES, "max_grade": 1000}
RANKERS: dict[str, dict[str, Any]] = {
    "clicks": SHOP,
    "grades": {"learner": "online_gradient", "problem": LARGE},
    "first grades": {"learner": "topk_gradient", "problem": LARGE | {"depth": 2, "shown": 2}},
    "better orders": {"learner": "preference_perceptron", "problem": {"n_features": 3}},
    "anything": {"learner": {"kind": "fixed_weights", "weights": [1, 0, 0]}, "problem": LARGE},
    "rewards": {"learner": "auc_policy", "problem": {"items": IDS, "n_context": 2}},
    "a fixed set": {"learner": "top_rank", "problem": {"items": IDS, "shown": 2}, "default_feedback": "not_clicked"},
    "a shadow": SHOP | {"base": {"feature": "age"}, "shadow": True},
    "comparisons": SHOP | {"base": {"weights": [1, 2, 3]}, "evaluation_share": 0.5, "snapshot_every": 1},
}
METHODS = ("team_draft", "balanced", "probabilistic", "optimised")
number = st.floats(allow_nan=False)
grade = st.sampled_from([0.0, 1.0, 0.5, 999.0, 1400.0, 2000.0])
feedback = st.one_of(
    st.fixed_dictionaries({"clicks": st.lists(st.sampled_from(IDS), max_size=4)}),
    st.fixed_dictionaries({"clicks": st.dictionaries(st.sampled_from(list(map(str, IDS))), number)}),
    st.fixed_dictionaries({"relevances": st.fixed_dictionaries({str(id): grade for id in IDS})}),
    st.fixed_dictionaries({"relevances": st.dictionaries(st.sampled_from(list(map(str, IDS))), grade | number)}),
    st.fixed_dictionaries({"preferred": st.permutations(IDS)}),
    st.fixed_dictionaries({"reward": number}),
)
some_ids = st.lists(st.sampled_from(IDS), max_size=2, unique=True)
call = st.one_of(
    st.tuples(st.just("rank"), some_ids, some_ids),
    st.tuples(st.just("feed"), feedback, st.booleans()),
    st.tuples(
        st.just("log"), st.sampled_from([Frozen("x"), Resumed(), RolledBack(0), RolledBack(0, "y", freezes=True)])
    ),
    st.tuples(st.just("log"), st.just(Snapshotted(1, 1, "", "0"))),
    st.tuples(st.just("close")),
)


class World:
    """A ranker or an experiment without a service: what its calls would log is written, read and folded."""

    def __init__(self, runtime: ServedRanker | ServedExperiment) -> None:
        self.runtime = runtime
        method = runtime.body.interleaving if isinstance(runtime, ServedExperiment) else TEAM_DRAFT
        self.projection = Projection(runtime.config, method)
        self.forgetful = Projection(runtime.config, method)  # a learner with no memory for what is open
        self.forgetful.find = self.find
        if isinstance(runtime, ServedRanker):
            self.projection.trainer, self.forgetful.trainer = Trainer(runtime.config), Trainer(runtime.config)
        self.records: list[Record] = []
        self.seq = 0

    def find(self, name: str, seq: int) -> TrackedImpression | None:
        return impression_of(
            record for record in self.records if record.seq < seq and getattr(record.event, "impression", "") == name
        )

    def log(self, event: Any) -> None:
        self.seq += 1
        written = decode(entry_of(self.runtime.entity, event).body)
        assert written == event
        record = Record(self.seq, self.runtime.entity, 0.0, written)
        self.records.append(record)
        outcome, other = self.projection.apply(record), self.forgetful.apply(record)
        self.forgetful.make_room(0)
        assert self.forgetful.saved() == self.projection.saved()
        assert other == outcome
        assert _learned(self.forgetful) == _learned(self.projection)
        again = Projection(self.runtime.config)
        again.restore(self.projection.saved())

    def event_of(self, kind: str, *given: Any) -> Any:
        """What a call would log; a refusal is raised before that."""
        first = next(iter(self.projection.open.values()), None)
        if kind == "rank":
            features = [Item(id, row) for id, row in zip(IDS, FEATURES)]
            items = [] if self.runtime.config.adapter.items else features
            context = [1.0] * self.runtime.config.problem.n_context
            body = RankBody(items=items, context=context, pinned=given[0], excluded=given[1])
            return self.runtime.rank(query_request(body, self.runtime.config, 100), f"n{self.seq}")
        if kind == "log":
            return given[0]
        if first is None:
            return None
        if kind == "close":
            return Closed(first.ranked.impression)
        body = FeedbackBody(first.ranked.impression, **given[0], final=given[1])
        feedback = _received_feedback(body, first.ranked, self.runtime.config)
        _merged_feedback(first.feedback, feedback)
        return feedback

    def live_through(self, calls: list[Any]) -> None:
        for each in calls:
            try:
                event = self.event_of(*each)
            except RankloopError:
                continue
            if event is not None:
                self.log(event)


def test_updates_that_come_fast_have_fewer_snapshots() -> None:
    """More often than these a restart gains nothing, and each costs as much as several updates."""
    runtime = ServedRanker("ranker/r", config_of(body_of(SHOP | {"snapshot_every": 1})), b"")
    consumer = Consumer("ranker/r", None, Projection(runtime.config, trainer=Trainer(runtime.config)))
    items = [Item(id, row) for id, row in zip(IDS, FEATURES)]

    def n_due(times: list[float]) -> int:
        due = 0
        for at in times:
            seq = consumer.projection.seq
            ranked = runtime.rank(query_request(RankBody(items), runtime.config, 100), f"n{seq}")
            click = FeedbackReceived(ranked.impression, "clicks", ranked.order[:1], [1.0], final=True)
            events = (ranked, click)
            due += len(consumer.apply([Record(seq + i, "ranker/r", at, event) for i, event in enumerate(events, 1)]))
        return due

    assert n_due([number / 100 for number in range(60)]) == MAX_SNAPSHOTS
    assert n_due([SNAPSHOT_SECONDS - 0.01]) == 0
    assert n_due([SNAPSHOT_SECONDS + number / 100 for number in range(60)]) == MAX_SNAPSHOTS
    assert n_due([-10.0]) == 1  # the clock was set back
    slowly = [1000.0 + number * 2.01 for number in range(60)]
    assert n_due(slowly) == len(slowly)
    assert consumer.published().learned == 60 + 1 + 60 + 1 + 60


def _learned(projection: Projection) -> Any:
    """What was learned so far, bit for bit."""
    trainer = projection.trainer
    return None if trainer is None else (trainer.number, trainer.rejected, trainer.digest())


def body_of(table: dict[str, Any]) -> CreateBody:
    return msgspec.convert(table, CreateBody)


quickly = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", RANKERS)
def test_no_event_of_a_ranker_breaks_the_fold(kind: str) -> None:
    event = Created(body_of(RANKERS[kind]))

    @quickly
    @given(calls=st.lists(call, min_size=1, max_size=25))
    def check(calls: list[Any]) -> None:
        written: Any = decode(entry_of("ranker/r", event).body)
        runtime = ServedRanker("ranker/r", config_of(written.body), b"")
        World(runtime).live_through([("rank", [], []), *calls])

    check()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("method", METHODS)
def test_no_event_of_an_experiment_breaks_the_fold(method: str) -> None:
    variants = VariantBody(weights=[1, 2, 3]), VariantBody(weights=[3.0, -2.0, 1.0])
    event = ExperimentCreated(ExperimentBody(variants[0], variants[1], interleaving=method))

    @quickly
    @given(calls=st.lists(call, min_size=1, max_size=25))
    def check(calls: list[Any]) -> None:
        written: Any = decode(entry_of("experiment/e", event).body)
        World(ServedExperiment("experiment/e", written.body, {})).live_through([("rank", [], []), *calls])

    check()


TWO = Problem(0, n_items=2)
INVENTED: dict[str, tuple[str, Problem, Any]] = {
    "names that are numbers": ("3pr", Problem(2, feature_names=(1, 2)), None),  # type: ignore[arg-type]
    "a name twice": ("3pr", Problem(2, feature_names=("a", "a")), None),
    "a number for the items": ("random_order", TWO, 5),
    "lists for the items": ("random_order", TWO, [[1], [2]]),
    "fractions for the items": ("random_order", TWO, [1.5, None]),
    "too many items": ("top_rank", TWO, ["a", "b", "c", "d"]),
    "too large an id": ("random_order", TWO, [1, 2**64]),
    "too long an id": ("random_order", TWO, ["a" * 257, "b"]),
    "a truth for a number": ("3pr", Problem(1, n_context=True), None),
    "too high a grade": ("online_gradient", Problem(2, max_grade=1001), None),
}


def test_a_file_that_no_log_could_be_read_with_is_refused(location: Location) -> None:
    with running(location) as client:
        for why, (learner, problem, named) in INVENTED.items():
            session = Session(build(learner, "learner"), Problem(problem.n_features, problem.n_items), 0)
            session.problem = problem
            content = dumps(session, {"items": named})
            answer = client.put("/rankers/up/state", content=content)
            assert answer.status_code == 422, (why, answer.text)
        content = dumps(Session(build("top_rank", "learner"), TWO, 0), {"items": ["a", 2]})
        assert client.put("/rankers/up/state", content=content).status_code == 201
    with running(location) as client:
        shown = client.post("/rankers/up/rank", json={}).json()
        assert sorted(map(str, shown["ranking"])) == ["2", "a"]


feedback_event = st.builds(
    FeedbackReceived,
    st.just("one"),
    st.sampled_from(["clicks", "preferred"]),
    st.lists(st.integers(0, 2), max_size=2),
    st.lists(st.sampled_from([-0.0, 0, 0.0, 1, 1.0]), max_size=2),
    st.booleans(),
)


@given(feedback_event, feedback_event)
def test_fingerprints_are_equal_where_feedback_is(one: FeedbackReceived, other: FeedbackReceived) -> None:
    assert (fingerprint_of(one) == fingerprint_of(other)) == (one == other)


def test_much_feedback_on_one_impression_stays_cheap() -> None:
    projection, took = Projection(None), []
    projection.apply(Record(1, "ranker/shop", 0.0, Ranked("one", ["a"], b"", [0])))
    for begin in range(0, 12_000, 1_000):
        before = time.thread_time()
        for number in range(begin, begin + 1_000):
            said = FeedbackReceived("one", "clicks", [0], [1.0 + number])
            assert projection.apply(Record(number + 2, "ranker/shop", 0.0, said)).verdict == "accepted"
        took.append(time.thread_time() - before)
    assert took[-1] < 6 * took[0]  # it was about 20 when each was compared with all before it
    again = FeedbackReceived("one", "clicks", [0], [1.0])
    assert projection.apply(Record(20_000, "ranker/shop", 0.0, again)).verdict == "repeated"
