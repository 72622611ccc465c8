"""From queries and events to a log: every shape of file, and everything that does not fit together."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.data.folder import absence_notice, data_folder
from rankloop.logs.list_table import read_list_table
from rankloop.logs.ubi.log import read_events, read_queries, read_ubi
from rankloop.training.clicks.weights import weighted_clicks
from tests.logs.numeric_log import read_numeric_log as read_click_log

QUERIES = [
    {
        "query_id": f"u-{number}",
        "user_query": ["toner", "red shoe"][number % 2],
        "client_id": f"c{number}",
        "timestamp": f"2026-05-16T12:3{number}:00Z",
        "query_response_hit_ids": ["a", "b", "c"] if number % 2 else ["b", "a"],
        "query_attributes": {"page": 1},
    }
    for number in range(4)
]


def event(query, action, item=None, ordinal=None, at="2026-05-16T12:40:00Z", **more):
    own = {} if item is None else {"object": {"object_id": item, "object_id_field": "sku"}}
    position = {} if ordinal is None else {"ordinal": ordinal}
    attributes = {"event_attributes": {**own, "position": position}}
    return {"action_name": action, "query_id": query, "timestamp": at, "session_id": "s"} | attributes | more


EVENTS = [
    event("u-0", "click", "a", 2),
    event("u-0", "purchase", "a", 2),
    event("u-1", "click", "b", 2),
    event("u-1", "click", "b", 2),  # the same again
    event("u-2", "click", "b"),  # no position
    event("u-3", "click", "c", 1),  # another position
    event("u-3", "click", ordinal=2),  # no object: b stands there
    event("u-3", "click"),
    event("u-3", "click", "z", 3),
    event("nobody", "click", "a", 1),
    {"action_name": "page_exit", "timestamp": "2026-05-16T12:34:56.789Z"},
    event("u-1", "add_to_cart", "c", 3, at="2026-05-16T11:00:00Z"),
    event("u-1", "hover", "a", 1),
    event("u-1", "impression", "a", 1),
    event("u-2", "click", "a", 2, at="2026-06-16T11:00:00"),
]


def lines(documents) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def forms(documents, index) -> dict[str, str]:
    hits = [{"_index": index, "_id": str(number), "_source": source} for number, source in enumerate(documents)]
    response = {"took": 3, "hits": {"total": {"value": len(hits)}, "hits": hits}}
    bulk = [line for source in documents for line in ({"create": {"_index": index}}, source)]
    return {
        "lines": lines(documents),
        "list": json.dumps(documents),
        "response": json.dumps(response),
        "pretty": json.dumps(response, indent=2),
        "several": json.dumps({"responses": [response]}),
        "dump": lines(hits),
        "bulk": lines([{"delete": {"_index": index, "_id": "7"}}, *bulk]),
        "solr": json.dumps({"response": {"docs": documents}}),
    }


def written(folder: Path, form: str = "lines", queries=QUERIES, events=EVENTS) -> tuple[Path, Path]:
    paths = folder / "ubi_queries.ndjson", folder / "ubi_events.ndjson"
    paths[0].write_text(forms(queries, "ubi_queries")[form])
    paths[1].write_text(forms(events, "ubi_events")[form])
    return paths


def joined(paths, **more):
    return read_ubi(paths[0], paths[1], **more)


@pytest.mark.parametrize("form", ["lines", "list", "response", "pretty", "several", "dump", "bulk", "solr"])
def test_every_shape_of_file_says_the_same(tmp_path, form):
    log = joined(written(tmp_path, form))
    assert log == joined(written(tmp_path))
    assert log.columns["item"] == ["b", "a", "a", "b", "c", "b", "a", "a", "b", "c"]
    assert log.columns["position"] == [1, 2, 1, 2, 3, 1, 2, 1, 2, 3]
    assert log.columns["click"] == [0, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    assert log.columns["purchase"] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert log.columns["query"][:3] == ["toner", "toner", "red shoe"]
    assert (log.n_pages, log.n_queries, log.n_events) == (4, 4, len(EVENTS))


def test_what_does_not_fit_is_counted_and_said(tmp_path):
    log = joined(written(tmp_path))
    assert {name: count for name, count in log.counts.items() if count} == {
        "orphans": 1,
        "without_query": 1,
        "without_object": 1,
        "by_position": 1,
        "not_shown": 1,
        "repeated_events": 1,
        "without_position": 1,
        "other_position": 1,
        "early": 1,
        "late": 1,
        "ignored": 1,
    }
    notes = "\n".join(log.notes)
    assert "1 event of a query that is not in the file: left out" in notes
    assert "actions that weigh nothing (page_exit, hover)" in notes
    assert "clocks disagree" in notes


def test_weights_are_those_of_the_heaviest_action(tmp_path):
    log = joined(written(tmp_path), weights={"purchase": 5, "add_to_cart": 0, "hover": 0.5})
    assert log.columns["click_weight"] == [0, 5, 0.5, 1, 0, 1, 1, 0, 1, 1]
    assert log.columns["click"] == [0, 1, 1, 1, 0, 1, 1, 0, 1, 1]
    with pytest.raises(InvalidInput, match="the weight of click is -1"):
        joined(written(tmp_path), weights={"click": -1})


def test_positions_that_count_from_0_are_noticed(tmp_path):
    events = [event("u-1", "click", hit, number) for number, hit in enumerate("abc")] + [event("u-3", "click", None, 1)]
    log = joined(written(tmp_path, events=events))
    assert "other_position" not in {name for name, count in log.counts.items() if count}
    assert log.columns["click"][-3:] == [0, 1, 0]


def test_other_names_of_older_versions(tmp_path):
    queries = [
        {"query_id": "q", "user_query": "x", "query_response_object_ids": ["a", "b"], "timestamp": 1715862896789},
        {"query_id": "r", "user_query": "x", "query_response_hit_ids": "a,b", "user_id": "u", "timestamp": "no time"},
        {"query_id": "s", "user_query": "x"},  # what impressions say was seen
        {"query_id": "t", "user_query": "x", "query_response_hit_ids": []},
        {"query_id": "q", "user_query": "x", "query_response_hit_ids": ["b", "c"]},
        {"user_query": "no id"},
    ]
    flat = {"event_attributes.object.object_id": "b", "event_attributes.position.ordinal": "2"}
    events = [
        {"action_name": "click", "query_id": "q", "timestamp": 1715862900, **flat},
        event("s", "impression", "b", 2),
        event("s", "impression", "a", 1),
        event("s", "click", "b", 2),
    ]
    log = joined(written(tmp_path, queries=queries, events=events))
    assert log.columns["impression"] == ["q", "q", "q", "r", "r", "s", "s"]
    assert log.columns["item"] == ["a", "b", "c", "a", "b", "a", "b"]
    assert log.columns["click"] == [0, 1, 0, 0, 0, 0, 1]
    assert log.columns["time"][0].startswith("2024-05-16T12:34:56.789")
    assert log.columns["time"][3] is None
    counts = {name: count for name, count in log.counts.items() if count}
    assert counts == {"no_query_id": 1, "no_hits": 1, "repeated_queries": 1}


@pytest.mark.parametrize(
    ("queries", "events", "message"),
    [
        ("", lines(EVENTS), "ubi_queries.ndjson is empty"),
        (lines(QUERIES) + "{", lines(EVENTS), "ubi_queries.ndjson, line 5: this is not JSON"),
        ("[1]", lines(EVENTS), "a document is an object, got 1"),
        (lines([{"query_id": "q"}]), lines(EVENTS), "nothing is known to have been shown"),
        (lines(QUERIES), '{"query_id": "u-1"}', "ubi_events.ndjson, line 1: an event has an action_name"),
        (lines(QUERIES), '{\n"action_name": \n', "ubi_events.ndjson, line 3: this is not JSON"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, queries, events, message):
    paths = written(tmp_path)
    paths[0].write_text(queries)
    paths[1].write_text(events)
    with pytest.raises(InvalidInput, match=message):
        joined(paths)


def command(capsys, *arguments):
    with pytest.raises(SystemExit) as leaving:
        main(list(map(str, arguments)))
    told = capsys.readouterr()
    return leaving.value.code, told.out, told.err


def test_the_log_is_read_by_every_reader(tmp_path, capsys):
    queries, events = written(tmp_path)
    (tmp_path / "products.csv").write_text("sku,price,brand\na,9.5,Acme\nb,7,Umbra\nb,8,second\nx,1,y\n")
    out, files = tmp_path / "log.parquet", ["--queries", queries, "--events", events]
    more = ["--items", tmp_path / "products.csv", "--weight", "purchase=5", "--out", out]
    code, told, _ = command(capsys, "import-log", "ubi", *files, *more, "--json")
    answer = json.loads(told)
    assert not code
    assert (answer["pages"], answer["rows"], answer["clicked"], answer["counts"]["without_item"]) == (4, 10, 7, 1)
    table = read_list_table(out)
    roles = table.columns
    assert roles[:6] == ("impression", "query", "item", "position", "click", "time")
    assert table.weight.tolist() == [0, 5, 0, 1, 1, 1, 1, 0, 1, 1]
    assert table.values["brand"][:2] == ["Umbra", "Acme"]
    assert pq.read_table(out).column("price").to_pylist()[:2] == [7.0, 9.5]
    log = read_click_log(tmp_path / "log.parquet", without=["price", "brand"], asked_for=["page"])
    assert log.feature_names == ("page",)
    assert "click_weight" in log.set_aside
    assert dict(log.outcomes).keys() >= {"purchase", "add_to_cart"}
    weighted = weighted_clicks(table.weight, table.position, [1.0, 0.5, 0.25], 10.0)
    assert weighted.tolist() == [0, 10, 0, 2, 4, 1, 2, 0, 2, 4]
    code, told, err = command(capsys, "import-log", "ubi", *files, "--out", tmp_path / "log.csv")
    assert not code
    assert "4 queries and 15 events: 4 pages, 10 hits shown, 7 clicked" in told
    assert "note: 1 event that repeat another" in err
    assert read_list_table(tmp_path / "log.csv").values["item"] == table.values["item"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "log.txt"], "must end with .parquet or .csv"),
        (["--out", "log.csv", "--weight", "purchase"], "--weight purchase is not ACTION=NUMBER"),
        (["--out", "log.csv", "--items", "ubi_events.ndjson"], "no column for the id of an item"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    queries, events = written(tmp_path)
    code, _, err = command(capsys, "import-log", "ubi", "--queries", queries, "--events", events, *arguments)
    assert code == 2
    assert said in err


@pytest.mark.parametrize("at", [1e300, -1e300, 1e17, -1e14, float("nan")])
def test_a_time_that_no_date_can_have_counts_as_unknown(tmp_path, at):
    (tmp_path / "q").write_text(lines([QUERIES[0] | {"timestamp": at}]))
    (tmp_path / "e").write_text(lines(EVENTS[:1]))
    log = read_ubi(tmp_path / "q", tmp_path / "e")
    assert set(log.columns["time"]) == {None}


def test_hostile_json_is_refused_or_repaired(tmp_path):
    deep = json.dumps(QUERIES[0])[:-1] + ',"x":' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}\n"
    (tmp_path / "q").write_text(deep)
    with pytest.raises(InvalidInput, match="not JSON"):
        list(read_queries(tmp_path / "q"))
    (tmp_path / "q").write_text(lines([QUERIES[0] | {"user_query": "half \ud800"}]))
    (query,) = read_queries(tmp_path / "q")
    assert query.user_query == "half ?"


def test_cells_of_a_csv_file_are_no_formulas(tmp_path):
    hits = ["=1+1", "-2", "@x", "plain"]
    (tmp_path / "q").write_text(lines([QUERIES[0] | {"user_query": "=cmd()", "query_response_hit_ids": hits}]))
    (tmp_path / "e").write_text(lines(EVENTS[:1]))
    read_ubi(tmp_path / "q", tmp_path / "e").save(tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text()
    assert not any(start in text for start in ('"=', '"-', '"@'))
    assert all(cell in text for cell in ('"\'=1+1"', '"plain"'))


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the samples of User Behavior Insights"))
def test_the_published_sample_is_read():
    (sample,) = read_events(data_folder() / "ubi" / "sample-event-opensearch.json")
    assert (sample.action, sample.item, sample.ordinal) == ("page_exit", "", None)
    assert sample.query_id == "00112233-4455-6677-8899-aabbccddeeff"
