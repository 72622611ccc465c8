"""How many updates a learner takes per second of processor time, reading and decoding the log included.

`python -m benchmarks.learner_rate` writes a log of rankings and clicks to SQLite, and learns it as a service does
after a crash: no snapshot, everything from the first event on.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rankloop.service.application.rebuild import restored_consumer
from rankloop.service.application.served_ranker import ServedRanker, query_request
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.feedback_acceptance import impression_of
from rankloop.service.log.writer import Batch, RecentImpressions, entry_of
from rankloop.service.records import Created, FeedbackReceived
from rankloop.service.request_bodies import CreateBody, Item, ProblemBody, RankBody
from rankloop.service.stores.sqlite import SqliteStore

N_ITEMS, N_FEATURES = 50, 20
N_UPDATES = 10_000
AT_ONCE = 250


def write_log(store: SqliteStore, learner: str, updates: int) -> None:
    """Rankings of so many lists, each with a click on the item at the second position."""
    body = CreateBody(learner, ProblemBody(n_features=N_FEATURES), snapshot_every=10**9)
    runtime = ServedRanker("ranker/shop", config_of(body), b"")
    recent, rng = RecentImpressions(impression_of), np.random.default_rng(0)
    store.append(Batch([entry_of("ranker/shop", Created(runtime.body))], recent))
    for begin in range(0, updates, AT_ONCE):
        entries = []
        for number in range(begin, begin + AT_ONCE):
            items = [Item(f"item {i}", row) for i, row in enumerate(rng.random((N_ITEMS, N_FEATURES)).tolist())]
            ranked = runtime.rank(query_request(RankBody(items), runtime.config, N_ITEMS), f"{number:016x}")
            click = FeedbackReceived(ranked.impression, "clicks", [ranked.order[1]], [1.0], final=True)
            entries += [entry_of("ranker/shop", ranked), entry_of("ranker/shop", click)]
        store.append(Batch(entries, recent))


def updates_per_second(learner: str, updates: int = N_UPDATES) -> float:
    """Updates per second of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "rankloop.db")
        try:
            write_log(store, learner, updates)
            restored_consumer("ranker/shop", store, 3)  # compiles
            begun = time.process_time()
            consumer = restored_consumer("ranker/shop", store, store.last())
            seconds = time.process_time() - begun
        finally:
            store.close()
    if consumer.published().learned != updates:
        raise RuntimeError(f"{consumer.published().learned} of {updates} updates were learned")
    return updates / seconds


def main() -> None:
    for learner in sys.argv[1:] or ("3pr", "newton_pairs", "pdgd"):
        print(
            f"{learner}: {updates_per_second(learner):,.0f} updates per second, {N_ITEMS} items x {N_FEATURES} features"
        )


if __name__ == "__main__":
    main()
