"""Values at the front door: what is refused harms nothing, and a live schema keeps what was learned."""

import copy
import json
import math

import numpy as np
import pytest

from rankloop import InvalidInput, Ranker
from rankloop.adapter import RawValues
from rankloop.core.learner import from_layers
from rankloop.features import Schema
from rankloop.impression import Impression

FEATURES = {
    "price": "number",
    "size": {"kind": "number", "scale": "log"},
    "brand": "category",
    "title": "words",
    "sku": "id",
    "new": "flag",
    "added": "date",
    "look": "vector(size=2)",
}
CONTEXT = {"segment": "category", "query": "words"}
CROSSES = ["segment*brand", "query*title", "segment*sku"]
ITEMS = {
    "a": {"price": 19.99, "brand": "Acme", "title": "Red shoes", "new": True, "added": "2026-11-01", "look": [1, 2]},
    "b": {"price": 5, "size": 42, "brand": ["Bolt", "Acme"], "title": "Socks"},
    "c": {"title": "Red socks"},
    4: {"brand": "Cord", "sku": "another"},
}
ASKED = {"segment": "sport", "query": "red"}
NOW = 1_794_700_000.0
TOO_LONG = 10**5000


def made(learner="click_regression", **changes):
    return Ranker(learner, features=Schema(FEATURES, CONTEXT, CROSSES, 12), seed=3, **changes)


def trained(ranker, rounds=6):
    for t in range(rounds):
        shown = ranker.rank(ITEMS, context=ASKED, at=NOW)
        ranker.learn(shown, clicks=[shown.ids[t % 3]])
    return ranker


def state_of(ranker):
    state, generator, learned, refused = ranker.session.snapshot()
    return state.table.digest(), generator, learned, refused, ranker.missing, len(ranker._recent)


VALUES = {
    "unknown field": ("colour", "red", "field 'colour', which is not in the schema"),
    "nearly a field": ("prise", 3, "did you mean 'price'"),
    "text for a number": ("price", "19.99", "price must be a number, got '19.99'"),
    "text for a scale": ("size", "42", "size must be a number"),
    "empty text for a number": ("price", "", "price must be a number, got ''"),
    "list for a number": ("price", [1], "price must be a number"),
    "nan": ("price", math.nan, "price must be a finite number, got nan"),
    "nan on a scale": ("size", math.nan, "size must be a finite number"),
    "infinity": ("price", -math.inf, "price must be a finite number, got -inf"),
    "nan as a category": ("brand", math.nan, "brand must be a text or a finite number"),
    "huge number": ("price", 10**400, "price a number beyond 1e308"),
    "huge id": ("sku", 10**1000, "sku a number of more than 1000 digits"),
    "very huge id": ("sku", TOO_LONG, "sku a number of more than 1000 digits"),
    "number for words": ("title", 3, "title must be a text of words, got 3"),
    "list for words": ("title", ["a"], "title must be a text of words"),
    "a million characters": ("title", "x" * 10**6, "title a text of 1000000 characters"),
    "a long category": ("brand", "x" * 10**6, "brand a text of 1000000 characters"),
    "ten thousand categories": ("brand", [str(i) for i in range(10_000)], "brand a list of 10000 categories"),
    "too many words": (
        "title",
        " ".join(f"w{i}" for i in range(11_000)),
        "columns, more than 10000: shorten its texts",
    ),
    "table for a category": ("brand", {"x": 1}, "brand must be a text or a number"),
    "list in a list": ("brand", [["x"]], "brand must be a text or a number"),
    "list in a tuple": ("brand", (["x"],), "brand must be a text or a number"),
    "bytes": ("brand", b"x", "brand must be a text or a number"),
    "half a character": ("brand", "\ud800", "brand '.ud800' has an unpaired surrogate"),
    "half a word": ("title", "red \udc00", "title .* has an unpaired surrogate"),
    "half an id": ("sku", "\ud800", "sku .* has an unpaired surrogate"),
    "two for a flag": ("new", 2, "new must be true or false"),
    "an array for a flag": ("new", np.array([0, 1]), "new must be true or false"),
    "no date": ("added", "soon", "added must be a date"),
    "milliseconds": ("added", 1.7e15, "added .* milliseconds"),
    "short vector": ("look", [1], "look must be 2 numbers, got 1"),
    "text in a vector": ("look", [1, "2"], "look must be numbers"),
    "nan in a vector": ("look", [1, math.nan], "look every number must be finite"),
    "huge number in a vector": ("look", [1, TOO_LONG], "look must be numbers"),
    "no base64": ("look", "??", "look must be numbers, or the base64"),
}


@pytest.mark.parametrize("case", VALUES)
@pytest.mark.parametrize("known", [False, True], ids=["fresh", "known"])
def test_a_refused_value_harms_nothing(case, known):
    """Named are the item and the field; state, draws and the next ranking are as if nothing had been asked."""
    name, value, message = VALUES[case]
    ranker, untouched = trained(made()), trained(made())
    before = state_of(ranker)
    item = "b" if known else "new item"
    hostile = copy.deepcopy(ITEMS) | {item: {**ITEMS["b"], name: value}}
    for _ in range(2):
        with pytest.raises(InvalidInput, match=message) as caught:
            ranker.rank(hostile, context=ASKED, at=NOW)
        assert f"item '{item}'" in str(caught.value)
        assert len(str(caught.value)) < 500
    assert state_of(ranker) == before
    for _ in range(2):
        assert ranker.rank(ITEMS, context=ASKED, at=NOW) == untouched.rank(ITEMS, context=ASKED, at=NOW)
    assert state_of(trained(ranker, 3)) == state_of(trained(untouched, 3))


CONTEXTS = {
    "unknown field": ({"segmet": "x"}, "segmet.*did you mean 'segment'"),
    "wrong type": ({"query": 3}, "query must be a text of words"),
    "nan": ({"segment": math.nan}, "segment must be a text or a finite number"),
    "long": ({"query": "x" * 10**6}, "query a text of 1000000 characters"),
    "a list of names": (["sport"], "must be values by name"),
    "a text": ("sport", "must be values by name"),
}


@pytest.mark.parametrize("case", CONTEXTS)
def test_a_refused_context_harms_nothing(case):
    context, message = CONTEXTS[case]
    ranker, untouched = trained(made()), trained(made())
    before = state_of(ranker)
    with pytest.raises(InvalidInput, match=f"context.*{message}"):
        ranker.rank(ITEMS, context=context, at=NOW)
    assert state_of(ranker) == before
    assert ranker.rank(ITEMS, context=ASKED, at=NOW) == untouched.rank(ITEMS, context=ASKED, at=NOW)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ({"a": 3}, "item 'a' must be a table of values by name"),
        ({"a": [1, 2]}, "item 'a' must be a table"),
        ({"a": None}, "item 'a' must be a table"),
        ({}, "no items to rank"),
        ([{"price": 3}], "lacks its id"),
        ([{"id": "a"}, {"id": "a"}], "given twice"),
        ({("a",): {}}, "ids must be strings or integers"),
        ({1.5: {}}, "ids must be strings or integers"),
        (3, "candidates must be"),
        ("abc", "candidates must be"),
        ({"\ud800": {}}, "has an unpaired surrogate"),  # the id is a value of the field sku
        ({"x" * 2000: {}}, "a text of 2000 characters"),
        ({TOO_LONG: {}}, "more than 1000 digits"),
        ({"a": {3: 4}}, "field 3, which is not in the schema"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused_candidates(candidates, message):
    ranker = trained(made())
    before = state_of(ranker)
    with pytest.raises(InvalidInput, match=message):
        ranker.rank(candidates, at=NOW)
    assert state_of(ranker) == before


def test_values_that_mean_the_same():
    """Texts of the same normal form, true and 1, lists and single values: the same ranking and the same state."""
    other = copy.deepcopy(ITEMS)
    other["a"] |= {"brand": " Acme ", "title": "RED\tshoes!", "new": 1, "look": np.array([1.0, 2.0])}
    other["b"] |= {"price": 5.0, "brand": ("Bolt", "Acme"), "sku": "b"}
    other["c"] |= {"price": None, "brand": ""}
    one, two = made(), made()
    for _ in range(5):
        first, second = one.rank(ITEMS, context=ASKED, at=NOW), two.rank(other, context=ASKED, at=NOW)
        assert first.ids == second.ids
        for ranker, shown in ((one, first), (two, second)):
            ranker.learn(shown, clicks=shown.ids[1:2])
    assert state_of(one)[0] == state_of(two)[0]


def test_booleans_are_numbers_and_unknown_moments_are_refused():
    ranker = made()
    assert ranker.rank({"a": {"price": True}, "b": {"price": 1}}, at=NOW)
    for at in (math.nan, math.inf, "now", 1e300):
        with pytest.raises(InvalidInput, match="at is when"):
            ranker.rank(ITEMS, at=at)


def test_an_impression_is_a_value():
    """Whoever asked may change their tables: what was shown stays as it was, also in JSON."""
    items, asked = copy.deepcopy(ITEMS), dict(ASKED)
    ranker = made()
    shown = ranker.rank(items, context=asked, at=NOW)
    before = shown.to_json()
    items["a"]["price"] = 1e9
    items["b"].clear()
    asked["segment"] = "other"
    assert shown.to_json() == before
    other = made()
    other.rank(ITEMS, context=ASKED, at=NOW)
    ranker.learn(shown, clicks=["a"])
    other.learn(Impression.from_json(before), clicks=["a"])
    assert state_of(ranker)[0] == state_of(other)[0]


@pytest.mark.parametrize(
    "change",
    [
        {"encoded": {"features": []}},
        {"encoded": [1]},
        {"values": {"rows": 3, "context": {}, "at": 0, "schema": 1}},
        {"values": {"rows": [{}], "context": {}, "at": 0, "schema": 1}},
        {"values": {"rows": [{}] * 4, "context": {}, "at": 0, "schema": 9}},
        {"values": {"rows": [{}] * 4, "context": {}, "at": math.inf, "schema": 1}},
        {"values": {"rows": [{"price": "x"}] * 4, "context": {}, "at": 0, "schema": 1}},
        {"values": {"rows": [{}] * 4, "context": {"query": 3}, "at": 0, "schema": 1}},
        {"values": None},
        {"values": 3},
    ],
)
def test_a_forged_impression_is_refused(change):
    ranker = trained(made())
    shown = json.loads(ranker.rank(ITEMS, context=ASKED, at=NOW).to_json())
    before = state_of(ranker)
    with pytest.raises(InvalidInput):
        ranker.learn(Impression.from_json(json.dumps(shown | change)), clicks=["a"])
    assert state_of(ranker) == before


# --- evolution


def test_late_feedback_is_learned_as_if_nothing_had_evolved(tmp_path):
    """In this process, through JSON, and after a file: on the old columns the very same numbers."""
    changes = {
        "features": {"stars": {"kind": "number", "scale": "linear"}, "tags": "category"},
        "remove": ["look", "title"],
    }
    for way in ("here", "json", "file"):
        plain, evolving = trained(made()), trained(made())
        shown = [ranker.rank(ITEMS, context=ASKED, at=NOW) for ranker in (plain, evolving)]
        assert shown[0] == shown[1]
        evolving.evolve(crosses=["query*brand"], **changes)
        old_columns = np.arange(plain.session.problem.n_features)
        late = shown[1] if way == "here" else Impression.from_json(shown[1].to_json())
        if way == "file":
            evolving.save(tmp_path / "evolved")
            evolving = Ranker.load(tmp_path / "evolved")
            assert sorted(evolving.encoders) == [1, 2]
        plain.learn(shown[0], clicks=["b"])
        evolving.learn(late, clicks=["b"])
        table, plain_table = (from_layers(each.session.state, "table") for each in (evolving, plain))
        assert table.at(old_columns).tolist() == plain_table.at(old_columns).tolist()
        assert table.at(np.array([table.n_columns - 1])).tolist() == [[0.0, 0.0]], "new begins at 0"
        with pytest.raises(InvalidInput, match="'title', which is not in the schema"):
            evolving.rank(ITEMS, context=ASKED, at=NOW)
        with pytest.raises(InvalidInput, match="version 2 of a schema, which this ranker never had"):
            plain.learn(evolving_shown(evolving), clicks=["a"])


def evolving_shown(ranker):
    return Impression.from_json(ranker.rank({"a": {"stars": 3}, "b": {}}, at=NOW).to_json())


def test_what_was_removed_comes_back_with_its_weights():
    ranker = trained(made(), 20)
    shown = ranker.rank(ITEMS, context=ASKED, at=NOW)
    before = {id: ranker.explain(shown, id) for id in shown.items}
    removed = ["look", "brand", "size"]
    ranker.evolve(remove=removed)
    less = {id: {name: value for name, value in row.items() if name not in removed} for id, row in ITEMS.items()}
    names = {part.name for part in ranker.explain(ranker.rank(less, context=ASKED, at=NOW), "a").contributions}
    assert not any(name.startswith(("look", "brand", "segment = sport × brand", "size")) for name in names)
    ranker.evolve(features={name: FEATURES[name] for name in removed}, crosses=["brand*segment"])
    again = ranker.rank(ITEMS, context=ASKED, at=NOW)
    for id in shown.items:
        after = ranker.explain(again, id)
        assert after.score == pytest.approx(before[id].score, abs=1e-12)
        assert {part.weight for part in after.contributions} == {part.weight for part in before[id].contributions}


def test_an_evolved_ranker_is_saved_in_the_middle(tmp_path):
    ranker = trained(made("fair_pairs"))
    ranker.evolve(features={"stars": "number"}, remove=["added"])
    less = {id: {name: value for name, value in row.items() if name != "added"} for id, row in ITEMS.items()}
    shown = ranker.rank(less, context=ASKED, at=NOW)
    ranker.save(tmp_path / "ranker")
    loaded = Ranker.load(tmp_path / "ranker")
    assert loaded.schema == ranker.schema
    for one in (ranker, loaded):
        one.learn(Impression.from_json(shown.to_json()), clicks=["c"])
        one.evolve(features={"added": "date", "w": "vector(size=3)"})
    assert state_of(loaded)[:4] == state_of(ranker)[:4]
    assert loaded.rank(ITEMS, context=ASKED, at=NOW) == ranker.rank(ITEMS, context=ASKED, at=NOW)


def test_a_refused_evolution_changes_nothing():
    ranker, untouched = trained(made()), trained(made())
    before = state_of(ranker)
    for changes in (
        {},
        {"remove": ["nothing"]},
        {"features": {"price": "words"}},
        {"crosses": ["a*b"]},
        {"context": {"x": "flag"}},
    ):
        with pytest.raises(InvalidInput):
            ranker.evolve(**changes)
    assert ranker.schema == untouched.schema
    assert state_of(ranker) == before
    with pytest.raises(InvalidInput, match="this ranker has no schema"):
        Ranker("pdgd", features=["x"]).evolve(features={"a": "flag"})


def test_raw_values_are_kept_as_they_came():
    shown = made().rank(ITEMS, context=ASKED, at=NOW)
    assert shown.values == RawValues(list(ITEMS.values()), ASKED, NOW, 1)
    assert isinstance(made().schema, Schema)
