"""Tests of Ranker."""

import json
import subprocess
import sys

import numpy as np
import pytest

from rankloop import Impression, IncompatibleFeedback, InvalidInput, Problem, Ranker, Session, build, save
from rankloop.core.learner import from_layers, with_in_layers
from rankloop.training.clicks.weights import with_learner
from tools.saved_files import FOLDER, numbers_of_ranker

FEATURES = ["title_match", "age_days"]
CANDIDATES = {"a": {"title_match": 0.9, "age_days": 3}, "b": {"title_match": 0.2, "age_days": 1}, "c": {"age_days": 2}}


@pytest.fixture
def ranker():
    return Ranker("online_gradient", features=FEATURES, seed=0)


class Frame:
    """The part of a DataFrame that is used."""

    def __init__(self, columns, index):
        self.table, self.columns, self.index = columns, list(columns), index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, name):
        return self.table[name]


def test_five_lines(tmp_path):
    ranker = Ranker("3pr", features=["title_match", "age_days"], seed=0)
    shown = ranker.rank(CANDIDATES)
    assert sorted(shown.ids) == ["a", "b", "c"]
    ranker.learn(shown, clicks=["b"])
    ranker.save(tmp_path / "shop.rankloop")
    assert Ranker.load(tmp_path / "shop.rankloop").weights == ranker.weights


def test_all_forms_of_candidates_mean_the_same(ranker):
    rows = [[0.9, 3.0], [0.2, 1.0], [0.0, 2.0]]
    forms = [
        ranker.rank(CANDIDATES),
        ranker.rank([{"id": id, **features} for id, features in CANDIDATES.items()]),
        ranker.rank(np.array(rows), ids=["a", "b", "c"]),
        ranker.rank(Frame({"age_days": [3, 1, 2], "title_match": [0.9, 0.2, 0.0]}, ["a", "b", "c"])),
        ranker.rank(Frame({"id": ["a", "b", "c"], "age_days": [3, 1, 2], "title_match": [0.9, 0.2, 0.0]}, range(3))),
    ]
    assert [shown.features.tolist() for shown in forms] == [rows] * 5
    assert [shown.items for shown in forms] == [["a", "b", "c"]] * 5
    assert ranker.rank(np.array(rows)).items == [0, 1, 2]


def test_an_arrow_table_is_a_table(ranker):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"id": ["a", "b"], "age_days": [3, 1], "title_match": [0.9, 0.2]})
    shown = ranker.rank(table)
    assert (shown.items, shown.features.tolist()) == (["a", "b"], [[0.9, 3.0], [0.2, 1.0]])


def test_a_feature_called_id_is_not_taken_for_the_name_of_the_item():
    ranker = Ranker("online_gradient", features=["id", "age"])
    assert ranker.rank({"a": {"id": 7, "age": 1}}).features.tolist() == [[7.0, 1.0]]
    with pytest.raises(InvalidInput, match="a feature named 'id'"):
        ranker.rank([{"id": 7, "age": 1}])


def test_missing_features_are_zero_and_counted(ranker):
    assert ranker.rank(CANDIDATES).missing == 1
    assert ranker.rank({"a": {}, "b": {}}).missing == 4
    assert ranker.missing == 5


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ({"a": {"titel_match": 1}}, "'titel_match', which is not one of: title_match, age_days"),
        ({"a": {"age_days": float("nan")}}, "item 'a': age_days must be a finite number"),
        ({"a": {"age_days": "old"}}, "item 'a': age_days must be a finite number, got 'old'"),
        ({"a": {"age_days": None}}, "item 'a': age_days"),
        ({"a": {"age_days": 10**400}}, "item 'a': age_days"),
        ({}, "no items"),
        ([{"age_days": 1}], "item 0 of the list lacks its id"),
        ([{"id": "a"}, {"id": "a"}], "'a' is given twice"),
        (np.ones((2, 3)), "2 columns"),
        (np.array([[np.inf, 1.0]]), "inf at row 0, column 0"),
        ("ab", "candidates must be"),
        (None, "no items to rank"),
        ({"a": [1.0]}, "1 numbers for 2 features"),
    ],
)
def test_bad_candidates_are_refused(ranker, candidates, message):
    with pytest.raises(InvalidInput, match=message):
        ranker.rank(candidates)
    assert ranker.missing == 0


def test_shown_survives_json_and_another_process(tmp_path):
    ranker = Ranker("3pr", features=FEATURES, seed=1)
    shown = ranker.rank(CANDIDATES)
    assert Impression.from_json(shown.to_json()) == shown
    ranker.save(tmp_path / "r")
    (tmp_path / "shown.json").write_text(shown.to_json())
    script = (
        "import sys, json; from rankloop import Ranker, Impression;"
        "ranker = Ranker.load(sys.argv[1]); shown = Impression.from_json(open(sys.argv[2]).read());"
        "ranker.learn(shown, clicks=[shown.ids[1]]); print(json.dumps([shown.ids, ranker.weights]))"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path / "r"), str(tmp_path / "shown.json")]
    ids, weights = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    ranker.learn(shown, clicks=[shown.ids[1]])
    assert ids == shown.ids
    assert weights == ranker.weights


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"items": 1}', "x"])
def test_what_is_no_shown_ranking(text):
    with pytest.raises(InvalidInput, match="not the JSON of an impression"):
        Impression.from_json(text)


def test_relevances_teach(ranker):
    for _ in range(20):
        shown = ranker.rank(CANDIDATES)
        ranker.learn(shown, relevances={"b": 1, "a": 0, "c": 0})
    assert ranker.rank(CANDIDATES).ids[0] == "b"
    assert ranker.weights["age_days"] < 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, InvalidInput, "got none"),
        ({"relevances": {}, "reward": 1.0}, InvalidInput, "got relevances and reward"),
        ({"relevances": {"z": 1}}, IncompatibleFeedback, "'z', which was not among"),
        ({"relevances": {"a": 1}}, IncompatibleFeedback, "exactly the visible items"),
        ({"clicks": ["a"]}, IncompatibleFeedback, "not from Clicks"),
        ({"reward": 1.0}, IncompatibleFeedback, "not from Reward"),
        ({"preferred": ["a"]}, IncompatibleFeedback, "not from Preferred"),
    ],
)
def test_bad_feedback_changes_nothing(ranker, given, error, message):
    shown = ranker.rank(CANDIDATES)
    before = ranker.session.state
    with pytest.raises(error, match=message):
        ranker.learn(shown, **given)
    assert ranker.session.state is before


def test_a_tampered_shown_ranking_is_refused(ranker):
    shown = json.loads(ranker.rank(CANDIDATES).to_json())
    relevances = {"a": 0, "b": 1, "c": 0}
    for change in (
        {"decision": shown["decision"] | {"ranking": [0, 0, 1]}},
        {"decision": shown["decision"] | {"ranking": [0, 1]}},
        {"decision": shown["decision"] | {"receipt": {"x": 1}}},
        {"features": [[1.0, 2.0]]},
        {"features": [[1.0], [2.0], [3.0]]},
        {"features": [[1.0, None]] * 3},
        {"context": [1.0]},
    ):
        with pytest.raises((InvalidInput, IncompatibleFeedback)):
            ranker.learn(Impression.from_json(json.dumps(shown | change)), relevances=relevances)


def test_a_fixed_set_is_named_once(tmp_path):
    ranker = Ranker("random_order", items=["x", "y", "z"], depth=1)
    shown = ranker.rank()
    assert sorted(shown.ids) == ["x", "y", "z"]
    ranker.save(tmp_path / "fixed")
    assert sorted(Ranker.load(tmp_path / "fixed").rank().ids) == ["x", "y", "z"]


def test_preferred_puts_the_named_first():
    candidates = {"a": {"x": 1}, "b": {"y": 1}, "c": {"z": 1}}
    ranker = Ranker("preference_perceptron", features=["x", "y", "z"])
    assert ranker.rank(candidates).ids == ["a", "b", "c"]
    ranker.learn(ranker.rank(candidates), preferred=["c"])
    assert ranker.rank(candidates).ids[0] == "c"


def test_names_must_differ_and_weights_must_exist():
    with pytest.raises(InvalidInput, match="different names"):
        Ranker("random_order", features=["a", "a"])
    with pytest.raises(InvalidInput, match="different names"):
        Ranker("random_order", features="ab")
    with pytest.raises(InvalidInput, match="no weight per feature"):
        Ranker("random_order", features=["a"]).weights  # noqa: B018


def test_a_fixed_set_keeps_its_order_whatever_order_is_asked():
    ranker = Ranker("ftpl", items=["x", "y", "z"], seed=1)
    assert ranker.rank({"z": {}, "x": {}, "y": {}}).items == ["x", "y", "z"]
    with pytest.raises(InvalidInput, match="not the items of the fixed set"):
        ranker.rank({"x": {}, "y": {}, "other": {}})
    elsewhere = Ranker("ftpl", items=["z", "x", "y"]).rank()
    with pytest.raises(InvalidInput, match="not those of the fixed set"):
        ranker.learn(elsewhere, relevances={"x": 1, "y": 0, "z": 0})


def test_ids_of_numpy_become_plain_and_others_are_refused():
    ranker = Ranker("online_gradient", features=["a"])
    assert Impression.from_json(ranker.rank(np.ones((2, 1)), ids=np.array([5, 6])).to_json()).items == [5, 6]
    for strange in (None, 1.5, (1, 2), True):
        with pytest.raises(InvalidInput, match="ids must be strings or integers"):
            ranker.rank({strange: {"a": 1}, "b": {"a": 2}})


@pytest.mark.parametrize("row", ["ab", None, 3, [[1], 2], [True, 2], [1, "2"]])
def test_rows_that_are_no_numbers_are_refused(row):
    with pytest.raises(InvalidInput):
        Ranker("online_gradient", features=["a", "b"]).rank({"x": row})


@pytest.mark.parametrize(
    "change",
    [{"features": "x"}, {"features": [[1.0], []]}, {"features": None}, {"items": None}, {"items": ["x"]},
     {"items": [["x"], ["y"]]}, {"context": [1.0]}, {"decision": None}],
)  # fmt: skip
def test_a_shown_ranking_that_was_tampered_with_is_refused(change):
    ranker = Ranker("online_gradient", features=["a"])
    plain = json.loads(ranker.rank({"x": {"a": 1}, "y": {}}).to_json()) | change
    with pytest.raises(InvalidInput):
        ranker.learn(Impression.from_json(json.dumps(plain)), relevances={"x": 1, "y": 0})


@pytest.mark.parametrize("relevances", [["x", "y"], "xy", {"x": "a", "y": 0}, {"x": None, "y": 0}, {"x": 10**400}])
def test_grades_that_are_no_numbers_by_id_are_refused(relevances):
    ranker = Ranker("online_gradient", features=["a"])
    with pytest.raises(IncompatibleFeedback):
        ranker.learn(ranker.rank({"x": {"a": 1}, "y": {}}), relevances=relevances)


def test_it_says_what_it_is(ranker):
    ranker.learn(ranker.rank(CANDIDATES), relevances={"a": 1, "b": 0, "c": 0})
    assert repr(ranker) == "<Ranker online_gradient: 2 features, learned 1 times>"


def test_a_plain_session_of_a_fixed_set_knows_its_items_by_number(tmp_path):
    save(Session(build("top_rank", "learner"), Problem(n_features=0, n_items=2)), tmp_path / "plain.rankloop")
    ranker = Ranker.load(tmp_path / "plain.rankloop")
    assert ranker.items == [0, 1]
    with pytest.raises(InvalidInput, match="fixed set"):
        ranker.rank({"b": {}, "a": {}})


def test_what_was_missing_is_remembered(ranker, tmp_path):
    ranker.rank({"a": {}, "b": {}})
    ranker.save(tmp_path / "kept.rankloop")
    assert Ranker.load(tmp_path / "kept.rankloop").missing == ranker.missing > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("items", True),
        ("items", [[]]),
        ("items", ["a"]),
        ("context", None),
        ("missing", ""),
        ("missing", {}),
        ("outcomes", 3),
    ],
)
def test_a_file_with_other_notes_is_refused(tmp_path, name, value):
    ranker, file = Ranker("3pr", features=["a"]), tmp_path / "shop.rankloop"
    save(ranker.session, file, {"items": [], "context": [], "missing": 0} | {name: value})
    with pytest.raises(InvalidInput, match=r"shop\.rankloop|outcomes"):
        Ranker.load(file)


def test_scores_that_are_not_finite_are_named():
    ranker = Ranker({"kind": "3pr", "start": [10.0]}, features=["x"])
    with pytest.raises(InvalidInput, match="standardised"):
        ranker.rank({"a": {"x": 1e308}, "b": {"x": -1e308}})


def test_a_product_without_a_price_is_not_the_cheapest_for_a_standardised_learner() -> None:
    learner = "standardised(inner='ranking_perceptron')"
    given = {"a": {"price": 2000.0, "stars": 3.0}, "b": {"price": 1000.0, "stars": 5.0}, "c": {"stars": 1.0}}
    filled = given | {"c": {"price": 1500.0, "stars": 1.0}}
    with_gap, whole = Ranker(learner, features=["price", "stars"]), Ranker(learner, features=["price", "stars"])
    shown = with_gap.rank(given)
    assert shown.missing == 1
    np.testing.assert_array_equal(shown.features, whole.rank(filled).features)
    assert Ranker("ranking_perceptron", features=["price", "stars"]).rank(given).features[2, 0] == 0.0
    assert with_gap.rank({"a": {}, "b": {"stars": 2.0}}).features.tolist() == [[0.0, 2.0], [0.0, 2.0]]


@pytest.mark.filterwarnings("ignore:.* CPU")
def test_a_file_of_format_1_is_read_to_the_bit() -> None:
    expected = json.loads((FOLDER / "expected.json").read_text())["ranker"]
    assert json.loads(json.dumps(numbers_of_ranker(Ranker.load(FOLDER / "ranker.rankloop")))) == expected


def test_predict_is_the_best_order_without_exploration_and_changes_nothing() -> None:
    ranker = Ranker("3pr(start=[1.0, 0.0], swap=0.9)", features=["a", "b"], seed=0)
    items = {"x": {"a": 1.0}, "y": {"a": 3.0, "b": 1.0}, "z": {"a": 2.0}}
    before = ranker.session.snapshot()
    assert all(ranker.predict(items) == ["y", "z", "x"] for _ in range(10))
    assert ranker.predict(np.array([[1.0, 0.0], [3.0, 1.0]]), ids=["x", "y"]) == ["y", "x"]
    assert ranker.session.snapshot()[1:] == before[1:]
    assert ranker.missing == 0
    assert any(ranker.rank(items).ids != ["y", "z", "x"] for _ in range(50)), "rank explores"


def test_predict_uses_the_context() -> None:
    features, context = {"brand": "category"}, {"segment": "category"}
    ranker = Ranker("click_regression", features=features, context=context, crosses=["segment*brand"], seed=1)
    shoes = {"a": {"brand": "Acme"}, "b": {"brand": "Bolt"}}
    for turn in range(30):
        segment, liked = ("sport", "b") if turn % 2 else ("kids", "a")
        ranker.learn(ranker.rank(shoes, context={"segment": segment}), clicks=[liked])
    assert ranker.predict(shoes, {"segment": "sport"}) == ["b", "a"]
    assert ranker.predict(shoes, {"segment": "kids"}) == ["a", "b"]


def test_scores_are_those_of_the_explanations_in_the_order_of_predict() -> None:
    features = {"brand": "category", "price": "number", "age": {"kind": "number", "scale": "log"}, "sku": "id"}
    ranker = Ranker("click_regression", features=features, context={"segment": "category"}, crosses=["segment*brand"])
    shoes = {f"s{i}": {"brand": "AB"[i % 2], "price": 10.0 + i, "age": i} for i in range(5)}
    for _ in range(20):
        ranker.learn(ranker.rank(shoes, context={"segment": "kids"}), clicks=["s3"])
    learned = ranker.session.learned
    scores = ranker.scores(shoes, {"segment": "kids"})
    assert list(scores) == ranker.predict(shoes, {"segment": "kids"})
    assert next(iter(scores)) == "s3"
    shown = ranker.rank(shoes, context={"segment": "kids"})
    assert scores == pytest.approx({id: ranker.explain(shown, id).score for id in shoes})
    assert ranker.session.learned == learned
    plain = Ranker("3pr(start=[1.0, 0.5])", features=["a", "b"])
    assert plain.scores(np.array([[1.0, 0.0], [3.0, 1.0]]), ids=["x", "y"]) == {"y": 3.5, "x": 1.0}
    with pytest.raises(InvalidInput, match="top_rank does not order items by a weighted sum"):
        Ranker("top_rank", items=["a", "b", "c"], shown=2).scores()


PAGES = [(["a", "b", "c"], ["b"]), (["b", "c", "a"], []), (["c", "a", "b"], ["b", "c"])]


@pytest.mark.parametrize("learner", ["click_regression", "click_regression(examination=[1, 0.5], order_weight=0.1)"])
def test_a_page_of_another_system_is_learned_at_its_positions(learner):
    """Updates equal those of a decision with that ranking, draw nothing, and replay bit for bit."""
    first, second = (Ranker(learner, features=FEATURES, seed=3) for _ in range(2))
    by_hand = Ranker(learner, features=FEATURES, seed=3)
    for order, clicked in PAGES:
        for ranker in (first, second):
            ranker.learn(CANDIDATES, order=order, clicks=clicked)
        shown = Ranker(learner, features=FEATURES, seed=9).rank(CANDIDATES)
        ranking = np.array([shown.items.index(id) for id in order])
        decision = shown.decision._replace(ranking=ranking)
        by_hand.learn(Impression(items=shown.items, decision=decision, features=shown.features), clicks=clicked)
    assert first.weights == second.weights == by_hand.weights
    assert any(first.weights.values())
    assert first.rank(CANDIDATES).to_json() == second.rank(CANDIDATES).to_json()


def test_an_array_of_another_system_is_in_its_order():
    rows, order = [[0.2, 1.0], [0.9, 3.0], [0.0, 2.0]], ["b", "a", "c"]
    by_name, by_array = (Ranker("click_regression", features=FEATURES) for _ in range(2))
    by_name.learn(CANDIDATES, order=order, clicks=["a"])
    by_array.learn(np.array(rows), order=order, clicks=["a"])
    assert by_name.weights == by_array.weights


def test_click_residuals_learn_from_pages_of_another_system():
    ranker = Ranker("click_residuals", features=["a"])
    page = {"x": {"a": 1.0}, "y": {"a": 0.0}}
    for _ in range(30):
        ranker.learn(page, order=["y", "x"], clicks=["x"])
    assert ranker.predict(page) == ["x", "y"]


def test_pages_of_another_system_that_are_refused(ranker):
    shown = ranker.rank(CANDIDATES)
    for arguments, more, message in (
        ((CANDIDATES,), {}, "give order"),
        ((shown,), {"order": ["a", "b", "c"]}, "has its own order"),
        ((shown,), {"query": "q"}, "are for a page of another system"),
        ((CANDIDATES,), {"order": ["a", "b"]}, "each item of the page once"),
        ((CANDIDATES,), {"order": ["a", "b", "d"]}, "each item of the page once"),
    ):
        with pytest.raises(InvalidInput, match=message):
            ranker.learn(*arguments, relevances={"a": 1, "b": 0, "c": 0}, **more)
    with pytest.raises(InvalidInput, match="3pr learns from its own exploration"):
        Ranker("3pr", features=FEATURES).learn(CANDIDATES, order=["a", "b", "c"], clicks=["a"])


def log_of_a_good_engine(n_pages=1500, seed=0):
    """Items are shown by attraction with some noise, and clicked by a position-based model."""
    rng, attraction, rows = np.random.default_rng(seed), np.linspace(0.05, 0.6, 8), []
    for page in range(n_pages):
        order = np.argsort(-attraction - rng.normal(size=8) * 0.15)[:5]
        for position, item in enumerate(order.tolist()):
            click = int(rng.random() < attraction[item] / (1 + position))
            rows.append({"list": page, "query": "q", "item": f"i{item}", "position": position + 1, "click": click})
    return rows


def test_ingest_is_not_misled_by_the_order(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    log = pyarrow.Table.from_pylist(log_of_a_good_engine())
    first, second = (Ranker("click_regression", features={"item": "id"}, seed=1) for _ in range(2))
    assert first.ingest(log) == second.ingest(log) == 1500
    assert first.session.learned == 1500
    learner = first.session.learner.inner
    np.testing.assert_allclose(learner.examination[:3], [1, 1 / 2, 1 / 3], atol=0.12)
    assert learner.order_weight == 0.0  # its own positions are no evidence
    assert first.weights == second.weights
    order = first.predict({f"i{item}": {} for item in range(8)})
    assert np.corrcoef([int(id[1:]) for id in order], np.arange(8))[0, 1] < -0.9
    first.save(tmp_path / "shop.rankloop")
    assert Ranker.load(tmp_path / "shop.rankloop").rank({"i1": {}, "i2": {}}, at=0.0) == first.rank(
        {"i1": {}, "i2": {}}, at=0.0
    )


def test_a_log_with_a_base_learns_offsets_and_lists_of_rows_are_read():
    log = log_of_a_good_engine(300)
    features = {"item": "id", "logged_score": {"kind": "number", "scale": "log"}}
    ranker = Ranker("click_regression", features=features, base="logged_score")
    assert ranker.ingest(log) == 300
    assert from_layers(ranker.session.learner, "examination") == ()
    offsets = from_layers(ranker.session.state, "offsets")
    assert (offsets[:5] != -2.0).all()


def test_a_second_log_counts_like_the_first():
    """Positions of both are evidence, and the examination stays that of the first."""
    log = log_of_a_good_engine(400)
    parts = [[row for row in log if (row["list"] < 200) == first] for first in (True, False)]
    twice, own_weight = (Ranker("click_regression", features={"item": "id"}) for _ in range(2))
    twice.ingest(parts[0])
    own_weight.ingest(parts[0])
    learner = with_in_layers(own_weight.session.learner, "order_weight", 0.3)
    own_weight.session = with_learner(own_weight.session, learner)
    twice.ingest(parts[1])
    own_weight.ingest(parts[1])
    assert twice.weights == own_weight.weights


def test_ingestion_continues_from_the_offsets_that_were_learned():
    """The intercept begins at the log odds of the first position: at 0, items that were never shown would be first."""
    ranker, rng = Ranker("click_regression", features={"item": "id"}, seed=1), np.random.default_rng(1)
    for _ in range(200):
        shown = ranker.rank(ids=[f"i{item}" for item in range(8)])
        ranker.learn(shown, clicks=[id for id in shown.ids[:3] if rng.random() < 0.05])
    before = from_layers(ranker.session.state, "offsets")[0]
    ranker.ingest(log_of_a_good_engine(20))
    assert abs(from_layers(ranker.session.state, "intercept") - before) < 1.0
    assert before < -1.5


def test_items_with_nothing_but_ids_need_no_rows():
    by_ids, by_rows = (Ranker("click_regression", features={"item": "id"}) for _ in range(2))
    by_ids.learn(order=["a", "b"], clicks=["b"], at=0.0)
    by_rows.learn({"a": {}, "b": {}}, order=["a", "b"], clicks=["b"], at=0.0)
    assert by_ids.predict(ids=["a", "b"], at=0.0) == ["b", "a"]
    assert by_ids.weights == by_rows.weights
