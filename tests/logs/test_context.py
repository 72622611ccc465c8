"""A visitor as people have them, a row with names, becomes the very numbers that the policy learned from."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from rankloop.bandits.policies import Uniform
from rankloop.bandits.train import load_policy
from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import load_with_notes, save
from rankloop.evaluation import ChoiceLog
from rankloop.evaluation.propensity_evaluation import evaluate_policies
from rankloop.logs.context import MAX_COUNTED, Encoding, NumberColumn
from rankloop.training.policy import train_policy

SMALL = Encoding(("hats", "coats"), ("age", "job"), ((), ("clerk", "student")), (40.0, 0.0))
JOBS = ("clerk", "student", "7", None)


def table_of(path, rows, header="age,job,ad,click,propensity"):
    path.write_text(header + "\n" + "\n".join(rows) + "\n")
    return ChoiceLog(path)


@pytest.mark.parametrize(
    ("visitor", "numbers"),
    [
        ({"age": 41, "job": "student"}, [41, 0, 1, 1]),
        ({"job": "clerk", "age": np.float32(1.5), "visitor_id": "ab12"}, [1.5, 1, 0, 1]),
        ({"age": True, "job": "pilot"}, [1, 0, 0, 1]),  # a job that the log did not have is 0 everywhere
        ({"age": None, "job": None}, [40, 0, 0, 1]),  # what is not known: the mean of the log, no job
        ({"age": float("nan"), "job": 7.0}, [40, 0, 0, 1]),
        ([41, 0, 1, 1], [41, 0, 1, 1]),
        (np.array([41.0, 0.0, 1.0, 1.0]), [41, 0, 1, 1]),
        ({"age": 41, "job=student": 1, "(always 1)": 1}, [41, 0, 1, 1]),
    ],
)
def test_a_row_with_names_becomes_numbers(visitor, numbers):
    assert SMALL.row_of(visitor) == numbers


@pytest.mark.parametrize(
    ("visitor", "said"),
    [
        ({"age": 41}, "context has no 'job'; the policy learned from age, job"),
        ({}, "context has no 'age'"),
        ({"age": "41", "job": "clerk"}, "age must be a finite number, as in the log, got '41'"),
        ({"age": float("inf"), "job": "clerk"}, "age must be a finite number"),
        ({"age": 41, "job": ["clerk"]}, "job must be a single value"),
        ({"age": 41, "job=pilot": 1, "(always 1)": 1}, "'job=pilot', which is not one of: age, job=clerk"),
        ([41, 0, 1], "context has 3 numbers for 4 features"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(visitor, said):
    with pytest.raises(InvalidInput, match=said):
        SMALL.row_of(visitor)


def test_an_empty_text_is_a_value_too():
    empty = SMALL._replace(values=((), ("", "clerk")))
    assert empty.context_names == ["age", "job=", "job=clerk", "(always 1)"]
    assert empty.row_of({"age": 1, "job": ""}) == [1, 1, 0, 1]


def test_a_column_of_the_position_is_called_position():
    placed = SMALL._replace(columns=("age", "(position)"))
    for name in ("position", "(position)"):
        assert placed.row_of({"age": 1, name: "student"}) == [1, 0, 1, 1]
    with pytest.raises(InvalidInput, match="context has no 'position'"):
        placed.row_of({"age": 1})


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.none() | st.integers(-5, 5), st.sampled_from(JOBS)), min_size=2, max_size=8))
def test_rows_and_logs_become_the_same_numbers(tmp_path_factory, people):
    """Whatever the log holds, asking with its rows by name gives what learning from it saw."""
    path = tmp_path_factory.mktemp("same") / "log.csv"
    rows = [f"{'' if age is None else age},{job or ''},{ad % 2},0,0.5" for ad, (age, job) in enumerate(people)]
    table = table_of(path, ["3,clerk,0,1,0.5", *rows])
    encoding = Encoding.of(table.pieces())
    learned = encoding.contexts_of(next(table.pieces()))[1:]
    asked = [encoding.row_of({"age": age, "job": job or ""}) for age, job in people]
    np.testing.assert_array_equal(asked, learned)


def test_texts_that_look_like_numbers_in_another_log_are_the_same_texts(tmp_path):
    encoding = Encoding(("0", "1"), ("floor",), (("5", "attic"),), (0.0,))
    piece = next(table_of(tmp_path / "log.csv", ["5,0,1,0.5", "6,1,0,0.5"], "floor,ad,click,propensity").pieces())
    np.testing.assert_array_equal(encoding.contexts_of(piece), [[1, 0, 1], [0, 0, 1]])
    assert encoding.row_of({"floor": 5}) == encoding.row_of({"floor": 5.0}) == [1, 0, 1]


def test_ids_of_numbers_are_left_out(tmp_path):
    """Whole numbers that never come twice, or stand in a column that is named so, unless they are asked for."""
    header = "row,visitorId,user_id,paid,age,income,ad,click,propensity"
    rows = [f"{900 - n},{n % 60},{n % 30},{n % 60},{n % 7},{n + 0.5},{n % 2},{n % 3 == 0:d},0.5" for n in range(120)]
    table = table_of(tmp_path / "log.csv", rows, header)
    encoding = Encoding.of(table.pieces())
    assert encoding.left_out == ("row", "visitorId")  # thirty user_ids may be groups of people
    assert encoding.columns == ("user_id", "paid", "age", "income")
    assert encoding.described.endswith("income (number); left out as ids: row, visitorId")
    assert Encoding.of(table.pieces(), context=["age", "row"]).columns == ("age", "row")
    trained = train_policy(table, without=["user_id", "paid"])
    assert trained.trained.encoding.columns == ("age", "income")
    for named in ({"context": ["agee"]}, {"without": ["agee"]}):
        with pytest.raises(InvalidInput, match=r"no context column 'agee'; did you mean 'age'\?"):
            Encoding.of(table.pieces(), **named)


@pytest.mark.parametrize("packed", [False, True])
def test_dates_and_times_are_left_out_and_named(tmp_path, packed):
    """As Arrow has them, and as texts; a text that only looks a little like a date is a text."""
    header = "when,day,clock,note,timestamp,age,ad,click,propensity"
    days = [f"2026-03-{n % 28 + 1:02}" for n in range(60)]
    rows = [f"{day}T10:00:00,{day},1{n % 9}:30,2026-{n % 3},{n},{n % 7},{n % 2},1,0.5" for n, day in enumerate(days)]
    path = tmp_path / "log.csv"
    table_of(path, rows, header)
    if packed:  # all but the numbers as texts
        texts = csv.ConvertOptions(column_types=dict.fromkeys(("when", "day", "clock"), pa.string()))
        path = tmp_path / "log.parquet"
        parquet.write_table(csv.read_csv(tmp_path / "log.csv", convert_options=texts), path)
    table = ChoiceLog(path)
    encoding = Encoding.of(table.pieces())
    assert (encoding.columns, encoding.times) == (("age", "note"), ("when", "day", "clock"))
    told = "context: age (number), note (3 values); left out as times: when, day, clock"
    assert encoding.described == told
    assert Encoding.from_plain(encoding.to_plain()) == encoding
    policies = {"p": Uniform(n_ads=2)}
    assert evaluate_policies(table, encoding, policies).context == f"{told}; not context, by their names: timestamp"
    assert Encoding.of(table.pieces(), context=["day"]).columns == ("day",)


def test_numbers_are_counted_only_until_it_is_clear():
    unique, repeated = NumberColumn("row"), NumberColumn("visits")
    for first in range(0, 3 * MAX_COUNTED, MAX_COUNTED):
        unique.add(np.arange(first, first + MAX_COUNTED, dtype=np.float64))
        repeated.add(np.arange(MAX_COUNTED // 2, dtype=np.float64))
    assert unique.is_id
    assert len(unique.distinct) == 2 * MAX_COUNTED
    assert not repeated.is_id
    assert unique.mean == (3 * MAX_COUNTED - 1) / 2


@pytest.fixture
def saved(tmp_path):
    """Students click hats, clerks coats."""
    wish = {"student": "hats", "clerk": "coats"}
    rows = [f"{n % 9},{job},{ad},{wish[job] == ad:d},0.5" for n in range(40) for job in wish for ad in wish.values()]
    train_policy(table_of(tmp_path / "log.csv", rows), epsilon=0.1).save(tmp_path / "ads.rankloop")
    return tmp_path / "ads.rankloop"


def test_a_loaded_policy_is_asked_with_rows(saved):
    policy = load_policy(saved)
    people = [{"age": 3, "job": "student"}, {"age": 3, "job": "clerk"}]
    assert policy.shares(people[0]) == pytest.approx({"coats": 0.1, "hats": 0.9})
    found = policy.probabilities(people)
    np.testing.assert_allclose(found, [[0.1, 0.9], [0.9, 0.1]])
    np.testing.assert_array_equal(policy.probabilities([[3, 0, 1, 1], [3, 1, 0, 1]]), found)
    numbers = np.array([[3.0, 0, 1, 1], [3, 1, 0, 1]])
    np.testing.assert_array_equal(policy.probabilities(numbers), policy.policy.probabilities(numbers))
    assert policy.probabilities([]).shape == (0, 2)
    with pytest.raises(InvalidInput, match="takes a list of rows"):
        policy.probabilities(people[0])


def test_the_file_alone_is_enough(saved):
    beside = saved.with_name("ads.rankloop.json")
    names = beside.read_text(encoding="utf-8")
    beside.unlink()
    assert load_policy(str(saved)).encoding == Encoding.from_plain(json.loads(names))
    session, notes = load_with_notes(saved)
    save(session, saved, {name: note for name, note in notes.items() if name != "encoding"})
    with pytest.raises(InvalidInput, match="does not name its ads and columns"):
        load_policy(saved)


@pytest.mark.parametrize(
    "spoiled",
    [
        [],
        {},
        {"values": 3},
        {"ads": None},
        {"columns": ["age"]},
        {"means": [0.0, "nan"]},
        {"values": [[], ["clerk"]]},
    ],
)
def test_a_spoiled_encoding_is_refused(saved, spoiled):
    session, notes = load_with_notes(saved)
    save(session, saved, notes | {"encoding": spoiled if not spoiled else notes["encoding"] | spoiled})
    with pytest.raises(InvalidInput, match=r"encoding has ads|numbers of ads and columns differ"):
        load_policy(saved)


def test_outcomes_are_left_out_and_named(tmp_path):
    """What only clicked rows have would be the best predictor of all, and nobody has it when an ad is chosen."""
    clicks = [n % 5 == 0 for n in range(200)]
    rows = [f"{n % 7},{click:d},{click * n},{n % 2},{click:d},0.5" for n, click in enumerate(clicks)]
    table = table_of(tmp_path / "log.csv", rows, "age,purchased,amount,ad,click,propensity")
    encoding = Encoding.of(table.pieces())
    assert encoding.columns == ("age",)
    said = "left out as outcomes: purchased (named like an outcome), amount (only clicked rows have it)"
    assert encoding.described.endswith(said)
    assert Encoding.from_plain(encoding.to_plain()) == encoding
    assert Encoding.of(table.pieces(), asked_for=["amount"]).columns == ("age", "amount")
    assert Encoding.of(table.pieces(), context=["purchased"]).columns == ("purchased",)
    assert train_policy(table, features=["amount"]).trained.encoding.columns == ("age", "amount")
