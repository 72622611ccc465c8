"""Where people click, by hand."""

from pathlib import Path

from rankloop.service.domain.health import clicks_of
from rankloop.service.domain.projection import Counters
from tests.service.cases import SHOP, Location, feed, inside, rank, report, running


def test_before_the_first_click_nothing_is_known() -> None:
    assert clicks_of(Counters()) == {"ctr_first": None, "click_position": None}


def test_clicks_by_position(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP)
        for positions in ([0], [0, 2], [], [1]):
            shown = rank(client)
            clicks = [shown["ranking"][position] for position in positions]
            feed(client, shown["impression"], clicks=clicks, final=True)
        rank(client)  # still open
        found = clicks_of(inside(client).rankers["shop"].projection.counters)
        assert found == {"ctr_first": 2 / 4, "click_position": (1 + 1 + 3 + 2) / 4}
        assert found.keys().isdisjoint(report(client)["health"])  # the report is that of 0.1


def test_feedback_of_another_kind_has_no_clicks(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        body = {"learner": "online_gradient", "problem": SHOP["problem"] | {"max_grade": 2}}
        client.put("/rankers/shop", json=body).raise_for_status()
        shown = rank(client)
        grades = dict.fromkeys(shown["ranking"], 1.0)
        assert feed(client, shown["impression"], relevances=grades, final=True).status_code == 200
        counters = inside(client).rankers["shop"].projection.counters
        assert clicks_of(counters) == {"ctr_first": None, "click_position": None}
