"""A field that nobody knows is answered with those that there are, wherever it stands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rankloop.service.http.codec import decoder
from rankloop.service.http.problems import problem_of
from rankloop.service.requests import CreateBody, RankBatch, RankBody

LEARNER = {"learner": "3pr"}


@pytest.mark.parametrize(
    ("kind", "body", "field", "known"),
    [
        (CreateBody, LEARNER | {"problem": {"features": ["price"]}}, "problem", "feature_names"),
        (CreateBody, LEARNER | {"problem": {"context": {"names": []}}}, "problem.context", "columns, means, values"),
        (CreateBody, LEARNER | {"problem": {}, "widow": 3}, "body", "window"),
        (RankBatch, {"requests": [{"items": [{"id": 1, "row": []}]}]}, "requests[0].items[0]", "features, id"),
    ],
    ids=str,
)
def test_the_fields_that_there_are_are_named(kind: Any, body: Any, field: str, known: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        decoder(kind)(msgspec.json.encode(body))
    (error,) = problem_of(refused.value)["errors"]
    assert error["field"] == field
    reason, _, names = error["reason"].partition("; there is ")
    assert reason.startswith("Object contains unknown field `")
    assert known in names


@pytest.mark.parametrize("name", ["x` - at `$.y", "`", "", "x` - at `$.items[0].id", "\n", "ä`b"])
def test_no_name_leads_astray(name: str) -> None:
    for body in ({name: 1}, {"items": [{"id": 1, name: 1}]}):
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            decoder(RankBody)(msgspec.json.encode(body))
