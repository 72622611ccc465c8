"""What is wrong with a body is named by its path; an unknown field is answered with those that there are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rankloop.service.http.endpoints import decode
from rankloop.service.http.problems import InvalidBody, problem_of
from rankloop.service.request_bodies import CreateBody, ExperimentBody, FeedbackBody, RankBatch, RankBody

LEARNER = {"learner": "3pr"}
VARIANTS = {"a": {}, "b": {}}


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
    with pytest.raises(InvalidBody) as refused:
        decode(msgspec.json.encode(body), kind)
    (error,) = problem_of(refused.value).errors
    assert error.field == field
    reason, _, names = error.reason.partition("; the fields are ")
    assert reason.startswith("unknown field `")
    assert known in names


@pytest.mark.parametrize(
    ("kind", "content", "path"),
    [
        (ExperimentBody, b'{"a": {"weights": [1, "x"]}, "b": {}}', ("a", "weights", 1)),
        (ExperimentBody, b'{"a": {"weights": [1, 1e999]}, "b": {}}', ("a", "weights", 1)),
        (ExperimentBody, b'{"a": {}}', ()),
        (CreateBody, b'{"learner": 3, "problem": {}}', ("learner",)),
        (FeedbackBody, b'{"impression": "x", "clicks": {"a": null}}', ("clicks", "a")),
        (RankBody, b'{"items": [{"id": "a", "features": {"price": 1e999}}]}', ("items", 0, "features", "price")),
        (RankBody, b"[]", ()),
    ],
)
def test_the_path_leads_to_what_is_wrong(kind: Any, content: bytes, path: tuple[str | int, ...]) -> None:
    with pytest.raises(InvalidBody) as refused:
        decode(content, kind)
    assert refused.value.path == path
    assert " - at " not in refused.value.reason


@pytest.mark.parametrize("name", ["x` - at `$.y", "`", "", "x` - at `$.items[0].id", "\n", "ä`b"])
def test_no_name_leads_astray(name: str) -> None:
    for body in ({name: 1}, {"items": [{"id": 1, name: 1}]}):
        with pytest.raises(InvalidBody, match="unknown field"):
            decode(msgspec.json.encode(body), RankBody)
