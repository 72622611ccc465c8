"""PostgreSQL as a search engine: full-text search over a table, and pgvector where the table has a vector column."""

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from rankloop.search.engine import MAX_FACET_VALUES, MAX_SECONDS, Snippet, TextDocument, TextQuery
from rankloop.search.engines import adapter
from rankloop.search.engines.adapter import EngineAnswer, EngineHit, EngineSettings
from rankloop.search.texts import is_unspaced, runs_of

MAX_BODY_CHARACTERS = 50_000  # of a candidate, for its features and its snippet; `documents` returns all
SIMILARITY_WEIGHT = 2.0  # of the cosine beside the text score, which is relative to the largest
HEADLINE = f"StartSel={adapter.MARK_START}, StopSel={adapter.MARK_END}, MaxWords=35, MinWords=20, MaxFragments=1"
SELECT_BEST = "SELECT {0}::text AS {0}, {1}, {2} AS rankloop_score FROM {3} WHERE {4} ORDER BY {5}, {0} LIMIT {6}"
SELECT_BY_ID = "SELECT {0}::text AS {0}, {1} FROM {2} WHERE {0}::text = ANY({3})"
COUNT_VALUES = "SELECT {0}::text AS value, count({0}) AS n FROM {1} WHERE {2} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {3}"
WEIGHED_WORDS = "(setweight(to_tsvector({0}, coalesce({1}, '')), 'A') || to_tsvector({0}, coalesce({2}, '')))"


class PostgresAdapter:
    """Searches a table by `to_tsvector`, or by its tsvector column, with `ts_rank`; any word of the query is enough.

    The column `words` names a tsvector column with a GIN index, `vector` a column of pgvector that `embed` fits.
    Connections are read-only, one for each thread; all values are quoted by psycopg.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings, self._local = settings, threading.local()
        self._connections: list[psycopg.Connection[Any]] = []
        columns = {part: settings.column(part) for part in ("id", "title", "body", "at", "words", "vector")}
        self._names = names = {part: sql.Identifier(name) for part, name in columns.items() if name}
        self._language = sql.Literal("english" if settings.language == "auto" else settings.language)
        computed = sql.SQL(WEIGHED_WORDS).format(self._language, names["title"], names["body"])
        self._words: sql.Composable = names.get("words", computed)
        self._table = sql.Identifier(*settings.collection.split("."))
        dates = [names["at"]] if "at" in names else []
        self._columns = sql.SQL(", ").join([names["title"], *dates, *map(sql.Identifier, settings.fields)])
        self._piece = sql.SQL("left({0}, {1})").format(names["body"], sql.Literal(MAX_BODY_CHARACTERS))

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def count(self) -> int:
        return int(self._rows("SELECT count(*) AS n FROM {}", self._table)[0]["n"])

    def documents(self, ids: Sequence[str]) -> list[TextDocument]:
        columns = sql.SQL("{}, {}").format(self._names["body"], self._columns)
        rows = self._rows(SELECT_BY_ID, self._names["id"], columns, self._table, sql.Literal(list(ids)))
        return [self._settings.document(row) for row in rows]

    def search(self, query: TextQuery, n: int) -> EngineAnswer:
        """Return the best rows by words, and those that are nearest by the vector column."""
        matching, score = self._condition(query)
        documents = self._best(score, matching, sql.SQL("rankloop_score DESC"), n)
        scores = {id: float(row["rankloop_score"]) for id, row in documents.items()}
        similarities = dict[str, float]()
        embed, vector_column = self._settings.embed, self._names.get("vector")
        if embed is not None and vector_column is not None and query.words and not query.phrases:
            vector = sql.Literal("[" + ",".join(f"{value:.6g}" for value in embed([query.text])[0]) + "]")
            distance = sql.SQL("{} <=> {}::vector").format(vector_column, vector)
            near = self._best(sql.SQL("1 - ({})").format(distance), self._allowed(query), distance, n)
            similarities = {id: max(float(row["rankloop_score"] or 0.0), 0.0) for id, row in near.items()}
            documents, largest = near | documents, max(scores.values(), default=1.0) or 1.0
            for id in documents:
                scores[id] = scores.get(id, 0.0) / largest + SIMILARITY_WEIGHT * similarities.get(id, 0.0)
        hits = list[EngineHit]()
        for id, row in documents.items():
            hits.append(EngineHit(self._settings.document(row), scores[id], similarity=similarities.get(id, 0.0)))
        limit, facets = sql.Literal(MAX_FACET_VALUES), dict[str, dict[str, int]]()
        for name in self._settings.fields:
            counts = self._rows(COUNT_VALUES, sql.Identifier(name), self._table, matching, limit)
            facets[name] = {row["value"]: row["n"] for row in counts if row["n"]}
        return EngineAnswer(sorted(hits, key=lambda hit: -hit.score)[:n], facets)

    def snippets(self, query: TextQuery, ids: Sequence[str]) -> dict[str, Snippet]:
        """Return the highlighted pieces by `ts_headline`."""
        headline = sql.SQL("ts_headline({}, {}, {}, {}) AS rankloop_piece")
        piece = headline.format(self._language, self._piece, self._tsquery(query), sql.Literal(HEADLINE))
        rows = self._rows(SELECT_BY_ID, self._names["id"], piece, self._table, sql.Literal(list(ids)))
        return {row[self._settings.column("id")]: adapter.snippet_from(row["rankloop_piece"] or "") for row in rows}

    def _condition(self, query: TextQuery) -> tuple[sql.Composable, sql.Composable]:
        """Return the condition on rows, and their score; letters of scripts without spaces are found by LIKE."""
        allowed = self._allowed(query)
        if not query.words:
            newest = self._names.get("at", sql.SQL("NULL::timestamp"))
            return allowed, sql.SQL("coalesce(extract(epoch FROM {}), 0)").format(newest)
        tsquery, text = self._tsquery(query), sql.SQL("concat({}, ' ', {}) LIKE {}")
        conditions = [sql.SQL("{} @@ {}").format(self._words, tsquery)]
        score: sql.Composable = sql.SQL("ts_rank({}, {}, 1)").format(self._words, tsquery)
        for run in runs_of(query.words[: adapter.MAX_ENGINE_WORDS]):
            if is_unspaced(run[0]):
                pattern = sql.Literal(f"%{''.join(run)}%")
                conditions.append(text.format(self._names["title"], self._names["body"], pattern))
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
            words = " ".join(phrase)
            conditions.append(sql.SQL("{} @@ phraseto_tsquery({}, {})").format(self._words, self._language, words))
        for word in query.excluded:
            conditions.append(sql.SQL("NOT {} @@ plainto_tsquery({}, {})").format(self._words, self._language, word))
        for field, value, start, end in query.filters:
            if field != "at":
                equal = sql.SQL("lower({}::text) = lower({})")
                conditions.append(equal.format(sql.Identifier(field), sql.Literal(value)))
            elif "at" in self._names:
                dated = sql.SQL("{0} >= to_timestamp({1}) AND {0} < to_timestamp({2})")
                conditions.append(dated.format(self._names["at"], start, end or MAX_SECONDS))
        return sql.SQL(" AND ").join(conditions)

    def _best(self, score: sql.Composable, matching: sql.Composable, order: sql.Composable, n: int) -> dict[str, Any]:
        """Return the n best rows by id."""
        columns = sql.SQL("{} AS {}, {}").format(self._piece, self._names["body"], self._columns)
        rows = self._rows(SELECT_BEST, self._names["id"], columns, score, self._table, matching, order, sql.Literal(n))
        return {row[self._settings.column("id")]: row for row in rows}

    def _rows(self, statement: str, *parts: sql.Composable) -> list[Any]:
        connection: Any = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            seconds = self._settings.timeout_seconds
            options = f"-c statement_timeout={int(1000 * seconds)} -c default_transaction_read_only=on"
            limits: dict[str, Any] = {"connect_timeout": max(int(seconds), 1), "options": options}
            connection = psycopg.connect(self._settings.url, autocommit=True, row_factory=dict_row, **limits)
            self._local.connection = connection
            self._connections.append(connection)
        return list(connection.execute(sql.SQL(statement).format(*parts)).fetchall())
