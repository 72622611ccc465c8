"""PostgreSQL as a search engine: full-text search over a table, and pgvector where the table has a vector column."""

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from rankloop.search.engine import Snippet, TextDocument, TextQuery
from rankloop.search.engines import adapter
from rankloop.search.engines.adapter import EngineAnswer, EngineHit, EngineSettings
from rankloop.search.engines.postgresql_conditions import PostgresConditions

MAX_BODY_CHARACTERS = 50_000  # of a candidate, for its features and its snippet; `documents` returns all
SIMILARITY_WEIGHT = 2.0  # of the cosine beside the text score, which is relative to the largest
HEADLINE = f"StartSel={adapter.MARK_START}, StopSel={adapter.MARK_END}, MaxWords=35, MinWords=20, MaxFragments=1"
SELECT_BEST = "SELECT {0}::text AS {0}, {1}, {2} AS rankloop_score FROM {3} WHERE {4} ORDER BY {5}, {0} LIMIT {6}"
SELECT_BY_ID = "SELECT {0}::text AS {0}, {1} FROM {2} WHERE {0}::text = ANY({3})"
COUNT_VALUES = "SELECT {0}::text AS value, count({0}) AS n FROM {1} WHERE {2} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {3}"


class PostgresAdapter:
    """Searches a table by `to_tsvector`, or by its tsvector column, with `ts_rank`; any word of the query is enough.

    The column `words` names a tsvector column with a GIN index, `vector` a column of pgvector that `embed` fits.
    Connections are read-only, one for each thread.

    Args:
      settings: The place and the columns of the table.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings, self._local = settings, threading.local()
        self._connections: list[psycopg.Connection[Any]] = []
        self._conditions = PostgresConditions(settings)
        self._names = self._conditions.names
        self._id, self._body = self._names["id"], self._names["body"]
        self._table = sql.Identifier(*settings.collection.split("."))
        dates = [self._names["at"]] if "at" in self._names else []
        self._columns = sql.SQL(", ").join([self._names["title"], *dates, *map(sql.Identifier, settings.fields)])
        self._piece = sql.SQL("left({0}, {1}) AS {0}").format(self._body, sql.Literal(MAX_BODY_CHARACTERS))

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._rows("SELECT count(*) AS n FROM {}", self._table)[0]["n"])

    def documents(self, ids: Sequence[str]) -> list[TextDocument]:
        """Return the documents of these ids that exist."""
        columns = sql.SQL("{}, {}").format(self._body, self._columns)
        rows = self._rows(SELECT_BY_ID, self._id, columns, self._table, sql.Literal(list(ids)))
        return [adapter.document_from(self._settings, row) for row in rows]

    def search(self, query: TextQuery, n: int) -> EngineAnswer:
        """Return the best rows by words, and those that are nearest by the vector column."""
        matching, score = self._conditions.condition(query)
        rows = self._best(score, matching, sql.SQL("rankloop_score DESC"), n)
        documents = {row[self._settings.column("id")]: row for row in rows}
        scores = {id: float(row["rankloop_score"]) for id, row in documents.items()}
        similarities = dict[str, float]()
        embed, vector_column = self._settings.embed, self._names.get("vector")
        if embed is not None and vector_column is not None and query.words and not query.phrases:
            vector = sql.Literal("[" + ",".join(f"{value:.6g}" for value in embed([query.text])[0]) + "]")
            distance = sql.SQL("{} <=> {}::vector").format(vector_column, vector)
            near = self._best(sql.SQL("1 - ({})").format(distance), self._conditions.allowed(query), distance, n)
            near_documents = {row[self._settings.column("id")]: row for row in near}
            similarities = {id: max(float(row["rankloop_score"] or 0.0), 0.0) for id, row in near_documents.items()}
            documents, largest = near_documents | documents, max(scores.values(), default=1.0) or 1.0
            scores = {
                id: scores.get(id, 0.0) / largest + SIMILARITY_WEIGHT * similarities.get(id, 0.0) for id in documents
            }
        hits = [
            EngineHit(adapter.document_from(self._settings, row), scores[id], similarity=similarities.get(id, 0.0))
            for id, row in documents.items()
        ]
        limit = sql.Literal(adapter.MAX_FACET_VALUES)
        counts = {
            name: self._rows(COUNT_VALUES, sql.Identifier(name), self._table, matching, limit)
            for name in self._settings.fields
        }
        facets = {name: {row["value"]: row["n"] for row in values if row["n"]} for name, values in counts.items()}
        return EngineAnswer(sorted(hits, key=lambda hit: -hit.score)[:n], facets)

    def snippets(self, query: TextQuery, ids: Sequence[str]) -> dict[str, Snippet]:
        """Return the highlighted pieces by `ts_headline`."""
        text = sql.SQL("left({}, {})").format(self._body, sql.Literal(MAX_BODY_CHARACTERS))
        arguments = self._conditions.language, text, self._conditions.tsquery(query), sql.Literal(HEADLINE)
        piece = sql.SQL("ts_headline({}) AS rankloop_piece").format(sql.SQL(", ").join(arguments))
        rows = self._rows(SELECT_BY_ID, self._id, piece, self._table, sql.Literal(list(ids)))
        name = self._settings.column("id")
        return {row[name]: adapter.snippet_from(row["rankloop_piece"] or "") for row in rows}

    def _best(self, score: sql.Composable, matching: sql.Composable, order: sql.Composable, n: int) -> list[Any]:
        columns = sql.SQL("{}, {}").format(self._piece, self._columns)
        return self._rows(SELECT_BEST, self._id, columns, score, self._table, matching, order, sql.Literal(n))

    def _rows(self, statement: str, *parts: sql.Composable) -> list[Any]:
        connection: Any = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            milliseconds = int(1000 * self._settings.timeout_seconds)
            connection = self._local.connection = psycopg.connect(
                self._settings.url,
                autocommit=True,
                connect_timeout=max(milliseconds // 1000, 1),
                options=f"-c statement_timeout={milliseconds} -c default_transaction_read_only=on",
                row_factory=dict_row,
            )
            self._connections.append(connection)
        rows: list[Any] = connection.execute(sql.SQL(statement).format(*parts)).fetchall()
        return rows
