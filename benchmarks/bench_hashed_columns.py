"""Hashed columns: encoding, ranking and learning at 2^20, larger tables beside smaller ones, snapshots, endless ids."""

from __future__ import annotations

import resource
from time import perf_counter

import numpy as np
from numpy.random import default_rng

from benchmarks.measurement import Row, alone, best_of, in_turn, row
from rankloop import Clicks, Query, Session, build
from rankloop.core.saved_session import dumps, loads
from rankloop.core.types import Floats, Ints, Rows
from rankloop.core.weight_table import WeightTable
from rankloop.features import Encoder, Schema

N_ITEMS, N_ENTRIES = 50, 59
ENDLESS = 200_000  # rounds, each with five ids that never came before


def run() -> list[Row]:
    return [*rounds(), *sizes(), *snapshots(), *endless_ids()]


def rounds() -> list[Row]:
    """One round of 50 items with 59 entries each, at 2^20."""
    session, query = _session(20), _query(20)
    decision = session.rank(query)
    clicked = Clicks(decision.ranking[:2].copy(), np.ones(2))
    rank = best_of(lambda: _often(lambda: session.rank(query))) / 100
    learn = best_of(lambda: _often(lambda: session.learn(query, decision, clicked))) / 100
    return [alone("hashed columns, rank + learn, 50 × 59 at 2^20", rank + learn, target="150 µs")]


def sizes() -> list[Row]:
    """What an update costs in a large table, beside a small one, and one that says nothing new."""
    large, small = _learning(22), _learning(18)
    times = in_turn(large, small)
    query, nothing = _query(20), Clicks(np.empty(0, np.int64), np.empty(0))
    pairs = Session(build("hashed(inner='fair_pairs')"), _session(20).problem)
    decision, before = pairs.rank(query), pairs.state.table
    empty = best_of(lambda: _often(lambda: pairs.learn(query, decision, nothing)))
    note = "the table is the same one" if pairs.state.table is before else "the table was copied"
    return [
        row("hashed columns, learn at 2^22 beside 2^18", times, target="0.77×"),
        alone("hashed columns, an update without a click", empty / 100, note=note),
    ]


def snapshots() -> list[Row]:
    """A state of 2^20 columns, 600,000 of them in use, to a file and back."""
    session, rng = _session(20), default_rng(0)
    columns = np.sort(rng.choice(2**20, 600_000, replace=False))
    table = WeightTable.of(2**20 + 3, columns, np.abs(rng.normal(size=(len(columns), 2))))
    session.restore(session.state._replace(table=table), *session.snapshot()[1:])
    content = dumps(session)
    note = f"{len(content) / 1e6:.1f} MB"
    return [
        alone("hashed columns, snapshot at 2^20", best_of(lambda: dumps(session)), target="60 ms", note=note),
        alone("hashed columns, load at 2^20", best_of(lambda: loads(content)), target="20 ms", note=note),
        alone("hashed columns, digest at 2^20", best_of(table.digest), note=note),
    ]


def endless_ids() -> list[Row]:
    """Ids that come once and go: memory stays, and so does the time of a round."""
    encoder = Encoder(Schema({"sku": "id", "brand": "category"}))
    session = Session(build("hashed(inner='click_regression')"), encoder.schema.problem(shown=3))
    times, peaks = [], []
    for quarter in range(4):
        start = perf_counter()
        for t in range(quarter * ENDLESS // 4, (quarter + 1) * ENDLESS // 4):
            ids = [f"p{5 * t + i}" for i in range(5)]
            query = Query("", encoder.rows(ids, [{"brand": "a"}] * 5, {}), np.empty(0))
            decision = session.rank(query)
            session.learn(query, decision, Clicks(decision.ranking[:1].copy(), np.ones(1)))
        times.append((perf_counter() - start) / (ENDLESS // 4))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    note = f"{5 * ENDLESS:,} different ids; the last quarter took {times[3] / times[1]:.2f}× the second, "
    note += f"and the peak of memory grew by {peaks[3] - peaks[1]:.0f} MB after it"
    return [alone("hashed columns, ids without end", times[3], note=note)]


def _session(bits: int) -> Session:
    problem = Schema({"sku": "id"}, bits=bits).problem(shown=10)
    return Session(build("hashed(inner='click_regression')"), problem._replace(n_features=2**bits + 3))


def _query(bits: int, seed: int = 0) -> Query:
    rng = default_rng(seed)
    columns = rng.choice(2**bits, 1200, replace=False)
    positions: Ints = rng.integers(0, len(columns), N_ITEMS * N_ENTRIES)
    values: Floats = rng.random(len(positions))
    starts = np.arange(N_ITEMS + 1) * N_ENTRIES
    return Query("", Rows(starts, positions, values, columns, rng.random((N_ITEMS, 3))), np.empty(0))


def _learning(bits: int):  # type: ignore[no-untyped-def]
    """Updates from many different queries, so that no part of the table stays in the cache."""
    session, queries = _session(bits), [_query(bits, seed) for seed in range(100)]
    shown = [(query, session.rank(query)) for query in queries]

    def learn() -> None:
        for query, decision in shown:
            session.learn(query, decision, Clicks(decision.ranking[:2].copy(), np.ones(2)))

    return learn


def _often(call) -> None:  # type: ignore[no-untyped-def]
    for _ in range(100):
        call()
