"""Tests of the registry of kinds and specs."""

import dataclasses
from dataclasses import dataclass
from time import process_time
from typing import Literal

import numpy as np
import pytest

import rankloop
from rankloop import Conflict, InvalidInput, NotFound, build, register, spec_of
from rankloop.core import registry
from rankloop.core.protocols import FeedbackModel
from rankloop.core.registry import catalogue, categories, entries, entry_of
from rankloop.core.registry.specs import nearest, parse_spec
from tests.registry_entries import unregister


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """People who give back what they see."""

    share: float = 0.5
    mode: Literal["fast", "slow"] = "fast"
    steps: tuple[int, ...] = ()
    mixed: float | Literal["dynamic"] = 1.0
    inner: FeedbackModel | None = None
    shown: int | None = None
    depth: int | None = None

    def __post_init__(self):
        if self.share > 1:
            raise InvalidInput("share is at most 1")

    def observe(self, ranking, relevance, rng):
        raise InvalidInput("only built, never asked")


@pytest.fixture(autouse=True)
def mirror():
    register("mirror")(Mirror)
    yield
    unregister("mirror", "feedback")


def test_the_category_follows_from_the_methods():
    assert entry_of(Mirror).category == "feedback"
    assert entry_of(Mirror).summary == "People who give back what they see."


def test_ints_become_floats_lists_tuples_and_tables_things():
    built = build({"kind": "mirror", "share": 1, "steps": [1, 2], "mixed": 0, "inner": {"kind": "mirror", "shown": 3}})
    assert type(built.share) is float
    assert type(built.mixed) is float
    assert built.steps == (1, 2)
    assert built.inner == Mirror(shown=3)
    assert build(built) is built


def test_the_constructor_converts_too():
    assert type(Mirror(share=1).share) is float
    assert type(Mirror(share=np.float64(0.5)).share) is float
    assert type(Mirror(shown=np.int64(3)).shown) is int
    assert Mirror(inner="mirror").inner == Mirror()
    assert type(dataclasses.replace(Mirror(), share=0).share) is float


def test_build_and_spec_are_inverse():
    thing = Mirror(share=0.25, steps=(3,), inner=Mirror(mode="slow"), mixed="dynamic")
    assert build(spec_of(thing)) == thing
    assert spec_of(build(spec_of(thing))) == spec_of(thing)
    assert "depth" not in spec_of(thing)  # None is not written


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.category}-{entry.kind}")
def test_whatever_needs_no_parameters_goes_through_its_spec(entry):
    required = [f for f in dataclasses.fields(entry.cls) if f.default is f.default_factory is dataclasses.MISSING]
    if not required:
        thing = build(entry.kind, entry.category)
        assert build(spec_of(thing), entry.category) == thing
        assert hash(thing) == hash(build(spec_of(thing), entry.category))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("miror", "no kind 'miror'; did you mean 'mirror'"),
        ({"kind": "mirror", "shar": 1}, "no parameter 'shar'; did you mean 'share'"),
        ({"kind": "mirror", "mode": "fats"}, "mode = 'fats' is not possible; did you mean 'fast'"),
        ({"kind": "mirror", "share": "x"}, "share must be a number, got 'x'"),
        ({"kind": "mirror", "share": True}, "share must be a number, got True"),
        ({"kind": "mirror", "shown": 1.5}, "shown must be a whole number, got 1.5"),
        ({"kind": "mirror", "share": 2.0}, "share is at most 1"),
        ({"kind": "mirror", "steps": 3}, "steps must be a list"),
        ({"kind": "mirror", "mixed": "dynamc"}, "did you mean 'dynamic'"),
        ({"share": 1}, "lacks its kind"),
        (3, "a spec must be a dict"),
        ("mirror(", "not closed"),
        ("mirror(share=)", "values as in TOML"),
        ("nDCG@ten", "cutoff"),
        ("", "does not begin with a kind"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(spec, message):
    with pytest.raises(InvalidInput, match=message):
        build(spec)


def test_an_unknown_kind_is_also_not_found():
    with pytest.raises(NotFound, match="no learner 'rnadom_order'; did you mean 'random_order'"):
        build("rnadom_order", "learner")


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("perceptrn", "; did you mean 'perceptron'?"),
        ("gradient", "; did you mean 'topk_gradient' or 'online_gradient'?"),
        ("my_learner", ""),
        ("nosuch", ""),
        ("lambdamart", ""),
    ],
)
def test_only_what_is_near_is_offered(name, end):
    assert nearest(name, [entry.kind for entry in entries("learner")]) == end


def test_few_names_are_all_told_and_many_alike_are_none():
    assert nearest("zebra", ["fast", "slow"]) == "; there is fast, slow"
    assert nearest("figure-9", [f"figure-{number}" for number in range(8)]).startswith("; there is figure-0, figure-1")
    assert nearest("anything", []) == ""


def test_a_very_long_name_is_not_compared_in_full():
    start = process_time()
    nearest("x" * 1_000_000, [entry.kind for entry in entries("learner")])
    assert process_time() - start < 0.5


def test_an_unknown_category_gets_the_nearest():
    with pytest.raises(InvalidInput, match="did you mean 'learner'"):
        build("random_order", "lerner")


def test_a_missing_parameter_is_named():
    @dataclass(frozen=True, kw_only=True)
    class Needy:
        must: int
        shown: int | None = None
        depth: int | None = None

        def observe(self, ranking, relevance, rng): ...

    register("needy")(Needy)
    try:
        with pytest.raises(InvalidInput, match="'must' is missing"):
            build("needy")
    finally:
        unregister("needy", "feedback")


def test_a_kind_in_two_categories_needs_one_named():
    register("mirror", category="delivery")(dataclass(frozen=True, kw_only=True)(type("Other", (), {})))
    try:
        with pytest.raises(InvalidInput, match="name the category"):
            build("mirror")
        assert build("mirror", "feedback") == Mirror()
    finally:
        unregister("mirror", "delivery")


def test_a_taken_name_is_a_conflict():
    with pytest.raises(Conflict, match="already"):
        register("mirror", category="feedback")(type("Mirror2", (Mirror,), {}))


def test_a_class_that_lacks_methods_of_its_category_is_told_which():
    class Forgetful:
        def init(self, problem): ...
        def rank(self, state, query, rng): ...
        def predict(self, state, query): ...

    with pytest.raises(InvalidInput, match=r"methods of no category; a learner needs learn, log_prob$"):
        register("forgetful")(Forgetful)
    with pytest.raises(InvalidInput, match="no category; name its category, as in"):
        register("forgetful")(type("Empty", (), {}))


def test_the_kinds_of_feedback_are_a_tuple():
    with pytest.raises(InvalidInput, match="`accepts` of Single must be a tuple"):
        register("single", category="learner")(type("Single", (), {"accepts": int}))
    assert all(entry.kind != "single" for entry in entries("learner"))


def test_recipes_are_frozen():
    with pytest.raises(InvalidInput, match="frozen"):
        register("loose", category="feedback")(dataclass(type("Loose", (), {})))


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a", {"kind": "a"}),
        ("a@10", {"kind": "a", "cutoff": 10}),
        ("a(gain='linear')@3", {"kind": "a", "gain": "linear", "cutoff": 3}),
        ("a(b={kind='c', d=[1, 2]}, e=true)", {"kind": "a", "b": {"kind": "c", "d": [1, 2]}, "e": True}),
        ("a(text='x@y')", {"kind": "a", "text": "x@y"}),
    ],
)
def test_short_specs(text, table):
    assert parse_spec(text) == table


def test_everything_public_is_there_and_every_category_has_members():
    assert all(getattr(rankloop, name) is not None for name in rankloop.__all__)
    assert {"InvalidInput", "Ranker", "Session", "read_log"} <= set(rankloop.__all__)
    assert {"learner", "measure", "surrogate", "feedback", "stream", "delivery"} <= set(categories())
    with pytest.raises(AttributeError, match="no_such_thing"):
        rankloop.no_such_thing  # noqa: B018


def test_every_registered_thing_says_what_it_is():
    assert [entry.kind for entry in entries() if len(entry.summary) < 10] == []


def test_numbers_of_numpy_are_numbers():
    assert build({"kind": "nDCG", "cutoff": np.int64(3)}) == build("nDCG@3")
    assert build({"kind": "online_gradient", "learning_rate": np.float64(0.5)}).learning_rate == 0.5


@pytest.mark.parametrize("rate", [10**400, 2**63, -(2**63)])
def test_astronomic_numbers_are_refused(rate: int):
    with pytest.raises(InvalidInput, match="below 2⁶³"):
        build({"kind": "online_gradient", "learning_rate": rate})


def test_strange_names_of_parameters_are_refused():
    for name in ("self", 3):
        with pytest.raises(InvalidInput, match=f"no parameter '{name}'"):
            build({"kind": "online_gradient", name: 1})


def test_things_nested_without_end_are_refused():
    spec: dict[str, object] = {"kind": "online_gradient"}
    for _ in range(3000):
        spec = {"kind": "standardised", "inner": spec}
    with pytest.raises(InvalidInput, match="nested too deeply"):
        build(spec)


def test_an_unknown_kind_far_from_all_is_answered_in_one_short_line():
    with pytest.raises(NotFound, match="`rankloop list` shows all") as error:
        build("é")
    assert len(str(error.value)) < 100


def test_the_catalogue_has_every_kind_with_its_parameters():
    found = catalogue()
    assert {"learners", "measures", "feedback", "interleaving", "deliveries"} <= found.keys()
    assert sum(map(len, found.values())) == len(entries())
    swap = next(entry for entry in found["learners"] if entry["kind"] == "3pr")["parameters"][0]
    assert (swap["name"], swap["default"]) == ("swap", 0.5)
    inner = next(entry for entry in found["learners"] if entry["kind"] == "explore_at_most")["parameters"][0]
    assert inner["name"] == "inner"
    assert "default" not in inner


def test_the_words_of_python_are_understood_in_a_spec_but_not_in_its_texts() -> None:
    assert parse_spec("newton_pairs(diagonal=True, alarm=2.0)") == parse_spec("newton_pairs(diagonal=true, alarm=2.0)")
    assert parse_spec("x(a=[False, true], b=\"True\", c='False')") == {
        "kind": "x", "a": [False, True], "b": "True", "c": "False",
    }  # fmt: skip


INSTALLED = """
from rankloop import register

@register("installed_people")
class InstalledPeople:
    shown = depth = None
    def observe(self, ranking, relevance, rng):
        return None
"""


def test_an_installed_package_registers_by_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "installed_people.py").write_text(INSTALLED)
    about = tmp_path / "installed_people-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-people\nVersion: 0.1\n")
    points = "people = installed_people\nbroken = no_such_module_at_all\n"
    (about / "entry_points.txt").write_text(f"[rankloop]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_groups", ["rankloop"])
    with pytest.warns(RuntimeWarning, match="of installed-people.*No module named 'no_such_module_at_all'"):
        assert type(build("installed_people", "feedback")).__module__ == "installed_people"
    unregister("installed_people", "feedback")
