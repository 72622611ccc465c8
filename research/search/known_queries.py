"""A search box on real queries: what clicks teach it of the queries that are asked, and what becomes of the others."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.registry import build
from rankloop.core.session import generators
from rankloop.core.types import Floats
from rankloop.experiments.analysis.curves import estimate
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Finding, Table
from rankloop.features.schema import Schema
from rankloop.search.ranked_search import search_session
from research.registry import Setting, reproduction
from research.search.collection import N_ASKED_QUERIES, Asked, Documents, asked, collection, engine_of
from research.verdicts import is_above

ROUNDS, QUICK_ROUNDS = 6_000, 1_000
N_VISITORS = 200
SEEDS, QUICK_SEEDS = (*range(200, 210), *range(400, 410)), (200,)  # no step size was chosen on them
FIRST, LAST = 1_000, 2_000
N_READ_RESULTS = 10  # results that users look at
RANDOM_RATE = 0.1
CURVE_POINTS = 40
TITLE = "A search box that learns, on real queries"
TEXT = """The engine's hundred candidates for each query, by words and by meaning; 200 simulated visitors of the \
dependent click model who know which documents answer their query (informational behaviour), and who ask the first 150 \
of the queries, by a Zipf law. Adversarial visitors click the opposite. Shown: nDCG@10 of the lists that were shown, \
swaps included. Unseen: nDCG@10 of the predicted order for the 75 queries that nobody asked. BM25 is the word index \
alone. The weights of the engine's score and the trust in memory were chosen on 20 Newsgroups and stories of \
Reuters, those weights that choose the documents for feedback on Cranfield, too; the step sizes of the memory and of \
trust in visitors were chosen on Cranfield, with seeds 0 and 1 and the same split of the queries."""


class UserGroup(NamedTuple):
    """A group of simulated users: their click model, the share that means the opposite, or clicks that mean nothing."""

    name: str
    behaviour: str = "informational"
    adversarial: float = 0.0
    random: bool = False


USER_GROUPS = (
    UserGroup("informational"),
    UserGroup("navigational", "navigational"),
    UserGroup("a fifth adversarial", adversarial=0.2),
    UserGroup("random clicks", random=True),
)


class Played(NamedTuple):
    """Quality of every list that was shown, of the engine's order for the same queries, and of unseen queries."""

    shown: Floats
    engine: Floats
    unseen: float
    unseen_engine: float
    unseen_words: float = 0.0  # by BM25 alone


def played(schema: Schema, queries: list[Asked], users: UserGroup, rounds: int, seed: int) -> Played:
    """One run: ask, look, click, learn."""
    session = search_session(schema, seed)
    of_stream, of_users, *_ = generators(seed)
    readers: Any = build({"kind": "dcm", "behaviour": users.behaviour, "max_grade": 1}, "feedback")
    popularity = 1.0 / np.arange(1, N_ASKED_QUERIES + 1)
    drawn = of_stream.choice(N_ASKED_QUERIES, rounds, p=popularity / popularity.sum())
    engine = np.array([judged_query.ndcg(np.arange(len(judged_query.relevance))) for judged_query in queries])
    shown = np.empty(rounds)
    for t, number in enumerate(drawn):
        visitor = int(of_users.integers(N_VISITORS))
        judged_query = queries[number]
        judged_query = judged_query._replace(query=judged_query.query._replace(user=f"visitor {visitor}"))
        decision = session.rank(judged_query.query)
        shown[t] = judged_query.ndcg(decision.ranking)
        relevance = judged_query.relevance
        if users.random:
            relevance = (of_users.random(len(relevance)) < RANDOM_RATE).astype(np.float64)
        elif visitor < users.adversarial * N_VISITORS:
            relevance = 1.0 - relevance
        session.learn(
            judged_query.query, decision, readers.observe(decision.ranking[:N_READ_RESULTS], relevance, of_users)
        )
    unseen = [judged_query.ndcg(session.predict(judged_query.query)) for judged_query in queries[N_ASKED_QUERIES:]]
    return Played(shown, engine[drawn], float(np.mean(unseen)), float(engine[N_ASKED_QUERIES:].mean()))


@reproduction("search-cranfield", title=TITLE)
def search_cranfield(setting: Setting) -> Finding:
    """Everybody of EVERYBODY, seed by seed."""
    name, test_collection, notice = collection()
    rounds, seeds = (QUICK_ROUNDS, QUICK_SEEDS) if setting.quick else (ROUNDS, SEEDS)
    with engine_of(Documents(name, test_collection.documents)) as engine:
        schema, queries = asked(test_collection, engine)
    with engine_of(Documents(name, test_collection.documents), meaning="off") as engine:
        words = np.array([query.ndcg(np.arange(len(query.relevance))) for query in asked(test_collection, engine)[1]])
    engine_scores = np.array([query.ndcg(np.arange(len(query.relevance))) for query in queries])
    play = partial(played, schema, queries)
    runs: dict[str, list[Played]] = {users.name: [] for users in USER_GROUPS}
    for i, users in enumerate(USER_GROUPS):
        for j, seed in enumerate(seeds):
            run = play(users, rounds, seed)
            runs[users.name].append(run._replace(unseen_words=float(words[N_ASKED_QUERIES:].mean())))
            setting.progress(i * len(seeds) + j + 1, len(USER_GROUPS) * len(seeds))
    facts = ("data", name), ("rounds", f"{rounds:,}"), ("seeds", ", ".join(map(str, seeds)))
    missing = (notice.strip(),) if notice else ()
    charts = (_curves(runs, rounds),)
    return Finding(
        text=notice + TEXT,
        claims=(*_claims(runs, not notice), *_first_claims(words, engine_scores, not notice)),
        tables=(_table(runs), _first_table(words, engine_scores)),
        charts=charts,
        facts=facts,
        missing=missing,
    )


def _first(runs: list[Played]) -> Floats:
    return np.array([run.shown[:FIRST].mean() for run in runs])


def _last(runs: list[Played]) -> Floats:
    return np.array([run.shown[-LAST:].mean() for run in runs])


def _table(runs: dict[str, list[Played]]) -> Table:
    header = ("", f"first {FIRST:,}", f"last {LAST:,}", "engine, same queries", "unseen", "engine, unseen")
    rows = []
    for name, user_runs in runs.items():
        engine = np.array([run.engine[-LAST:].mean() for run in user_runs])
        values = _first(user_runs), _last(user_runs), engine, np.array([run.unseen for run in user_runs])
        rows.append((name, *(str(estimate(value)) for value in values), f"{user_runs[0].unseen_engine:.3f}"))
    return Table("nDCG@10", header, rows, "Mean ± standard error over seeds.")


def _claims(runs: dict[str, list[Played]], real: bool) -> tuple[Verdict, ...]:
    """Return the claims: all for Cranfield, for simulated documents only that clicks help."""
    honest, adversarial, random = (runs[USER_GROUPS[i].name] for i in (0, 2, 3))
    unseen, engine = np.array([run.unseen for run in honest]), honest[0].unseen_engine
    cost = np.array([run.engine.mean() - run.shown.mean() for run in random])
    safe = (
        is_above("Queries that nobody asked are not hurt by more than .005", unseen, engine - 0.005),
        is_above("Random clicks cost at most .01", np.full(len(cost), 0.01), cost),
    )
    if not real:
        engine_means = np.array([run.engine[-LAST:].mean() for run in honest])
        return (
            is_above("The last 2,000 searches are shown a better order than the engine's", _last(honest), engine_means),
            *safe,
        )
    return (
        is_above("Shown, last 2,000 searches, at least .75", _last(honest), 0.75),
        *safe,
        is_above("Queries that nobody asked gain .06 over BM25", unseen, honest[0].unseen_words + 0.06),
        is_above("With a fifth of adversarial visitors at least .70 is shown at the end", _last(adversarial), 0.70),
    )


def _first_table(words: Floats, engine: Floats) -> Table:
    """Return the quality before the first click, of the queries that are asked, of the others, and of all."""
    parts = {"asked": slice(0, N_ASKED_QUERIES), "unseen": slice(N_ASKED_QUERIES, None), "all": slice(0, None)}
    rows = [(name, f"{words[part].mean():.4f}", f"{engine[part].mean():.4f}") for name, part in parts.items()]
    return Table("nDCG@10 before the first click", ("queries", "BM25", "words and meaning"), rows)


def _first_claims(words: Floats, engine: Floats, real: bool) -> tuple[Verdict, ...]:
    if not real:
        return ()
    return (is_above("Without a click, at least .575", np.array([engine.mean()]), 0.575),)


def _curves(runs: dict[str, list[Played]], rounds: int) -> Any:
    """Means over windows of the rounds."""
    width = rounds // CURVE_POINTS
    at = np.arange(width, rounds + 1, width)
    lines = [
        Line(name, np.array([run.shown.reshape(CURVE_POINTS, width).mean(axis=1) for run in user_runs]), colour)
        for colour, (name, user_runs) in enumerate(runs.items())
    ]
    engine = np.array([run.engine.reshape(CURVE_POINTS, width).mean(axis=1) for run in next(iter(runs.values()))])
    lines.append(Line("engine alone", engine, role="floor"))
    return chart("search-box", "What users were shown", at, lines, x_label="searches", y_label="nDCG@10")
