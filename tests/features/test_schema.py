"""Schemas: what they refuse, how they travel, and how they evolve without losing their slots."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.features import Schema
from rankloop.features.kinds import Number, Vector
from rankloop.features.schema import DEFAULT_BITS, MAX_CROSSES, MAX_DENSE, MAX_FIELDS

LOG = {"kind": "number", "scale": "log", "mean": 2.0}
SHOP = Schema(
    {
        "price": "number",
        "age": LOG,
        "brand": "category",
        "title": {"kind": "words", "bigrams": True},
        "v": "vector(size=3)",
    },
    {"segment": "category", "query": "words"},
    ["segment * brand", "query*title*brand"],
    12,
)


def test_what_it_says():
    assert SHOP.crosses == ("segment*brand", "query*title*brand")
    assert SHOP.n_hashed == 2**12
    assert SHOP.slots == {"age": 0, "v": 1}
    assert SHOP.n_dense == 4
    assert SHOP.problem(shown=10) == (2**12 + 4, None, 0, 10, None, 1, (), 2**12)
    assert SHOP.features["age"] == Number(scale="log", mean=2.0)
    assert SHOP.version == 1
    assert Schema({"a": "flag"}).bits == DEFAULT_BITS


TOO_LONG = 10**5000
REFUSED = {
    "unknown kind": (lambda: Schema({"a": "numbr"}), "features 'a': no field 'numbr'; did you mean 'number'"),
    "unknown parameter": (
        lambda: Schema({"a": {"kind": "number", "men": 1.0}}),
        "no parameter 'men'; did you mean 'mean'",
    ),
    "wrong parameter": (lambda: Schema({"a": {"kind": "number", "mean": "x"}}), "mean must be a number"),
    "another category": (lambda: Schema({"a": "3pr"}), "no field '3pr'"),
    "no kind": (lambda: Schema({"a": 7}), "features 'a': a spec must be a dict"),
    "null": (lambda: Schema({"a": None}), "features 'a': a spec must be a dict"),
    "a vector without size": (lambda: Schema({"a": "vector"}), "size"),
    "not a table": (lambda: Schema([("a", "number")]), "features are a table of kinds by name"),
    "a text": (lambda: Schema("a"), "features are a table"),
    "no features": (lambda: Schema({}), "at least one feature"),
    "a number as name": (lambda: Schema({7: "number"}), "names are texts, got 7"),
    "no name": (lambda: Schema({"": "number"}), "is not a name of a field"),
    "a long name": (lambda: Schema({"x" * 129: "number"}), "is not a name of a field"),
    "a star": (lambda: Schema({"a*b": "number"}), "is not a name of a field"),
    "a separator": (lambda: Schema({"a\x1fb": "number"}), "is not a name of a field"),
    "unpaired surrogate": (lambda: Schema({"a\ud800": "number"}), "is not a name of a field"),
    "space": (lambda: Schema({" a": "number"}), "is not a name of a field"),
    "two of one name": (
        lambda: Schema({"a": "number"}, {"a": "number"}, ["a*a"]),
        "'a' is a feature and a context field",
    ),
    "a vector of the context": (lambda: Schema({"a": "flag"}, {"v": "vector(size=2)"}, ["a*v"]), "use a plain number"),
    "a scale of the context": (lambda: Schema({"a": "flag"}, {"n": LOG}, ["a*n"]), "use a plain number"),
    "an idle context": (lambda: Schema({"a": "flag"}, {"c": "flag"}), r"crosses = \['c\*a'\]"),
    "an undeclared field": (
        lambda: Schema({"brand": "flag"}, crosses=["brand*brnd"]),
        "unknown field 'brnd'; did you mean",
    ),
    "one field": (lambda: Schema({"a": "flag"}, crosses=["a"]), "two or three different fields"),
    "twice in a cross": (lambda: Schema({"a": "flag"}, crosses=["a*a"]), "two or three different fields"),
    "four fields": (lambda: Schema(dict.fromkeys("abcd", "flag"), crosses=["a*b*c*d"]), "two or three different"),
    "a cross twice": (lambda: Schema(dict.fromkeys("ab", "flag"), crosses=["a*b", "b * a"]), "is given twice"),
    "a crossed vector": (lambda: Schema({"a": "flag", "v": "vector(size=2)"}, crosses=["a*v"]), "cannot be crossed"),
    "context only": (lambda: Schema({"a": "flag"}, dict.fromkeys("cd", "flag"), ["c*d"]), "no field of the items"),
    "crosses as a text": (lambda: Schema({"a": "flag"}, crosses="a*b"), "a list of texts"),
    "crosses as a number": (lambda: Schema({"a": "flag"}, crosses=5), "a list of texts"),
    "a cross as a number": (lambda: Schema({"a": "flag"}, crosses=[5]), "a list of texts"),
    "too few bits": (lambda: Schema({"a": "flag"}, bits=3), "bits must be from 4 to 26, got 3"),
    "too many bits": (lambda: Schema({"a": "flag"}, bits=27), "bits must be from 4 to 26"),
    "very many bits": (lambda: Schema({"a": "flag"}, bits=TOO_LONG), "bits must be from 4 to 26"),
    "half a bit": (lambda: Schema({"a": "flag"}, bits=4.5), "bits must be"),
    "true bits": (lambda: Schema({"a": "flag"}, bits=True), "bits must be"),
    "version 0": (lambda: Schema({"a": "flag"}, version=0), "version is a whole number from 1"),
    "many fields": (lambda: Schema({str(i): "flag" for i in range(MAX_FIELDS + 1)}), "10001 fields; at most"),
    "many crosses": (lambda: Schema(dict.fromkeys("ab", "flag"), crosses=["a*b"] * (MAX_CROSSES + 1)), "1001 crosses"),
    "many numbers": (lambda: Schema({str(i): "vector(size=4096)" for i in range(25)}), "102400 numbers"),
    "slots as a list": (lambda: Schema({"a": LOG}, slots=[0]), "slots are numbered by the schema itself"),
    "a slot of nobody": (lambda: Schema({"a": LOG}, slots={"b": 0}), "slots: 'b' cannot begin at 0"),
    "a slot below": (lambda: Schema({"a": LOG}, slots={"a": -1}), "slots: 'a' cannot begin at -1"),
    "a slot beyond": (lambda: Schema({"a": LOG}, slots={"a": MAX_DENSE}), "cannot begin"),
    "a slot far beyond": (lambda: Schema({"a": LOG}, slots={"a": TOO_LONG}), "cannot begin"),
    "a true slot": (lambda: Schema({"a": LOG}, slots={"a": True}), "cannot begin"),
    "slots that overlap": (
        lambda: Schema({"a": LOG, "v": "vector(size=3)"}, slots={"v": 0, "a": 2}),
        "'a' cannot begin at 2",
    ),
    "no schema": (lambda: Schema.from_plain(3), "a schema is a table with features"),
    "an unknown part": (lambda: Schema.from_plain({"fetures": {}}), "no part 'fetures'; did you mean 'features'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(InvalidInput, match=message):
        make()


def test_plain_tables_and_toml(tmp_path):
    evolved = SHOP.evolved(features={"new": "flag", "w": "vector(size=2)"}, remove=["age", "query"])
    for schema in (SHOP, evolved, Schema({"a": "flag"})):
        assert Schema.from_plain(schema.to_plain()) == schema
        assert Schema.from_plain(json.loads(json.dumps(schema.to_plain()))) == schema
        assert list(Schema.from_plain(schema.to_plain()).features) == list(schema.features), "the order counts"
    path = tmp_path / "shop.toml"
    path.write_text(SHOP.to_toml(), encoding="utf-8")
    assert Schema.from_toml(path) == SHOP
    assert SHOP.to_plain()["features"]["price"] == "number", "as short as it can be"
    with pytest.raises(NotFound):
        Schema.from_toml(tmp_path / "none.toml")
    for content in (b"\xff", b"a = ", b"bits = 99", b"features = 3"):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"shop\.toml"):
            Schema.from_toml(path)


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.sampled_from(["flag", "words", "vector(size=2)"]), min_size=1)
)
def test_any_name_survives_toml(features):
    try:
        schema = Schema(features)
    except InvalidInput:
        return
    assert Schema.from_plain(tomllib.loads(schema.to_toml())) == schema
    assert Schema.from_plain(json.loads(json.dumps(schema.to_plain()))) == schema


def test_slots_are_never_given_away():
    second = SHOP.evolved(features={"new": "flag", "w": "vector(size=2)"}, remove=["age"])
    assert (second.version, second.slots, second.n_dense) == (2, {"age": 0, "v": 1, "w": 4}, 6)
    assert second.retired == {"age": Number(scale="log", mean=2.0)}
    third = second.evolved(features={"z": LOG}, remove=["w", "v"])
    assert (third.slots, third.n_dense) == ({"age": 0, "v": 1, "w": 4, "z": 6}, 7)
    fourth = third.evolved(features={"v": {"kind": "vector", "size": 3}, "age": LOG})
    assert (fourth.version, fourth.slots, fourth.n_dense) == (4, third.slots, 7)
    assert fourth.features["v"] == Vector(size=3)
    assert list(fourth.retired) == ["w"]
    assert fourth.n_hashed == SHOP.n_hashed


def test_crosses_evolve():
    second = SHOP.evolved(features={"new": "flag"}, crosses=["new*segment"], remove=["brand*segment"])
    assert second.crosses == ("query*title*brand", "new*segment")
    third = second.evolved(remove=["brand", "query"])
    assert third.crosses == ("new*segment",)
    assert list(third.context) == ["segment"]
    assert list(third.retired) == ["brand", "query"] or set(third.retired) == {"brand", "query"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "nothing is added or removed"),
        ({"features": {"price": "words"}}, "there is a field 'price' already"),
        ({"features": {"price": "number"}}, "there is a field 'price' already"),
        ({"features": {"segment": "words"}}, "there is a field 'segment' already"),
        (
            {"features": {"price": "words"}, "remove": ["price"]},
            "'price' was a number before; another kind needs another name",
        ),
        ({"features": {"age": "number"}, "remove": ["age"]}, "'age' was a number before"),
        ({"features": {"price": "number"}, "remove": ["price"]}, "nothing is added or removed"),
        ({"remove": ["colour"]}, "no field or cross 'colour' to remove"),
        ({"remove": ["segment*title"]}, "no field or cross 'segment"),
        ({"remove": ["brand*segment"]}, "context field 'segment' is in no cross"),
        ({"remove": ["price", "age", "brand", "title", "v", "segment", "query"]}, "at least one feature"),
        ({"remove": "price"}, "a list of texts"),
        ({"features": ["a"]}, "features are a table"),
        ({"context": 5}, "context are a table"),
        ({"context": {"device": "flag"}}, "context field 'device' is in no cross"),
        ({"crosses": ["brand*segment"]}, "is given twice"),
        (
            {"features": {"x": "vector(size=4096)"} | {f"x{i}": "vector(size=4096)" for i in range(24)}},
            "numbers in vectors",
        ),
    ],
)
def test_changes_that_are_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        SHOP.evolved(**changes)


def test_a_kind_is_kept_for_ever():
    away = SHOP.evolved(remove=["age"])
    with pytest.raises(InvalidInput, match="'age' was a number before"):
        away.evolved(features={"age": "words"})
    with pytest.raises(InvalidInput, match="'age' was a number before"):
        away.evolved(features={"age": "number"})
    assert away.evolved(features={"age": LOG}).features["age"] == SHOP.features["age"]
    with pytest.raises(InvalidInput, match="'age' was a number before"):
        Schema.from_plain(away.to_plain()).evolved(features={"age": "words"})
