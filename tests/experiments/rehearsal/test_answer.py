"""Would it help? Answers in worlds where they are known: one to win, one that is best already, one of noise."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.log_worlds import FOURTH_KINDS, play_pages
from rankloop.cli import main
from rankloop.click_models.fit import fit_users
from rankloop.core.errors import InvalidInput
from rankloop.experiments.rehearsal.answer import arms_of, rehearse
from rankloop.experiments.rehearsal.attraction import Attraction, RehearsalLog
from rankloop.experiments.rehearsal.result import RehearsalGain
from rankloop.features.encoder import Encoder
from rankloop.logs.reader import lists_in
from tests.experiments.rehearsal.worlds import EXAMINED, shop

LEARNER = ["click_regression"]


def true_gain(table: pa.Table) -> float:
    """Clicks per 1,000 pages that the true best order of each page has more than that of today."""
    pages = np.array(table["true_attraction"]).reshape(-1, 6)
    best = -np.sort(-pages, axis=1)
    return float(1000 * ((best - pages) @ EXAMINED).mean())


def asked(table: pa.Table, **more):
    return rehearse(table.drop_columns("true_attraction"), "pbm", pages=500, seeds=6, **more)


def test_where_learning_helps_it_says_how_much():
    table = shop("helps")
    answer, most = asked(table, learners=LEARNER), true_gain(table)
    assert (answer.word, answer.take) == ("take", "click_regression on fields")
    assert answer.fields_matter
    gain = answer.arms[0].late["clicks"]
    assert most == pytest.approx(183, abs=15)
    assert gain.low < 0.7 * most < gain.high
    assert gain.mean < answer.best["clicks"].mean
    assert answer.best["clicks"].low < most < answer.best["clicks"].high
    assert answer.measures == ("clicks", "purchases", "money")
    assert answer.arms[0].late["purchases"].mean == pytest.approx(0.2 * gain.mean, rel=0.3)
    assert answer.arms[0].learner["kind"] == "click_regression"
    assert answer.today["clicks"] == pytest.approx(1188, rel=0.1)
    assert "Take click_regression on fields: +" in answer.sentence


def test_where_today_is_best_there_is_no_gain():
    answer = asked(shop("best", n_pages=1500), learners=LEARNER)
    assert (answer.word, answer.take) == ("no gain", "")
    assert answer.fields_matter
    assert "No gain: keep today's order" in answer.sentence
    wide = answer.arms[0]._replace(late=answer.arms[0].late | {"clicks": RehearsalGain(30.0, -155.0, 214.0)})
    assert "No significant gain yet" in answer._replace(arms=(wide,)).sentence


def test_where_clicks_are_noise_there_is_no_gain():
    answer = asked(shop("noise"), learners=LEARNER)
    assert (answer.word, answer.fields_matter, answer.pairs_matter) == ("no gain", False, False)
    assert "No gain to be seen" in answer.sentence
    for arm in answer.arms:
        assert abs(arm.late["clicks"].mean) < 0.01


def test_where_nothing_ever_moved_it_cannot_tell():
    rows = shop("helps", n_pages=30).to_pylist()
    table = pa.Table.from_pylist(
        [
            row
            | {"session": f"{number // 6}, {again}", "query": f"query {number // 6}", "product": f"product {number}"}
            for again in range(5)
            for number, row in enumerate(rows)
        ]
    )
    answer = asked(table, learners=LEARNER)
    assert answer.word == "cannot tell"
    assert "examination is a guess" in answer.sentence


def test_where_positions_follow_earlier_clicks_it_cannot_tell():
    rng, rows = np.random.default_rng(3), []
    attraction, recent = rng.uniform(0.1, 0.6, (10, 6)), np.zeros((10, 6))
    orders = np.tile(np.arange(6), (10, 1))
    for page in range(2000):
        if page % 20 == 0:  # every day the order is that of yesterday's clicks
            orders, recent = np.argsort(-recent - 0.4 * rng.random((10, 6)), axis=1), np.zeros((10, 6))
        query = int(rng.integers(10))
        for position, item in enumerate(orders[query].tolist()):
            clicked = rng.random() < EXAMINED[position] * attraction[query, item]
            recent[query, item] += clicked
            name = {"session": f"s{page}", "query": f"q{query}", "product": f"p{query}-{item}"}
            rows.append(name | {"position": position + 1, "clicked": int(clicked), "true_attraction": 0.0})
    answer = asked(pa.Table.from_pylist(rows), learners=LEARNER)
    assert answer.users.examination.reacts
    assert answer.word == "cannot tell"
    assert "positions follow earlier clicks" in answer.sentence


@pytest.mark.parametrize(
    ("kind", "reason"), [("an order for each user", "order of their own"), ("items rise and fall", "rise and fall")]
)
def test_orders_that_follow_tastes_or_trends_cannot_be_rehearsed(kind: str, reason: str):
    rows = []
    for number, (page, order, hits, _) in enumerate(play_pages(FOURTH_KINDS[kind], np.random.default_rng(3))):
        name = {"page": str(number), "user": f"u{page.user}" if page.user else None, "query": f"q{page.query}"}
        for position, (item, hit) in enumerate(zip(order.tolist(), hits.tolist()), 1):
            rows.append(
                name
                | {
                    "product": f"p{page.query}-{item}",
                    "position": position,
                    "clicked": int(hit),
                    "true_attraction": 0.0,
                }
            )
    answer = asked(pa.Table.from_pylist(rows), learners=LEARNER)
    assert answer.word == "cannot tell"
    assert reason in answer.sentence


def test_fields_and_clicks_of_items_make_the_world():
    table = shop("helps", n_pages=500)
    log = RehearsalLog.of(lists_in(table.drop_columns("true_attraction")))
    posterior = Attraction.of(log, fit_users(log.pages, "pbm", folds=2))
    truth = np.array(table["true_attraction"])
    assert np.corrcoef(posterior._rows(posterior.fitted.attraction), truth)[0, 1] > 0.85
    worlds = [posterior.draw(np.random.default_rng(seed)) for seed in range(20)]
    drawn = np.array([attraction for attraction, _ in worlds])
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert np.corrcoef(drawn.mean(axis=0), posterior._rows(posterior.fitted.attraction))[0, 1] > 0.95
    curves = np.array([[row[0] for row in users["examination"]] for _, users in worlds])
    assert curves.std(axis=0)[1:].min() > 0.01  # examination is drawn too
    arms = arms_of(log, posterior, 100, 2, 0)
    assert [arm.name for arm in arms] == [
        "today's order",
        "click_regression on fields",
        "newton_pairs on numbers",
        "fair_pairs on numbers",
        "pdgd on numbers",
    ]


def test_numbers_that_name_queries_and_items_are_names(tmp_path):
    lines = ["page,query,position,url,clicked,shelf"]
    lines += [
        f"{p},{1510 + p % 7},{at},{97000 + (p + at) % 9},{int(at == p % 3)},0{at}" for p in range(60) for at in (1, 2)
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    log = RehearsalLog.of(lists_in(tmp_path / "log.csv"))
    assert log.schema.to_plain()["context"] == {"query": "category"}
    pages = [page.query(Encoder(log.schema)) for page in log.lists]
    assert {page.id for page in pages} == {str(1510 + n) for n in range(7)}
    assert log.lists[0].rows[0] == {"url": "97001", "shelf": 1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("s1", "q", 1, "a", 0), ("s2", "q", 1, "b", 0)], "the log has no click"),
        ([("s1", "q", 1, "a", 1)], "the log has only one visit"),
    ],
)
def test_a_log_that_tells_nothing_is_refused(rows, message):
    names = ("session", "query", "position", "product", "clicked")
    with pytest.raises(InvalidInput, match=message):
        rehearse({name: list(column) for name, column in zip(names, zip(*rows))})


def test_a_gain_is_written_with_its_sign():
    assert str(RehearsalGain(1234.56, -0.01, 2000)) == "+1,234.6 (+0.0 to +2,000.0)"
    with pytest.raises(InvalidInput, match="at least 2 seeds"):
        rehearse(shop("noise", n_pages=20), seeds=1)


def test_the_command_writes_a_report(tmp_path, capsys):
    path, out = tmp_path / "shop.parquet", tmp_path / "report"
    pq.write_table(shop("helps", n_pages=300).drop_columns("true_attraction"), path)
    options = ["--log", path, "--model", "pbm", "--pages", 200, "--seeds", 2, "--engine", "here", "--out", out]
    with pytest.raises(SystemExit) as leaving:
        main(["rehearse", *map(str, options), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert not leaving.value.code
    assert answer["answer"] in ("take", "no gain")
    assert len(answer["arms"]) == 4
    assert answer["schema"]["features"]["brand"] == "category"
    page = (out / "report.html").read_text()
    assert "Clicks per 1,000 pages" in page
    assert "purchased" in page
