"""Benchmarks: how repeats become a ratio, and when a row counts as fallen. No time is measured here."""

import importlib.util
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from benchmarks import results
from benchmarks.bandit_loop import Ours, drawn_rounds, played
from benchmarks.environment import DISTRIBUTIONS, machine, versions
from benchmarks.measurement import Timed, in_turn, quality, row, timed
from rankloop import Reward, build

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)


def a_row(ratio=4.0, spread=0.5, ours=0.70, error=0.01):
    judged = quality("nDCG@10", [ours - error, ours + error], [0.7, 0.7])
    return row("a race", Timed(1.0, ratio, ratio, spread), peer="river", judged=judged, note="on a track")


def test_the_ratio_is_the_median_of_the_ratios_of_each_repeat():
    found = timed([(1.0, 2.0), (2.0, 8.0), (1.0, 3.0)])
    assert found == Timed(ours=1.0, peer=3.0, ratio=3.0, spread=(4.0 - 2.0) / 2)


def test_the_spread_of_qualities_is_the_standard_error_of_their_difference():
    found = quality("nDCG@10", [0.5, 0.7, 0.6], [0.4, 0.4, 0.4])
    differences = np.array([0.1, 0.3, 0.2])
    assert found.ours == pytest.approx(0.6)
    assert found.spread == pytest.approx(np.sqrt(np.sum((differences - 0.2) ** 2) / 2 / 3))
    assert quality("nDCG@10", [0.5], [0.4]).spread == 0.0


def test_a_row_fell_when_its_ratio_fell_by_more_than_both_spreads():
    assert results.regressions(a_row(ratio=2.9), a_row(ratio=4.0)) == "slower: 4.00× before"
    assert results.regressions(a_row(ratio=3.1), a_row(ratio=4.0)) == ""
    assert results.regressions(a_row(ratio=5.5), a_row(ratio=4.0)) == ""
    assert results.regressions(a_row(), None) == ""


def test_a_row_fell_when_its_quality_did():
    assert results.regressions(a_row(ours=0.60), a_row(ours=0.70)) == "worse: 0.7000 before"
    assert results.regressions(a_row(ours=0.69), a_row(ours=0.70)) == ""


def test_rows_without_a_spread_are_never_marked():
    bare = {"name": "alone", "ours_seconds": 1.0}
    assert results.regressions(bare, bare) == ""
    assert results.regressions(bare | {"ratio": 1.0}, bare | {"ratio": 9.0}) == ""


def test_some_benchmarks_leave_the_rows_of_others_and_a_whole_run_does_not(tmp_path):
    path = tmp_path / "results" / "bench.json"
    results.write(path, {"one": a_row()}, whole=False)
    results.write(path, {"two": a_row()}, whole=False)
    assert set(results.read(path)["rows"]) == {"one", "two"}
    results.write(path, {"three": a_row()}, whole=True)
    assert set(results.read(path)["rows"]) == {"three"}
    assert results.read(path)["rows"]["three"] == a_row()


def test_the_machine_is_described_without_its_name():
    facts = machine()
    assert int(facts["cores"]) >= 1
    assert facts["CPU"]
    assert set(versions()) == {"rankloop", "numpy", "numba", *DISTRIBUTIONS}


def test_the_summary_has_the_rows_with_a_peer():
    grid = results.peer_table({"a": a_row(), "b": {"name": "alone", "ours_seconds": 1.0}}, {})
    assert grid.row_count == 1
    assert results.ratio(a_row()) == "4.00× ± 0.50"
    assert results.quality(a_row()) == "0.700 / 0.700 ± 0.010 nDCG@10"
    assert [results.seconds(value) for value in (2.0, 0.0123, 4.5e-6)] == ["2 s", "12.3 ms", "4.5 µs"]


@pytest.mark.parametrize(
    ("ours", "shown"),
    [(0.80, "**0.800** / 0.700"), (0.60, "0.600 / **0.700**"), (0.71, "0.710 / 0.700")],
)
def test_the_page_prints_the_better_side_in_bold(ours, shown):
    kept = {"rows": {"a": a_row(ours=ours), "b": {"name": "alone"}}, "machine": {"cores": "2"}, "versions": {}}
    assert f"| river | a race | **4.00× ± 0.50** | {shown} ± 0.010 nDCG@10 | on a track |" in tables.peers(kept)
    assert "alone" not in tables.peers(kept)
    assert tables.machine(kept) == "cores 2."


def test_the_page_is_filled_from_the_kept_results():
    page = tables.on_page_markdown((ROOT / "docs" / "peers.md").read_text(encoding="utf-8"))
    assert "<!--" not in page
    assert "| VowpalWabbit |" in page
    assert tables.on_page_markdown("another page") == "another page"


def test_every_side_of_an_online_comparison_meets_the_same_rounds():
    stream = build("campaign(click_rates=[0.2, 0.9], n_context=5)", "stream")
    rounds = drawn_rounds(stream, 3, 50)
    again = drawn_rounds(stream, 3, 50)
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(rounds, again))

    class Second:
        def choose(self, t):
            return 1

        def learn(self, t, item, reward):
            assert reward == rounds[t][1][item]

    assert played(lambda _, seed: Second(), rounds, 0).reward == np.mean([relevance[1] for _, relevance in rounds])
    ours = Ours("auc_policy", stream.problem, lambda item, reward: Reward(reward))
    assert played(ours, rounds, 0).reward == played(ours, rounds, 0).reward


def test_both_sides_are_called_in_turn_and_short_calls_many_times():
    calls = []
    found = in_turn(lambda: calls.append("ours"), lambda: (calls.append("peer"), sleep(0.06)), repeats=2)
    assert calls[:4] == ["ours", "peer", "ours", "peer"]
    assert calls.count("peer") == 1 + 1 + 2
    assert calls.count("ours") > 1000
    assert found.ratio > 100
