"""Files of boosters: what they score by name, and that a file which is none never reaches a library."""

import random

import numpy as np
import pytest

from rankloop import InvalidInput
from rankloop.data.dataset import Dataset
from rankloop.training.trees import TreeSettings, fit_trees
from rankloop.training.trees.booster_file import NamedBooster, check_booster

lightgbm = pytest.importorskip("lightgbm")
NAMES = ["price now", "rating", "age"]
RNG = np.random.default_rng(5)
ROWS, GRADES = RNG.random((120, 3)), RNG.integers(0, 3, 120)


@pytest.fixture(scope="module")
def booster():
    table = lightgbm.Dataset(ROWS, GRADES, group=[10] * 12, feature_name=NAMES)
    options = {"objective": "lambdarank", "verbosity": -1, "num_leaves": 5, "min_data_in_leaf": 3, "num_threads": 1}
    return lightgbm.train(options, table, 4)


@pytest.fixture(scope="module")
def text(booster):
    return booster.model_to_string()


def test_features_are_found_by_name_and_missing_ones_are_missing(booster, text):
    """A ranker with more features, in another order; NaN goes to the booster as LightGBM itself takes it."""
    named = NamedBooster(text.encode(), ["stock", "age", "rating", "price now"])
    rows = ROWS[:6].copy()
    rows[2, 1] = np.nan
    given = np.column_stack([np.ones(6), rows[:, 2], rows[:, 1], rows[:, 0]])
    assert named.feature_names == tuple(NAMES)
    assert np.array_equal(named.scores(given, "q"), booster.predict(rows))
    values = [dict(zip(NAMES, row)) | {"brand": "x"} for row in rows.tolist()]
    del values[2]["rating"]
    assert np.array_equal(named.scores_of_values(values, "q"), booster.predict(rows))


def test_what_train_writes_keeps_names_and_folds(tmp_path):
    ids = [f"q{i}" for i in range(12)]
    settings = TreeSettings(n_trees=3, n_leaves=4, options={"min_data_in_leaf": 3})
    data = Dataset.of(ROWS, GRADES.astype(float), 10 * np.arange(13), ids)
    trees = fit_trees(data, n_folds=2, settings=settings, names=NAMES)
    trees.save(tmp_path / "trees.json")
    named = NamedBooster((tmp_path / "trees.json").read_bytes(), [*NAMES[::-1], "more"])
    assert (named.hash, named.feature_names) == (trees.hash, tuple(NAMES))
    rows = np.column_stack([ROWS[:10, ::-1], np.zeros(10)])
    for query in ("q0", "new"):
        assert np.array_equal(named.scores(rows, query), trees.scores(ROWS[:10], query))


def test_a_booster_without_names_takes_features_as_they_stand():
    table = lightgbm.Dataset(ROWS, GRADES, group=[10] * 12)
    one = lightgbm.train({"objective": "lambdarank", "verbosity": -1, "min_data_in_leaf": 3}, table, 2)
    content = one.model_to_string().encode()
    check_booster(content)
    assert np.array_equal(NamedBooster(content, "abc").scores(ROWS[:4], ""), one.predict(ROWS[:4]))
    with pytest.raises(InvalidInput, match="3 features without names, and the ranker has 2: a, b"):
        _ = NamedBooster(content, "ab").feature_names


def test_a_feature_that_the_ranker_lacks_is_named(text):
    with pytest.raises(InvalidInput, match="needs the feature 'rating', which the ranker lacks"):
        _ = NamedBooster(text.encode(), ["price now", "age"]).feature_names


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_leaves=5", "num_leaves=2000000000", "not a count|numbers are needed"),
        ("left_child=", "left_child=7 ", "numbers are needed"),
        ("max_feature_idx=2", "max_feature_idx=1", "names 3 of 2 features"),
        ("num_class=1", "num_class=3", "3 numbers per item"),
        ("end of trees", "the end", "ends before the trees do"),
        ("is_linear=0", "is_linear=1", "linear leaves"),
        ("leaf_value=", "leaf_value=nan ", "numbers are needed|no finite number"),
        ("tree\n", "tree\r\n", "line ends of Windows"),
    ],
)
def test_a_damaged_text_is_refused(text, old, new, message):
    assert old in text
    with pytest.raises(InvalidInput, match=message):
        check_booster(text.replace(old, new).encode())


def test_children_that_lead_round_or_out_are_refused(text):
    """Each child of the first tree replaced by each wrong number, which a library would follow."""
    head, rest = text.split("\nTree=0\n")
    lines = rest.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("left_child="))
    children = lines[at].removeprefix("left_child=").split()
    for number in range(len(children)):
        for wrong in ("0", str(len(children)), "-99", "1.5"):
            changed = [*children[:number], wrong, *children[number + 1 :]]
            broken = [*lines[:at], f"left_child={' '.join(changed)}", *lines[at + 1 :]]
            with pytest.raises(InvalidInput):
                check_booster((head + "\nTree=0\n" + "\n".join(broken)).encode())


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 50, b"{", b"[]", b"{}", b"[" * 100_000, b'{"tree_info": []}',
                                     b'{"boosters": ["x"]}', b'{"learner": {}}'])  # fmt: skip
def test_what_is_no_booster_is_refused(content):
    with pytest.raises(InvalidInput, match=r"booster|trees|model"):
        check_booster(content)


def test_random_damage_is_refused_or_harmless(text):
    """Cut, and bytes exchanged: either it is said to be none, or it scores."""
    draw = random.Random(3)
    for _ in range(40):
        content = bytearray(text.encode()[: draw.randrange(len(text))] if draw.random() < 0.3 else text.encode())
        for _ in range(draw.randrange(1, 4)):
            content[draw.randrange(len(content))] = draw.choice(b"0123456789-. {}[]\n=")
        try:
            check_booster(bytes(content))
            scores = NamedBooster(bytes(content), NAMES).scores(ROWS[:5], "")
        except InvalidInput:
            continue
        assert np.isfinite(scores).all()
