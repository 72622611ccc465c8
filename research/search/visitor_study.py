"""Section 7 of the coactive paper as it was: a search engine with visitors, half of whom teach while half compare."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import RankloopError
from rankloop.core.registry import build
from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Finding, Table
from rankloop.search.local_engine import LocalEngine
from rankloop.search.study import MAX_P_VALUE
from rankloop.service.settings import Settings
from research.datasets.cranfield import TestCollection
from research.papers.coactive.click_streams import PAPER
from research.registry import Setting, reproduction
from research.search.collection import N_ASKED_QUERIES, Documents, collection
from research.verdicts import is_above, word_of

VISITORS, DEFAULT_VISITS, QUICK_VISITS = 200, 4_000, 400
SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)
N_READ_RESULTS = 10
CURVE_POINTS = 40
BEHAVIOUR = {"kind": "dcm", "behaviour": "informational", "max_grade": 1}
TITLE = "A search box with visitors: half teach, half compare"
TEXT = f"""{PAPER}, section 7, as a whole system: `rankloop search` over a collection of documents, and visitors who \
come over HTTP, each with a cookie. The cookie decides who belongs to which half: one half teaches, the other is shown \
the learned order and the engine's (BM25) as one list by team-draft interleaving, and teaches nobody. Visitors are \
simulated: they know which documents answer their query and click by the dependent click model (informational). The \
p-value may be looked at after every visitor. Cookies and the coins of interleaving are the service's own, so two runs \
differ."""


class Standing(NamedTuple):
    """The study after so many visits."""

    visits: int
    wins: int
    losses: int
    ties: int
    p_value: float


class Visitor:
    """Somebody with a cookie; all of them come over one connection, one after the other."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._cookie = ""

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request, and return the answer.

        Args:
          method: The HTTP method.
          path: The path.
          body: The body, as JSON.
        """
        headers = {"Content-Type": "application/json"} | ({"Cookie": self._cookie} if self._cookie else {})
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        content = json.loads(answer.read())
        cookie = answer.getheader("Set-Cookie", "")
        if cookie:
            self._cookie = cookie.partition(";")[0]
        if answer.status != 200:
            raise RankloopError(f"{path}: {content.get('detail')}")
        return dict(content)


@contextmanager
def search_page(name: str, test_collection: TestCollection, seed: int) -> Iterator[int]:
    """The port of a running search page with a study over a collection; everything is gone afterwards."""
    from rankloop.search.routes import SearchPage  # only here: the list of reproductions does without a server
    from rankloop.service.http.server import make_server

    with tempfile.TemporaryDirectory() as folder:
        engine, documents = LocalEngine(Path(folder)), Documents(name, test_collection.documents)
        calls = SearchPage(engine, documents, study=True, seed=seed)
        server = make_server(Settings(data=Path(folder), port=0), addition=calls)
        thread = Thread(target=server.run, name="search page")
        thread.start()
        try:
            while not server.started:
                if not thread.is_alive():
                    raise RankloopError("the search page did not start")
                time.sleep(0.01)
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.stop()
            thread.join()
            engine.close()


def simulated(
    name: str,
    test_collection: TestCollection,
    visits: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Standing]:
    """Let visitors search, look and click through HTTP; how the study stood on the way, and at the end."""
    rng = np.random.default_rng(seed)
    users: Any = build(BEHAVIOUR, "feedback")
    popularity = 1.0 / np.arange(1, N_ASKED_QUERIES + 1)
    standings, every = [], max(visits // CURVE_POINTS, 1)
    with (
        search_page(name, test_collection, seed) as port,
        closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection,
    ):
        visitors = [Visitor(connection) for _ in range(min(VISITORS, visits // 4))]
        for visit in range(1, visits + 1):
            visitor = visitors[rng.integers(len(visitors))]
            number = int(rng.choice(N_ASKED_QUERIES, p=popularity / popularity.sum()))
            shown = visitor.call("POST", "/search", {"text": test_collection.queries[number], "n": N_READ_RESULTS})
            ids = [result["id"] for result in shown["results"]]
            if ids:
                relevance = np.array([float(id in test_collection.relevant[number]) for id in ids])
                clicks = users.observe(np.arange(len(ids)), relevance, rng)
                body = {"impression": shown["impression"], "clicks": [ids[i] for i in clicks.items], "final": True}
                visitor.call("POST", "/search/clicks", body)
            if visit % every == 0 or visit == visits:
                standings.append(_standing(visitor, visit))
                progress(visit, visits)
    return standings


def _standing(visitor: Visitor, visits: int) -> Standing:
    now = visitor.call("GET", "/search/study.json")
    return Standing(visits, *(now[name] for name in ("wins", "losses", "ties", "p_value")))


@reproduction("search-study", title=TITLE)
def search_study(setting: Setting) -> Finding:
    """The study of several seeds, one after the other."""
    name, test_collection, notice = collection()
    visits, seeds = (QUICK_VISITS, QUICK_SEEDS) if setting.quick else (DEFAULT_VISITS, SEEDS)
    runs: list[list[Standing]] = []
    for seed in seeds:

        def advance(done: int, of: int) -> None:
            setting.progress(len(runs) * visits + done, of * len(seeds))

        runs.append(simulated(name, test_collection, visits, seed, advance))
    at = np.array([standing.visits for standing in runs[0]])
    facts = ("data", name), ("visits", f"{visits:,}"), ("seeds", ", ".join(map(str, seeds)))
    return Finding(
        text=notice + TEXT,
        claims=_claims(runs),
        tables=(_table(runs, seeds),),
        charts=(_curve(at, runs),),
        facts=facts,
        missing=(notice.strip(),) if notice else (),
    )


def _ratios(runs: list[list[Standing]]) -> Floats:
    return np.array([[now.wins / max(now.losses, 1) for now in run] for run in runs])


def _claims(runs: list[list[Standing]]) -> tuple[Verdict, ...]:
    printed = "section 7: 3PR converges to 1.9 wins per loss"
    sure = sum(run[-1].p_value < MAX_P_VALUE for run in runs)
    because = ", ".join(f"p = {run[-1].p_value:.2g}" for run in runs)
    return (
        is_above("The learned order wins against the engine's", _ratios(runs)[:, -1], 1.0, paper=printed),
        Verdict(
            f"It is sure by the end, at a level of {MAX_P_VALUE:g} that holds at any time",
            word_of(sure, len(runs)),
            because,
        ),
    )


def _table(runs: list[list[Standing]], seeds: tuple[int, ...]) -> Table:
    rows = []
    for seed, run in zip(seeds, runs):
        end, sure = run[-1], next((now.visits for now in run if now.p_value < MAX_P_VALUE), None)
        counts = map(str, (end.wins, end.losses, end.ties))
        rows.append((str(seed), *counts, f"{end.p_value:.2g}", "never" if sure is None else f"{sure:,}"))
    return Table("The study at its end", ("seed", "wins", "losses", "ties", "p", "sure after visits"), rows)


def _curve(at: Ints, runs: list[list[Standing]]) -> Any:
    lines = [Line("wins per loss", _ratios(runs)), Line("a draw", np.ones((1, len(at))), role="floor")]
    return chart("study", "Wins against the engine's order", at, lines, x_label="visits", y_label="wins per loss")
