"""A bad row cannot poison it: a clear 4xx with the field, and the state untouched."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rankloop.service.domain.trainer import digest
from tests.service.cases import SHOP, Location, feed, inside, items, learn, rank, report, running, until

DEEP = b"[" * 100_000 + b"]" * 100_000
REQUESTS = int(os.environ.get("RANKLOOP_REQUESTS", "300"))
NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "null", '"1"', "true", "[1]", "{}")


@pytest.fixture(scope="module")
def client(module_position: Location) -> Iterator[httpx.Client]:
    with running(module_position) as client:
        client.put("/rankers/shop", json=SHOP)
        grades = {"learner": {"kind": "online_gradient"}, "problem": {"n_features": 3, "depth": 2, "max_grade": 2}}
        assert client.put("/rankers/graded", json=grades).status_code == 201
        learn(client, 3)
        yield client


@pytest.fixture
def unchanged(client: httpx.Client) -> Any:
    before = _state(client)
    yield
    assert _state(client) == before


def _state(client: httpx.Client) -> list[Any]:
    runtimes = inside(client).directory.rankers.values()
    return [
        (digest(runtime.serving.state), runtime.published.number, runtime.published.learned) for runtime in runtimes
    ]


def _problem(response: httpx.Response, status: int | None = None) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    assert 400 <= response.status_code < 500, response.text
    assert status is None or response.status_code == status
    return dict(response.json())


def _post(client: httpx.Client, path: str, content: bytes | str) -> httpx.Response:
    return client.post(path, content=content, headers={"Content-Type": "application/json"})


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("number", NUMBERS)
def test_a_feature_that_is_no_finite_number(client: httpx.Client, number: str) -> None:
    body = f'{{"items": [{{"id": "a", "features": [0.5, {number}, 1]}}]}}'
    _problem(_post(client, "/rankers/shop/rank", body))


RANKINGS: list[tuple[dict[str, Any], str]] = [
    ({"items": []}, "items"),
    ({"items": [{"id": "a", "features": [1, 2]}]}, "items"),
    ({"items": [{"id": "a", "features": [1, 2, 3]}] * 2}, "items"),
    ({"items": [{"id": 1, "features": [1, 2, 3]}, {"id": "1", "features": [1, 2, 3]}]}, "items"),
    ({"items": [{"id": "a", "features": {"colour": 1}}]}, "items"),
    ({"items": items(), "context": [1.0]}, "context"),
    ({"items": items(), "pinned": ["nobody"]}, "pinned"),
    ({"items": items(), "pinned": ["i0", "i0"]}, "pinned"),
    ({"items": items(), "pinned": ["i0"], "excluded": ["i0"]}, "pinned"),
    ({"items": items(2), "excluded": ["i0", "i1"]}, "items"),
    ({"items": items(), "query_id": "x" * 1000}, "query_id"),
    ({"items": [{"id": "x" * 1000, "features": [1, 2, 3]}]}, "items"),
    ({"items": items(), "colour": 1}, "body"),
    ({"items": [{"id": None}]}, "items[0].id"),
]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("body", "field"), RANKINGS)
def test_a_request_to_rank_that_makes_no_sense(client: httpx.Client, body: dict[str, Any], field: str) -> None:
    assert _problem(client.post("/rankers/shop/rank", json=body), 422)["errors"][0]["field"] == field


@pytest.mark.usefixtures("unchanged")
def test_feedback_that_does_not_fit(client: httpx.Client) -> None:
    shown = rank(client)
    wrong: list[dict[str, Any]] = [
        {},
        {"clicks": ["nobody"]},
        {"clicks": ["i0", "i0"]},
        {"clicks": {"i0": -1}},
        {"clicks": ["i0"], "reward": 1},
        {"relevances": {"i0": 1}},
        {"preferred": ["i0"]},
        {"reward": 1},
        {"clicks": "i0"},
    ]
    for body in wrong:
        _problem(feed(client, shown["impression"], **body), 422)
    _problem(
        _post(client, "/rankers/shop/feedback", f'{{"impression": "{shown["impression"]}", "clicks": {{"i0": 1e999}}}}')
    )


@pytest.mark.usefixtures("unchanged")
def test_grades_out_of_range_or_of_the_wrong_items(client: httpx.Client) -> None:
    shown = rank(client, "graded")
    first, second, third, _ = shown["ranking"]
    for grades in ({first: 3, second: 0}, {first: -1, second: 0}, {first: 1, third: 1}, {first: 1}):
        _problem(feed(client, shown["impression"], "graded", relevances=grades, final=True), 422)


@pytest.mark.usefixtures("unchanged")
def test_too_much_of_everything(client: httpx.Client) -> None:
    many = json.dumps({"items": [{"id": i, "features": []} for i in range(1500)]})
    assert _problem(_post(client, "/rankers/shop/rank", many), 413)
    assert _problem(_post(client, "/rankers/shop/rank", b"[" + b"0," * 5_000_000 + b"0]"), 413)
    assert _problem(_post(client, "/rankers/shop/rank", DEEP), 422)
    deep = client.put("/rankers/deep", content=b'{"problem": {"n_features": 1}, "learner": {"kind": ' + DEEP + b"}}")
    assert _problem(deep)
    assert _problem(client.post("/rankers/shop/rank:batch", json={"requests": [{}] * 300}), 413)


def test_a_body_without_an_announced_length_is_cut_off(client: httpx.Client) -> None:
    def endless() -> Any:
        for _ in range(300):
            yield b" " * 100_000

    try:
        response = client.post("/rankers/shop/rank", content=endless(), headers={"Content-Type": "application/json"})
    except httpx.TransportError:
        return  # hung up before all was sent
    assert response.status_code == 413


def test_a_body_without_a_content_type_is_json_and_a_form_is_told_so(client: httpx.Client) -> None:
    body = json.dumps({"items": items()}).encode()
    assert "content-type" not in client.build_request("POST", "/", content=body).headers
    assert client.post("/rankers/shop/rank", content=body).status_code == 200
    form = client.post(
        "/rankers/shop/rank", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert "Content-Type: application/json" in _problem(form, 415)["detail"]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/rankers/nobody/rank", 404),
        ("GET", "/rankers/nobody", 404),
        ("GET", "/nowhere", 404),
        ("DELETE", "/rankers", 405),
        ("DELETE", "/rankers/nobody", 404),
        ("GET", "/log/nobody.jsonl", 404),
        ("GET", "/log/shop.exe", 404),
        ("PUT", "/rankers/..%2Fetc", 404),
        ("PUT", "/rankers/.hidden", 422),
        ("POST", "/rankers/shop/rollback", 404),
    ],
)
def test_calls_that_lead_nowhere(client: httpx.Client, method: str, path: str, status: int) -> None:
    body = {"state": 99} if path.endswith("rollback") else SHOP if method == "PUT" else {"items": items()}
    _problem(client.request(method, path, json=body), status)


@pytest.mark.parametrize(
    "change",
    [
        {"learner": {"kind": "nobody"}},
        {"learner": {"kind": "3pr", "swap": 2}},
        {"learner": {"kind": "fixed_weights", "weights": [1]}},
        {"problem": {}},
        {"problem": {"n_features": -1}},
        {"problem": {"n_features": 10**9}},
        {"problem": {"n_features": 2, "feature_names": ["a"]}},
        {"problem": {"feature_names": ["a", "a"]}},
        {"window": 0},
        {"window": -1},
        {"seed": -1},
        {"snapshot_every": 0},
        {"default_feedback": "everything"},
        {"base": {}},
        {"base": {"feature": "colour"}},
        {"shadow": True},
        {"evaluation_share": 0.5},
        {"guard": True},
    ],
)
def test_a_ranker_that_makes_no_sense_is_not_created(client: httpx.Client, change: dict[str, Any]) -> None:
    _problem(client.put("/rankers/new", json=SHOP | change), 422)
    assert client.get("/rankers/new").status_code == 404


def test_an_unstable_update_is_refused_and_counted(client: httpx.Client) -> None:
    learner = {"kind": "online_gradient", "learning_rate": 1e300}
    huge = {"learner": {"kind": "robust", "inner": learner, "clip": False}, "problem": {"n_features": 1}}
    assert client.put("/rankers/huge", json=huge).status_code == 201
    asked = [{"id": "a", "features": [1e200]}, {"id": "b", "features": [-1e200]}]
    shown = rank(client, "huge", items=asked)
    assert feed(client, shown["impression"], "huge", relevances={"a": 0, "b": 1}, final=True).status_code == 200
    until(lambda: report(client, "huge")["health"]["refused"])  # the answer waits for it, but not for ever
    after = report(client, "huge")
    assert (after["health"]["refused"], after["counts"]["learned"], after["state"]) == (1, 0, 0)


@pytest.mark.usefixtures("unchanged")
def test_mutated_requests_never_break_it(client: httpx.Client) -> None:
    mutated_requests(client, REQUESTS, seed=1)


def mutated_requests(client: httpx.Client, times: int, seed: int) -> None:
    """Valid bodies with bytes changed, cut or doubled: no 5xx, ever."""
    rng = random.Random(seed)
    valid = [
        ("/rankers/shop/rank", json.dumps({"items": items(), "query_id": "q", "pinned": ["i1"]}).encode()),
        ("/rankers/graded/feedback", b'{"impression": "x", "relevances": {"a": 1.0}, "final": false}'),
        ("/rankers/shop/rank:batch", json.dumps({"requests": [{"items": items(2)}]}).encode()),
        ("/experiments/e/rank", json.dumps({"items": items(2)}).encode()),
    ]
    for _ in range(times):
        path, body = rng.choice(valid)
        mutated = bytearray(body)
        for _ in range(rng.randint(1, 4)):
            location = rng.randrange(len(mutated))
            mutated[location : location + rng.randint(0, 3)] = bytes(
                rng.randrange(256) for _ in range(rng.randint(0, 3))
            )
        assert _post(client, path, bytes(mutated)).status_code < 500, bytes(mutated)
