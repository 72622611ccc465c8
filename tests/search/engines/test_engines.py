"""Engines that run elsewhere: one contract for all, and what happens when one fails."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search import SearchBox
from rankloop.search.engine import TextDocument, seconds_of
from rankloop.search.engines import server_engine
from rankloop.search.engines.adapter import EngineSettings, snippet_from
from rankloop.search.engines.server_engine import ADAPTERS, EngineUnavailable, ServerEngine
from rankloop.search.texts import read_text
from rankloop.service.errors import Unavailable
from tests.search.engine_contract import check_engine
from tests.search.engines.fake_servers import DATED_FIELD, FAKES, fake_server
from tests.service.postgres_servers import PostgresServer, postgres_server

# The client of Typesense warns of parts of itself, which are not used here.
pytestmark = pytest.mark.filterwarnings(r"ignore:.* is deprecated on v30\+:DeprecationWarning")
SETTINGS = EngineSettings("", "", "secret", {"at": DATED_FIELD}, ("section",))
MAY = 1714521600.0
BOATS = (
    TextDocument("boats", "Boats", "Sail a boat, moor a boat, paint a boat.", MAY, {"section": "Sport"}),
    TextDocument("harbours", "Harbours", "A boat lies in a harbour, beside a boat.", 86400.0, {"section": "Travel"}),
    TextDocument("knots", "Knots", "A bowline holds a boat.", 0.0, {"section": "Sport"}),
)
TABLE = """CREATE TABLE articles (id text PRIMARY KEY, title text, body text, published timestamptz, section text)"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def table_of(postgres: PostgresServer, documents: Sequence[TextDocument]) -> str:
    """The text for `--engine` of a table with these documents."""
    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        for document in documents:
            values = document.id, document.title, document.body, document.at or None, document.fields.get("section")
            connection.execute("INSERT INTO articles VALUES (%s, %s, %s, to_timestamp(%s), %s)", values)
    database, _, host = url.partition("?")
    return f"postgresql={database}/articles?{host}"


@contextmanager
def running(name: str, documents: Sequence[TextDocument], request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    """The text for `--engine`, and the fake behind it; None for PostgreSQL, which is real."""
    if name == "postgresql":
        yield table_of(request.getfixturevalue("postgres"), documents), None
        return
    pytest.importorskip(ADAPTERS[name][2], reason=f"the client of {name} is not installed")
    with fake_server(name, documents) as pair:
        yield pair


@pytest.fixture(params=["postgresql", *FAKES])
def boats(request: pytest.FixtureRequest) -> Iterator[ServerEngine]:
    with running(request.param, BOATS, request) as (text, _):
        engine = ServerEngine.connect(text, SETTINGS)
        yield engine
        engine.close()


@pytest.mark.parametrize("name", ["postgresql", *FAKES])
def test_every_engine_keeps_to_the_protocol(name: str, request: pytest.FixtureRequest) -> None:
    with ExitStack() as stack:

        def engine_over(documents: Sequence[TextDocument]) -> ServerEngine:
            text, _ = stack.enter_context(running(name, documents, request))
            engine = ServerEngine.connect(text, SETTINGS)
            stack.callback(engine.close)
            return engine

        check_engine(engine_over)


def test_fields_filters_facets_and_highlights_are_those_of_the_engine(boats: ServerEngine) -> None:
    assert boats.n_documents == 3
    fields = boats.field_names

    def ids(text: str) -> set[str]:
        return {candidate.id for candidate in boats.candidates(read_text(text, fields=fields), 10)}

    assert ids("boat") == {"boats", "harbours", "knots"}
    assert ids("boat section:Sport") == {"boats", "knots"}
    assert ids("boat after:2024") == {"boats"}
    assert ids("boat before:2000") == {"harbours"}
    assert ids("boat -bowline") == {"boats", "harbours"}
    assert ids("section:Travel") == {"harbours"}
    query = read_text("boat", fields=fields)
    assert boats.facets(query) == {"section": {"Sport": 2, "Travel": 1}}
    (snippet,) = boats.snippets(query, ["knots"])
    assert [snippet.text[a:b] for a, b in snippet.highlights] == ["boat"]
    assert boats.document("boats") == BOATS[0]
    assert boats.documents(query, ["knots", "moon"]) == {"knots": BOATS[2]}


def test_a_box_learns_over_every_engine(boats: ServerEngine, tmp_path: Path) -> None:
    with SearchBox(engine=boats, data=tmp_path, fields=["section"]) as box:
        first = box.predict("boat").ids
        for i in range(20):
            box.learn(box.search("boat", visitor=f"visitor {i}"), clicks=[first[-1]])
        shown = box.search("boat", facets=True)
        assert box.predict("boat").ids[0] == first[-1]
        assert shown.facets == {"section": {"Sport": 2, "Travel": 1}}
        assert {result.id: result.at for result in shown.results} == {"boats": MAY, "harbours": 86400.0, "knots": 0.0}
        assert box.predict("boat", sort="date").ids == ["boats", "harbours", "knots"]
        with pytest.raises(InvalidInput, match="keeps its own documents"):
            box.refresh()


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Two dimensions: vessels and everything else."""
    vessels = ("boat", "ship", "canoe")
    return [[1.0, 0.0] if any(word in text.lower() for word in vessels) else [0.0, 1.0] for text in texts]


def test_pgvector_finds_by_meaning(postgres: PostgresServer) -> None:
    text = table_of(postgres, [*BOATS, TextDocument("bread", "Bread", "Flour and water.")])
    url = text.removeprefix("postgresql=").replace("/articles?", "?")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("ALTER TABLE articles ADD embedding vector(2), ADD words tsvector")
        connection.execute("UPDATE articles SET embedding = '[1,0]', words = to_tsvector('english', body)")
        connection.execute("UPDATE articles SET embedding = '[0,1]' WHERE id = 'bread'")
    columns = {"at": DATED_FIELD, "vector": "embedding", "words": "words"}
    engine = ServerEngine.connect(text, SETTINGS._replace(columns=columns, embed=embed))
    candidates = engine.candidates(read_text("canoe"), 3)
    assert {candidate.id for candidate in candidates} == {"boats", "harbours", "knots"}
    assert engine.features(read_text("canoe"), ["knots"])[0, server_engine.EMBEDDING] == pytest.approx(1.0)
    assert engine.candidates(read_text("flour"), 1)[0].id == "bread"
    assert engine.candidates(read_text("canoe -bowline"), 4)[0].id != "knots"
    engine.close()


def test_requests_carry_the_key() -> None:
    for name in ("meilisearch", "typesense", "elasticsearch"):
        pytest.importorskip(ADAPTERS[name][2])
        with fake_server(name, BOATS) as (text, fake):
            ServerEngine.connect(text, SETTINGS).close()
            assert all("secret" in str(headers) for _, _, headers in fake.requests)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ServerEngine, Any]]:
    """An engine whose answers are fresh for no time, and the server that can be broken."""
    pytest.importorskip("meilisearch", reason="the client of Meilisearch is not installed")
    monkeypatch.setattr(server_engine, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(server_engine, "RETRY_SECONDS", 0.0)
    with fake_server("meilisearch", BOATS) as (text, fake):
        yield ServerEngine.connect(text, SETTINGS._replace(timeout_seconds=1.0)), fake


def test_a_failing_engine_gives_its_last_answer_or_an_error(failing: tuple[ServerEngine, Any], tmp_path: Path) -> None:
    engine, fake = failing
    with SearchBox(engine=engine, data=tmp_path) as box:
        before = box.predict("boat")
        assert before.ids
        fake.broken = True
        after = box.predict("boat")
        assert after.ids == before.ids
        assert after.age_seconds > 0.0
        with pytest.raises(EngineUnavailable, match="does not answer"):
            box.search("harbour")
        fake.broken = False
        assert box.predict("harbour").ids[0] == "harbours"


def test_the_last_answer_does_not_count_for_ever(
    failing: tuple[ServerEngine, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, fake = failing
    engine.candidates(read_text("boat"), 3)
    fake.broken = True
    monkeypatch.setattr(server_engine, "MAX_STALE_SECONDS", 0.0)
    with pytest.raises(EngineUnavailable):
        engine.candidates(read_text("boat"), 3)


def test_a_slow_engine_is_not_waited_for(failing: tuple[ServerEngine, Any]) -> None:
    engine, fake = failing
    fake.slow_seconds = 3.0
    begin = time.monotonic()
    with pytest.raises(EngineUnavailable):
        engine.candidates(read_text("boat"), 3)
    assert time.monotonic() - begin < 2.5
    fake.slow_seconds = 0.0


def test_after_a_failure_the_engine_is_left_alone_for_a_moment(
    failing: tuple[ServerEngine, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, fake = failing
    monkeypatch.setattr(server_engine, "RETRY_SECONDS", 60.0)
    fake.broken = True
    for _ in range(3):
        with pytest.raises(EngineUnavailable):
            engine.candidates(read_text("boat"), 3)
    assert sum("search" in path for _, path, _ in fake.requests) == 1


def test_a_postgres_that_stops_is_an_error_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_engine, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(server_engine, "RETRY_SECONDS", 0.0)
    with postgres_server() as server:
        engine = ServerEngine.connect(table_of(server, BOATS), SETTINGS)
        order = engine.candidates(read_text("boat"), 3)
        server.control("-m", "immediate", "stop")
        assert engine.candidates(read_text("boat"), 3) == order  # the last known state
        (snippet,) = engine.snippets(read_text("boat"), ["knots"])  # highlights are another call to this engine
        assert [snippet.text[a:b] for a, b in snippet.highlights] == ["boat"]
        with pytest.raises(EngineUnavailable):
            engine.candidates(read_text("harbour"), 3)
        server.come_back()
        assert engine.candidates(read_text("harbour"), 1)[0].id == "harbours"
        engine.close()


WRONG: tuple[tuple[str, type[Exception], str], ...] = (
    ("lucene=http://localhost/articles", InvalidInput, "must be NAME=URL"),
    ("opensearch=http://localhost:9200", InvalidInput, "ends in the index"),
    ("opensearch=localhost", InvalidInput, "ends in the index"),
    ("solr=http://user:secret@127.0.0.1:9/solr/articles", Unavailable, "does not answer"),
)


@pytest.mark.parametrize(("text", "kind", "message"), WRONG)
def test_wrong_engines_are_refused_at_once(text: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as refusal:
        ServerEngine.connect(text, SETTINGS)
    assert "secret" not in str(refusal.value)


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADAPTERS, "solr", ("solr", "SolrAdapter", "no_such_client", "search-solr"))
    with pytest.raises(LookupError, match=r"rankloop\[search-solr\]"):
        ServerEngine.connect("solr=http://localhost/solr/articles", SETTINGS)


def test_a_source_belongs_to_an_engine_of_the_package(tmp_path: Path) -> None:
    for options in ({}, {"source": tmp_path, "engine": "solr=http://localhost/solr/x"}):
        with pytest.raises(InvalidInput, match="keeps its own documents"):
            SearchBox(data=tmp_path / "data", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [86400, 86400.0, "1970-01-02T00:00:00Z", "1970-01-02", ["1970-01-02"]])
def test_dates_of_every_form(value: Any) -> None:
    assert seconds_of(value) == 86400.0
    assert seconds_of(1000.0 * MAY) == MAY
    assert seconds_of(None) == seconds_of("soon") == seconds_of([]) == 0.0


def test_marks_become_places() -> None:
    snippet = snippet_from("a \ue000boat\ue001, a\n\ue000ship\ue001\ue001")
    assert snippet.text == "a boat, a ship"
    assert [snippet.text[a:b] for a, b in snippet.highlights] == ["boat", "ship"]
