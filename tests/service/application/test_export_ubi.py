"""The log of a ranker as User Behavior Insights: by the published schemas, and read back by our own importer."""

import json
from pathlib import Path

import pytest

from rankloop.data.folder import absence_notice, data_folder
from rankloop.logs.ubi.log import documents_in, read_ubi
from tests.service.cases import SHOP, Location, feed, rank, running


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[Path, list]:
    folder = tmp_path_factory.mktemp("ubi")
    with running(Location(folder)) as client:
        client.put("/rankers/shop", json=SHOP)
        shown = [rank(client, query_id=f"red shoe {turn % 2}", session=f"s{turn}", user="u") for turn in range(3)]
        feed(client, shown[0]["impression"], clicks=[shown[0]["ranking"][1]], final=True)
        feed(client, shown[1]["impression"], clicks={shown[1]["ranking"][0]: 5.0})
        bulk = client.get("/log/shop", params={"format": "ubi"})
        assert client.get("/log/shop.ubi").content == bulk.content
        assert client.get("/log/shop?format=xml").status_code == 404
    assert bulk.headers["content-type"].startswith("application/x-ndjson")
    (folder / "shop.ndjson").write_bytes(bulk.content)
    return folder / "shop.ndjson", shown


def test_what_was_shown_and_clicked_comes_back(exported):
    path, shown = exported
    log = read_ubi(path, path)
    assert (log.n_queries, log.n_events, log.notes) == (3, 2, [])
    pages = [log.columns["item"][start : start + 4] for start in (0, 4, 8)]
    assert pages == [one["ranking"] for one in shown]
    assert log.columns["impression"][::4] == [one["impression"] for one in shown]
    assert log.columns["query"][::4] == ["red shoe 0", "red shoe 1", "red shoe 0"]
    assert log.columns["session"][::4][:2] == ["s0", "s1"]
    assert log.columns["click"] == [0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]


def test_documents_have_what_the_format_asks_for(exported):
    found = [(document.index_name, document.source) for document in documents_in(exported[0])]
    queries = [source for index, source in found if index == "ubi_queries"]
    events = [source for index, source in found if index == "ubi_events"]
    for source in queries:
        assert {"query_id", "user_query", "client_id", "query_response_hit_ids", "timestamp"} <= source.keys()
        assert all(isinstance(hit, str) for hit in source["query_response_hit_ids"])
    for source in events:
        assert source["action_name"] == "click"
        assert source["timestamp"].endswith("Z")
        assert source["event_attributes"]["position"].keys() == {"ordinal"}
    assert [source["event_attributes"]["weight"] for source in events] == [1.0, 5.0]


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the schemas of User Behavior Insights"))
def test_the_published_schemas_hold(exported):
    jsonschema = pytest.importorskip("jsonschema")
    schemas = {
        index: json.loads((data_folder() / "ubi" / file).read_text())
        for index, file in (("ubi_queries", "query.request.schema.json"), ("ubi_events", "event.schema.json"))
    }
    for schema in schemas.values():  # "an enum, or any text" is written as oneOf, which no listed name can pass
        action = schema["properties"].get("action_name", {})
        action["anyOf"] = action.pop("oneOf", [{}])
    for document in documents_in(exported[0]):
        jsonschema.validate(document.source, schemas[document.index_name])
