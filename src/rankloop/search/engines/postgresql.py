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
from rankloop.search.texts import is_unspaced, runs_of

MAX_BODY_CHARACTERS = 50_000  # of a candidate, for its features and its snippet; `documents` returns all
SIMILARITY_WEIGHT = 2.0  # of the cosine beside the text score, which is relative to the largest
HEADLINE = f"StartSel={adapter.MARK_START}, StopSel={adapter.MARK_END}, MaxWords=35, MinWords=20, MaxFragments=1"
MAX_DATE_SECONDS = 1e11
WEIGHED_WORDS = "(setweight(to_tsvector({0}, coalesce({1}, '')), 'A') || to_tsvector({0}, coalesce({2}, '')))"
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
        names = {part: settings.column(part) for part in ("id", "title", "body", "at", "words", "vector")}
        self._names = {part: sql.Identifier(name) for part, name in names.items() if name}
        self._id, self._title, self._body = (self._names[part] for part in ("id", "title", "body"))
        self._table = sql.Identifier(*settings.collection.split("."))
        self._language = sql.Literal("english" if settings.language == "auto" else settings.language)
        computed = sql.SQL(WEIGHED_WORDS).format(self._language, self._title, self._body)
        self._words: sql.Composable = self._names.get("words", computed)
        others = [*([names["at"]] if names["at"] else []), *settings.fields]
        self._columns = sql.SQL(", ").join([self._title, *map(sql.Identifier, others)])
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
        matching, score = self._condition(query)
        rows = self._best(score, matching, sql.SQL("rankloop_score DESC"), n)
        documents = {row[self._settings.column("id")]: row for row in rows}
        scores = {id: float(row["rankloop_score"]) for id, row in documents.items()}
        similarities = dict[str, float]()
        embed, vector_column = self._settings.embed, self._names.get("vector")
        if embed is not None and vector_column is not None and query.words and not query.phrases:
            vector = sql.Literal("[" + ",".join(f"{value:.6g}" for value in embed([query.text])[0]) + "]")
            distance = sql.SQL("{} <=> {}::vector").format(vector_column, vector)
            near = self._best(sql.SQL("1 - ({})").format(distance), self._allowed(query), distance, n)
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
        parts = (
            self._language,
            self._body,
            sql.Literal(MAX_BODY_CHARACTERS),
            self._tsquery(query),
            sql.Literal(HEADLINE),
        )
        piece = sql.SQL("ts_headline({}, left({}, {}), {}, {}) AS rankloop_piece").format(*parts)
        rows = self._rows(SELECT_BY_ID, self._id, piece, self._table, sql.Literal(list(ids)))
        name = self._settings.column("id")
        return {row[name]: adapter.snippet_from(row["rankloop_piece"] or "") for row in rows}

    def _best(self, score: sql.Composable, matching: sql.Composable, order: sql.Composable, n: int) -> list[Any]:
        columns = sql.SQL("{}, {}").format(self._piece, self._columns)
        return self._rows(SELECT_BEST, self._id, columns, score, self._table, matching, order, sql.Literal(n))

    def _condition(self, query: TextQuery) -> tuple[sql.Composable, sql.Composable]:
        """Return the condition on rows, and their score; letters of scripts without spaces are found by LIKE."""
        allowed = self._allowed(query)
        if not query.words:
            newest = self._names.get("at", sql.SQL("NULL::timestamp"))
            return allowed, sql.SQL("coalesce(extract(epoch FROM {}), 0)").format(newest)
        tsquery = self._tsquery(query)
        conditions = [sql.SQL("{} @@ {}").format(self._words, tsquery)]
        score: sql.Composable = sql.SQL("ts_rank({}, {}, 1)").format(self._words, tsquery)
        for run in runs_of(query.words[: adapter.MAX_ENGINE_WORDS]):
            if is_unspaced(run[0]):
                text = sql.SQL("concat({}, ' ', {}) LIKE {}")
                conditions.append(text.format(self._title, self._body, sql.Literal(f"%{''.join(run)}%")))
                score = sql.SQL("{} + 0.1 * ({})::int").format(score, conditions[-1])
        return sql.SQL("({}) AND {}").format(sql.SQL(" OR ").join(conditions), allowed), score

    def _tsquery(self, query: TextQuery) -> sql.Composed:
        """Return any of the words as a tsquery; the last one as a beginning where it is only begun."""
        words = [word for word in dict.fromkeys(query.words[: adapter.MAX_ENGINE_WORDS]) if not is_unspaced(word)]
        parts = [sql.SQL("plainto_tsquery({}, {})").format(self._language, sql.Literal(word)) for word in words or [""]]
        if query.prefix and words:
            parts.append(sql.SQL("to_tsquery({}, {})").format(self._language, sql.Literal(f"'{words[-1]}':*")))
        return sql.SQL("({})").format(sql.SQL(" || ").join(parts))

    def _allowed(self, query: TextQuery) -> sql.Composed:
        """Return the condition of phrases, excluded words and filters."""
        conditions = [sql.SQL("true").format()]
        for phrase in query.phrases:
            near = sql.SQL("{} @@ phraseto_tsquery({}, {})")
            conditions.append(near.format(self._words, self._language, sql.Literal(" ".join(phrase))))
        for word in query.excluded:
            without = sql.SQL("NOT {} @@ plainto_tsquery({}, {})")
            conditions.append(without.format(self._words, self._language, sql.Literal(word)))
        for condition in query.filters:
            if condition.field != "at":
                equal, field = sql.SQL("lower({}::text) = lower({})"), sql.Identifier(condition.field)
                conditions.append(equal.format(field, sql.Literal(condition.value)))
            elif "at" in self._names:
                dated = sql.SQL("{0} >= to_timestamp({1}) AND {0} < to_timestamp({2})")
                limits = sql.Literal(condition.start), sql.Literal(condition.end or MAX_DATE_SECONDS)
                conditions.append(dated.format(self._names["at"], *limits))
        return sql.SQL(" AND ").join(conditions)

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
