"""Ingestion: send the pages of a log, which another system has shown, to a ranker of a running service."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from rankloop.client import Client, Refused
from rankloop.core.errors import InvalidInput
from rankloop.features.schema import Schema
from rankloop.impression import plain_value
from rankloop.logs.list_log import ShownList
from rankloop.logs.reader import lists_in
from rankloop.logs.table_reader import Given

BASE_SCORE = "base score"  # a ranker with a booster computes this feature itself
NOT_FOUND_STATUS, LATE_STATUS = 404, 410
PLAIN_TYPES = (str, int, float, list)  # of values that are sent as they are


class Ingested(NamedTuple):
    """The result of an ingestion."""

    pages: int
    accepted: int
    repeated: int  # the service had them already
    clicks: int
    learned: int  # the number of updates of the ranker now
    columns: str

    def __str__(self) -> str:
        return f"{self.pages:,} pages, {self.clicks:,} clicks: {self.accepted:,} accepted, {self.repeated:,} repeated"


def ingest(
    client: Client,
    ranker: str,
    log: Given,
    columns: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda finished, of: None,
    skip_bad_rows: bool = False,
) -> Ingested:
    """Send every page of a log to a ranker, with its clicks and the outcomes that the ranker declares.

    A page that was sent earlier is not learned from again.

    Args:
      client: The client of the service.
      ranker: The name of the ranker.
      log: Anything that `read_log` reads as lists.
      columns: The column of each role, if the names of the columns do not tell.
      progress: Called with the number of pages that were sent, and of all pages.
      skip_bad_rows: Leave out rows with a bad cell, and say how many in `columns`.
    """
    spec = client.ranker(ranker)
    schema = _schema_of(spec, ranker)
    lists = lists_in(log, schema=schema, columns=columns, skip_bad_rows=skip_bad_rows)
    if lists.item is None:
        raise InvalidInput(f"{lists.name} has no column of items: name it with --column item=NAME")
    pages, by_schema, keys = lists.lists(schema), bool(spec.get("schema")), Counter[str]()
    page_outcomes = lists.outcomes_by_page(spec["spec"].get("outcomes", {}))
    verdicts, n_clicks = Counter[bool](), 0
    for number, (shown, session, user, outcomes) in enumerate(zip(pages, lists.session, lists.user, page_outcomes), 1):
        # Equal pages are numbered, so that each has an idempotency key of its own.
        clicks = shown.clicked.tolist()
        content = [ranker, session or "", shown.query_id, shown.ids, shown.rows, shown.context, clicks]
        name = sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()
        keys[name] += 1
        feedback = {"clicks": {str(item): weight for item, weight in zip(shown.ids, clicks) if weight}}
        n_clicks += len(feedback["clicks"])
        labels = {"key": f"ingest {name} {keys[name]}", "session": session or "", "user": user or ""}
        feedback |= {"outcomes": outcomes} if outcomes else {}
        verdicts[_send(client, ranker, shown, labels, feedback, by_schema)] += 1
        progress(number, len(pages))
    learned = int(client.ranker(ranker)["counts"]["learned"])
    described = "; ".join([str(lists.columns), *lists.notes])
    return Ingested(len(pages), verdicts[True], verdicts[False], n_clicks, learned, described)


def _schema_of(spec: Mapping[str, Any], ranker: str) -> Schema:
    """Return the fields of a ranker; plain features are fields of kind number."""
    problem = spec["spec"]["problem"]
    if spec.get("schema"):
        schema = Schema.from_plain(spec["schema"])
        if BASE_SCORE in schema.features and (spec["spec"].get("base") or {}).get("booster"):
            return schema.without([BASE_SCORE])
        return schema
    if not problem.get("feature_names"):
        raise InvalidInput(f"the ranker {ranker!r} has no feature names, so no column fits: create it with them")
    return Schema(dict.fromkeys(problem["feature_names"], "number"))


def _send(
    client: Client, ranker: str, shown: ShownList, labels: dict[str, Any], feedback: dict[str, Any], by_schema: bool
) -> bool:
    """Send a page and its feedback; return True if the page was new to the service."""
    convert = (lambda value: value if isinstance(value, PLAIN_TYPES) else plain_value(value)) if by_schema else float
    rows = [{name: convert(value) for name, value in row.items() if value is not None} for row in shown.rows]
    logged = client.rank(
        ranker,
        [{"id": id, "features": row} for id, row in zip(shown.ids, rows)],
        query_id=shown.query_id,
        context=shown.context if by_schema else (),
        order=shown.ids,
        tags={"source": "ingest"},
        **labels,
    )
    try:
        receipt = client.feedback(ranker, logged, final=True, **feedback)
    except Refused as error:
        if error.status in (NOT_FOUND_STATUS, LATE_STATUS):
            return False
        raise
    return receipt.verdict != "repeated"
