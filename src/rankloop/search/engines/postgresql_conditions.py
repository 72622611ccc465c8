"""Conditions and scores of PostgreSQL's full-text search for a query, as parts of SQL statements."""

from psycopg import sql

from rankloop.search.engine import TextQuery
from rankloop.search.engines import adapter
from rankloop.search.engines.adapter import EngineSettings
from rankloop.search.texts import is_unspaced, runs_of

MAX_DATE_SECONDS = 1e11
WEIGHED_WORDS = "(setweight(to_tsvector({0}, coalesce({1}, '')), 'A') || to_tsvector({0}, coalesce({2}, '')))"


class PostgresConditions:
    """Conditions on the rows of a table; all values are quoted by psycopg.

    Args:
      settings: The columns and the language of the table.
    """

    def __init__(self, settings: EngineSettings) -> None:
        columns = {part: settings.column(part) for part in ("id", "title", "body", "at", "words", "vector")}
        self.names = {part: sql.Identifier(name) for part, name in columns.items() if name}
        self.language = sql.Literal("english" if settings.language == "auto" else settings.language)
        computed = sql.SQL(WEIGHED_WORDS).format(self.language, self.names["title"], self.names["body"])
        self.words: sql.Composable = self.names.get("words", computed)

    def condition(self, query: TextQuery) -> tuple[sql.Composable, sql.Composable]:
        """Return the condition on rows, and their score; letters of scripts without spaces are found by LIKE."""
        allowed = self.allowed(query)
        if not query.words:
            newest = self.names.get("at", sql.SQL("NULL::timestamp"))
            return allowed, sql.SQL("coalesce(extract(epoch FROM {}), 0)").format(newest)
        tsquery = self.tsquery(query)
        conditions = [sql.SQL("{} @@ {}").format(self.words, tsquery)]
        score: sql.Composable = sql.SQL("ts_rank({}, {}, 1)").format(self.words, tsquery)
        for run in runs_of(query.words[: adapter.MAX_ENGINE_WORDS]):
            if is_unspaced(run[0]):
                text = sql.SQL("concat({}, ' ', {}) LIKE {}")
                conditions.append(
                    text.format(self.names["title"], self.names["body"], sql.Literal(f"%{''.join(run)}%"))
                )
                score = sql.SQL("{} + 0.1 * ({})::int").format(score, conditions[-1])
        return sql.SQL("({}) AND {}").format(sql.SQL(" OR ").join(conditions), allowed), score

    def tsquery(self, query: TextQuery) -> sql.Composed:
        """Return any of the words as a tsquery; the last one as a beginning where it is only begun."""
        words = [word for word in dict.fromkeys(query.words[: adapter.MAX_ENGINE_WORDS]) if not is_unspaced(word)]
        parts = [sql.SQL("plainto_tsquery({}, {})").format(self.language, sql.Literal(word)) for word in words or [""]]
        if query.prefix and words:
            parts.append(sql.SQL("to_tsquery({}, {})").format(self.language, sql.Literal(f"'{words[-1]}':*")))
        return sql.SQL("({})").format(sql.SQL(" || ").join(parts))

    def allowed(self, query: TextQuery) -> sql.Composed:
        """Return the condition of phrases, excluded words and filters."""
        conditions = [sql.SQL("true").format()]
        for phrase in query.phrases:
            near = sql.SQL("{} @@ phraseto_tsquery({}, {})")
            conditions.append(near.format(self.words, self.language, sql.Literal(" ".join(phrase))))
        for word in query.excluded:
            without = sql.SQL("NOT {} @@ plainto_tsquery({}, {})")
            conditions.append(without.format(self.words, self.language, sql.Literal(word)))
        for condition in query.filters:
            if condition.field != "at":
                equal, field = sql.SQL("lower({}::text) = lower({})"), sql.Identifier(condition.field)
                conditions.append(equal.format(field, sql.Literal(condition.value)))
            elif "at" in self.names:
                dated = sql.SQL("{0} >= to_timestamp({1}) AND {0} < to_timestamp({2})")
                start, end = sql.Literal(condition.start), sql.Literal(condition.end or MAX_DATE_SECONDS)
                conditions.append(dated.format(self.names["at"], start, end))
        return sql.SQL(" AND ").join(conditions)
