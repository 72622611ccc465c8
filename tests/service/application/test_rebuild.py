"""Over HTTP a ranker shows the very rankings that `play` shows; after a stop it goes on as if there had been none."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pytest

from rankloop import __version__, build, play, spec_of
from rankloop.core.session import generators
from rankloop.service.application.rebuild import replay_records
from rankloop.service.records import Record, Snapshotted
from tests.service.cases import SHOP, Location, learn, running

CASES = [
    ("3pr", "linear_gaussian(n_items=8, n_features=4)", "cascade(max_grade=1)"),
    ("3pr(swap='dynamic', budget=0.1)", "linear_gaussian(n_items=8, n_features=4)", "dcm(max_grade=1)"),
    ("pdgd", "linear_gaussian(n_items=8, n_features=4)", "cascade(max_grade=1)"),
    ("online_gradient", "linear_gaussian(n_items=8, n_features=4)", "full"),
]
ROUNDS = 30


@pytest.mark.parametrize(("learner", "stream", "users"), CASES)
def test_thirty_rounds_are_those_of_play_even_across_a_restart(
    location: Location, learner: str, stream: str, users: str
) -> None:
    world, crowd = build(stream, "stream"), build(users, "feedback")
    made = build({"kind": "robust", "inner": learner}, "learner")  # as the service wraps it
    expected = [round.decision.ranking.tolist() for round in play(made, world, crowd, horizon=ROUNDS, seed=5)]
    of_stream, of_users, _, _ = generators(5)
    rounds = list(islice(world.rounds(of_stream), ROUNDS))
    problem = {"n_features": 4, "shown": crowd.shown, "depth": crowd.depth, "max_grade": world.problem.max_grade}
    body = {"learner": spec_of(made), "problem": problem, "seed": 5, "snapshot_every": 7}
    shown = []
    for part in (rounds[:11], rounds[11:20], rounds[20:]):
        with running(location) as client:
            assert client.put("/rankers/r", json=body).status_code in (200, 201)
            shown += [_turn(client, query, relevance, crowd, of_users) for query, relevance in part]
    assert shown == expected
    (result,) = replay_records(location.records())
    assert result.differing == ()
    assert result.learned == ROUNDS


def _turn(client: Any, query: Any, relevance: Any, users: Any, rng: Any) -> list[int]:
    items = [{"id": i, "features": row.tolist()} for i, row in enumerate(query.features)]
    answer = client.post("/rankers/r/rank", json={"items": items}).json()
    ranking = np.array(answer["ranking"])
    seen = users.observe(ranking, relevance, rng)
    values = {str(i): float(v) for i, v in zip(*seen)}
    kind = {"Clicks": "clicks", "Relevances": "relevances"}[type(seen).__name__]
    body = {"impression": answer["impression"], kind: values, "final": True}
    response = client.post("/rankers/r/feedback", json=body)
    assert response.status_code == 200, response.text
    return list(answer["ranking"])


def _learned_by(records: list[Record], code: str, digest: str) -> list[Record]:
    """The same log, with snapshots of another version of rankloop, whose states have this digest."""
    return [
        record._replace(
            event=msgspec.structs.replace(record.event, rankloop_version=code, digest=digest or record.event.digest)
        )
        if isinstance(record.event, Snapshotted)
        else record
        for record in records
    ]


def test_a_replay_tells_an_upgrade_from_damage(location: Location) -> None:
    with running(location) as client:
        client.put("/rankers/shop", json=SHOP | {"snapshot_every": 2}).raise_for_status()
        learn(client, 4)
    records = location.records()
    said = {}
    for code, digest in ((__version__, ""), ("0.1.9", ""), (__version__, "f00"), ("0.1.9", "f00")):
        (result,) = replay_records(_learned_by(records, code, digest))
        assert bool(result.differing) == bool(digest)
        said[code, digest] = result.verdict
    assert said[__version__, ""] == said["0.1.9", ""] == "the same bit for bit"  # an upgrade that changes nothing
    assert "though this version learned them: the log is damaged" in said[__version__, "f00"]
    assert f"learned by rankloop 0.1.9, this is {__version__}: replay them with the version" in said["0.1.9", "f00"]
