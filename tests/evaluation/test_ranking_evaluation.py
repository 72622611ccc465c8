"""A ranker judged on lists: the same to the last bit, here and by workers."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Clicks
from rankloop.engine import Here, Threads
from rankloop.evaluation import evaluate_on_lists
from rankloop.evaluation.off_policy.propensities import session_rows
from rankloop.evaluation.ranking_evaluation import Judge
from rankloop.features.encoder import Encoder
from tests.training.clicks.test_passes import SCHEMA, logged, train_with_schema


def test_every_engine_gives_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [one._replace(log_propensity=float(np.log(1 / 24))) for one in logged(700)]
    session = train_with_schema(lists[:100], SCHEMA, passes=1).session
    watched: list[int] = []
    engines = Here(), Threads(workers=2), Threads(workers=1)
    reports = [
        evaluate_on_lists(session, lists, "mine", schema=SCHEMA, engine=one, watch=watched.append) for one in engines
    ]
    assert reports[0] == reports[1] == reports[2]
    assert watched.count(700) == 3
    encoder = Encoder(SCHEMA)
    plain = next(session_rows(session, (one.arrival(encoder) for one in lists)))
    (rows,) = Judge(session, SCHEMA).rows(lists)
    for mine, expected in zip(rows[:3], plain[:3]):
        np.testing.assert_array_equal(mine, expected)
    assert rows.reward.sum() == sum(one.arrival(encoder).feedback.weights.sum() for one in lists)
    assert Clicks is type(lists[0].arrival(encoder).feedback)


@pytest.mark.parametrize("engine", [Here(), Threads(workers=2)], ids=str)
def test_a_fault_names_its_row_whichever_piece_it_is_in(engine) -> None:
    lists = [one._replace(log_propensity=float(np.log(1 / 24))) for one in logged(300)]
    session = train_with_schema(lists[:20], SCHEMA, passes=1).session
    lists[270] = lists[270]._replace(log_propensity=float("nan"))
    with pytest.raises(InvalidInput, match="row 270: the propensity is missing"):
        evaluate_on_lists(session, lists, "mine", schema=SCHEMA, engine=engine)
