"""A study: who belongs to which half, every compared list with its winner, and what may be said of it at any time."""

from itertools import pairwise
from pathlib import Path

import pytest

from rankloop.core.plain_values import from_plain
from rankloop.interleaving import Comparison, Mixed
from rankloop.search import SearchBox
from rankloop.search.ranked_search import SearchOptions, SearchResults
from rankloop.search.study import is_compared, study_report, study_rows
from rankloop.service.records import Ranked
from tests.search.boxes import box_over, digest, prefer, records, replay


def compared(box: SearchBox, text: str, visitor: str) -> SearchResults:
    return box._service.call(box._search.search(text, SearchOptions(visitor=visitor), compared=True))


def test_halves_are_halves_and_stay() -> None:
    visitors = [f"{i:032x}" for i in range(4_000)]
    halves = [is_compared(visitor) for visitor in visitors]
    assert 1_900 < sum(halves) < 2_100
    assert halves == [is_compared(visitor) for visitor in visitors]
    assert 400 < sum(one != other for one, other in pairwise(halves[:1_000])) < 600  # neighbours are no group


def test_compared_lists_teach_nobody_and_are_counted(tmp_path: Path) -> None:
    with box_over(tmp_path) as box:
        prefer(box, "knots.md", visitor="teacher")
        learned, expected = digest(box), []
        for turn in range(32):  # so many that each side wins at least once, but for one run in ten million
            shown = compared(box, "boat", f"v{turn % 3}")
            assert shown.compared
            clicks = [shown.ids[turn % 3]] if turn % 4 else []
            event = next(
                record.event
                for record in records(box.folder)
                if isinstance(record.event, Ranked) and record.event.impression == shown.impression
            )
            mixed = from_plain(event.mixed, Mixed, "mixed")
            earned = [0.0, 0.0]
            for id in clicks:
                earned[mixed.teams[list(mixed.ranking).index(event.ids.index(id))]] += 1.0
            expected.append((shown.impression, f"v{turn % 3}", *earned))
            box.learn(shown, clicks=clicks)
        compared(box, "boat", "still looking")
        assert digest(box) == learned
        rows = list(study_rows(iter(records(box.folder))))
        assert [(row["impression"], row["visitor"], row["learned"], row["engine"]) for row in rows] == expected
        assert {row["query"] for row in rows} == {"boat"}
        assert {row["state"] for row in rows} == {3}
        winners = [row["winner"] for row in rows]
        counters = box._service.node.directory.ranker("search").projection.counters.comparison
        assert (winners.count("learned"), winners.count("neither"), winners.count("engine")) == tuple(counters)
        assert winners.count("neither") == 8
        assert min(counters) > 0
        assert replay(box.folder).digest == learned


def test_what_is_forgotten_is_not_in_the_study(tmp_path: Path) -> None:
    with box_over(tmp_path) as box:
        for visitor in ("a", "b", "a"):
            shown = compared(box, "boat", visitor)
            box.learn(shown, clicks=shown.ids[:1])
        assert box.forget(visitor="a") == 2
        (row,) = study_rows(iter(records(box.folder)))
        assert row["visitor"] == "b"
        assert sum(box._service.node.directory.ranker("search").projection.counters.comparison) == 1


def test_a_study_of_nothing(tmp_path: Path) -> None:
    assert study_report(Comparison(0, 0, 0)) == {"wins": 0, "losses": 0, "ties": 0, "p_value": 1.0, "verdict": "open"}
    assert list(study_rows(iter(()))) == []


@pytest.mark.parametrize(
    ("wins", "losses", "verdict"),
    [
        (7, 0, "open"),  # 8 / 2⁷ = .0625
        (8, 0, "learned order is better"),  # 9 / 2⁸ = .035
        (0, 8, "engine order is better"),
        (20, 20, "open"),
        (60, 20, "learned order is better"),
    ],
)
def test_words_of_a_verdict(wins: int, losses: int, verdict: str) -> None:
    report = study_report(Comparison(wins, 5, losses))
    assert (report["wins"], report["losses"], report["ties"], report["verdict"]) == (wins, losses, 5, verdict)
