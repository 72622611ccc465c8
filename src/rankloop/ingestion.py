"""Pages that others have shown, from a log to a ranker of a running service, each of them once."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from rankloop.client import Client, Refused, feedback_request, path_of, rank_request
from rankloop.core.errors import InvalidInput
from rankloop.features.schema import Schema
from rankloop.impression import plain_value
from rankloop.logs.list_log import ShownList
from rankloop.logs.reader import lists_in
from rankloop.logs.table_reader import Given

COMPUTED = "base score"  # by a ranker that has a booster
GONE, LATE = 404, 410


class KeyedPage(NamedTuple):
    """A page with the name by which the service knows it again."""

    shown: ShownList
    session: str
    key: str


class Ingested(NamedTuple):
    """What became of the pages."""

    pages: int
    taken: int
    before: int  # that the service had already
    clicks: int
    learned: int  # of the ranker, now
    columns: str

    def __str__(self) -> str:
        return f"{self.pages:,} pages, {self.clicks:,} clicks: {self.taken:,} taken in, {self.before:,} were there"

    def to_json(self) -> dict[str, Any]:
        """Return the counts for programs."""
        return self._asdict()


def ingest(
    client: Client,
    ranker: str,
    log: Given,
    columns: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda finished, of: None,
) -> Ingested:
    """Bring every page of a log to a ranker, with its clicks; what is there already is not brought again.

    Args:
      client: Of the service.
      ranker: Its name.
      log: Anything that `read_log` reads as lists.
      columns: Which column is what, where the names do not tell.
      progress: Called with the number of pages that are sent, and of all.

    Returns:
      How many pages were taken in, and how many were there before.
    """
    spec = client.ranker(ranker)
    schema = schema_of(spec, ranker)
    lists = lists_in(log, schema=schema, columns=columns)
    if lists.item is None:
        raise InvalidInput(f"{lists.name} has no column of items: name it, --column item=NAME")
    pages = list(keyed(lists.lists(schema), [session or "" for session in lists.session], ranker))
    verdicts, clicks = Counter[bool](), 0
    for number, page in enumerate(pages, 1):
        weights = zip(page.shown.ids, page.shown.clicked.tolist())
        clicked = {str(item): weight for item, weight in weights if weight}
        verdicts[_sent(client, ranker, page, clicked, bool(spec.get("schema")))] += 1
        clicks += len(clicked)
        progress(number, len(pages))
    learned = int(client.ranker(ranker)["counts"]["learned"])
    return Ingested(len(pages), verdicts[True], verdicts[False], clicks, learned, str(lists.columns))


def schema_of(spec: Mapping[str, Any], ranker: str) -> Schema:
    """The fields that a ranker takes, of which those of the items may also be plain numbers."""
    problem = spec["spec"]["problem"]
    if spec.get("schema"):
        schema = Schema.from_plain(spec["schema"])
        if COMPUTED in schema.features and (spec["spec"].get("base") or {}).get("booster"):
            fields = {name: kind for name, kind in schema.features.items() if name != COMPUTED}
            return Schema(fields, schema.context, schema.crosses, schema.bits)
        return schema
    if not problem.get("feature_names"):
        raise InvalidInput(f"the ranker {ranker!r} has no names for its features, so that no column can be found")
    return Schema(dict.fromkeys(problem["feature_names"], "number"))


def keyed(lists: Sequence[ShownList], sessions: Sequence[str], ranker: str) -> Iterator[KeyedPage]:
    """Pages in their order; one that says the same as another is told from it by which of them it is."""
    seen = Counter[str]()
    for shown, session in zip(lists, sessions):
        shown = _in_order(shown)
        said = [ranker, session, shown.query_id, shown.ids, shown.rows, shown.context, shown.clicked.tolist()]
        name = sha256(json.dumps(said, default=str, sort_keys=True).encode()).hexdigest()
        seen[name] += 1
        yield KeyedPage(shown, session, f"ingest {name} {seen[name]}")


def _in_order(shown: ShownList) -> ShownList:
    order = np.argsort(shown.position, kind="stable").tolist()
    ids, rows = [shown.ids[i] for i in order], [shown.rows[i] for i in order]
    return shown._replace(ids=ids, rows=rows, position=shown.position[order], clicked=shown.clicked[order])


def _sent(client: Client, ranker: str, page: KeyedPage, clicked: Mapping[str, float], by_schema: bool) -> bool:
    """Whether the page was new there."""
    shown, path = page.shown, path_of(ranker, False)
    rows = [{name: plain_value_of(value) for name, value in row.items() if value is not None} for row in shown.rows]
    if not by_schema:
        rows = [{name: float(value) for name, value in row.items()} for row in rows]
    items = [{"id": id, "features": row} for id, row in zip(shown.ids, rows)]
    more = {"order": shown.ids, "session": page.session, "tags": {"source": "ingest"}}
    asked = rank_request(path, items, shown.query_id, shown.context if by_schema else (), more)
    answer = client.send(dataclasses.replace(asked, key=page.key))
    try:
        taken = client.send(feedback_request(path, answer["impression"], True, {"clicks": dict(clicked)}))
    except Refused as error:
        if error.status in (GONE, LATE):
            return False
        raise
    return bool(taken["verdict"] != "repeated")


def plain_value_of(value: Any) -> Any:
    """As JSON has it."""
    return value if isinstance(value, str | int | float | bool | list) else plain_value(value)
