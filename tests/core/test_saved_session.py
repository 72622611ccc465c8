"""Tests of saving and loading sessions."""

import json
import tracemalloc
import warnings
import zipfile
from typing import NamedTuple

import numpy as np
import pytest

from rankloop import InvalidInput, NotFound, Problem, Query, Relevances, Session, build, load, save
from rankloop.core import registry
from rankloop.core import saved_session as saving
from rankloop.core.saved_session import MAX_COUNT, _restored_state, dumps, loads
from tools.saved_files import FOLDER, numbers_of_session

PROBLEM = Problem(n_features=3, feature_names=("a", "b", "c"))


def queries(n):
    rng = np.random.default_rng(5)
    return [(Query.of(rng.random((6, 3))), np.floor(3 * rng.random(6))) for _ in range(n)]


def learned(spec, rounds, session=None):
    session = session or Session(build(spec, "learner"), PROBLEM, 4)
    shown = []
    for query, grades in rounds:
        decision = session.rank(query)
        shown.append(decision.ranking.tolist())
        session.learn(query, decision, Relevances(decision.ranking, grades[decision.ranking]))
    return session, shown


@pytest.mark.parametrize("size", ["n_features", "n_items", "n_context"])
@pytest.mark.parametrize("kind", ["online_gradient", "given_order", "linear_thompson", "auc_policy"])
def test_a_small_file_with_huge_sizes_is_refused_without_their_memory(kind, size, tmp_path):
    learner, path = build(kind), tmp_path / "huge.rankloop"
    fixed_items = {"n_items": 4, "n_context": 2} if kind == "auc_policy" else {}
    save(Session(learner, Problem(n_features=2, **fixed_items)), path)
    rewritten(path, lambda header: header["problem"].update({size: 200_000_000}))
    tracemalloc.start()
    with pytest.raises(InvalidInput, match=r"huge\.rankloop: .* larger sizes than its arrays"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_small_file_with_a_huge_setting_is_refused(tmp_path):
    path = tmp_path / "huge.rankloop"
    save(Session(build("kernel_perceptron"), PROBLEM), path)
    rewritten(path, lambda header: header["learner"].update(budget=10**8))
    with pytest.raises(InvalidInput, match="larger sizes than its arrays"):
        load(path)


def test_a_file_with_too_many_hashed_columns_is_refused(tmp_path):
    path = tmp_path / "huge.rankloop"
    save(Session(build("given_order"), Problem(n_features=16, n_hashed=16)), path)
    rewritten(path, lambda header: header["problem"].update(n_features=2**27, n_hashed=2**27))
    with pytest.raises(InvalidInput, match="134217728 hashed columns, the limit is 67108864"):
        load(path)


def test_a_learner_without_weights_has_any_usual_number_of_features(tmp_path):
    save(Session(build("given_order"), Problem(n_features=300_000)), tmp_path / "wide.rankloop")
    assert load(tmp_path / "wide.rankloop").problem.n_features == 300_000


@pytest.mark.parametrize(
    "spec", ["random_order", "online_gradient", {"kind": "standardised", "inner": "online_gradient"}], ids=str
)
def test_a_loaded_session_goes_on_as_if_it_had_not_stopped(spec, tmp_path):
    rounds = queries(30)
    whole, shown = learned(spec, rounds)
    half, first = learned(spec, rounds[:13])
    save(half, tmp_path / "half.rankloop")
    rest, second = learned(spec, rounds[13:], load(tmp_path / "half.rankloop"))
    assert first + second == shown
    assert rest.learner == whole.learner
    assert rest.problem == whole.problem
    assert rest.snapshot()[1:] == whole.snapshot()[1:]
    assert repr(rest.state) == repr(whole.state)


def test_a_session_travels_as_bytes(saved):
    session = load(saved)
    again = saving.loads(saving.dumps(session))
    assert repr(again.state) == repr(session.state)
    assert again.snapshot()[1:] == session.snapshot()[1:]
    with pytest.raises(InvalidInput, match="this content is damaged or not a rankloop file"):
        saving.loads(saved.read_bytes()[:-9])


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.rankloop"
    save(learned("online_gradient", queries(5))[0], path)
    return path


def test_every_truncation_is_refused(saved):
    whole = saved.read_bytes()
    for length in range(0, len(whole), 7):
        saved.write_bytes(whole[:length])
        with pytest.raises(InvalidInput, match=r"model\.rankloop"):
            load(saved)


def test_a_flipped_byte_in_the_arrays_is_noticed(saved):
    whole = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        info = archive.getinfo("0.npy")
    whole[info.header_offset + 30 + len("0.npy") + info.file_size - 1] ^= 1
    saved.write_bytes(bytes(whole))
    with pytest.raises(InvalidInput, match="CRC"):
        load(saved)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"hello")
    with pytest.raises(InvalidInput, match="damaged or not a rankloop file"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    with pytest.raises(InvalidInput):
        load(path)
    with pytest.raises(NotFound):
        load(tmp_path / "nowhere")


def rewritten(path, change, arrays=None):
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["session.json"])
    change(header)
    parts["session.json"] = json.dumps(header).encode()
    parts |= arrays or {}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(format=99), "format 99, this version reads format 1"),
        (lambda h: h["learner"].update(kind="no_such"), "no_such"),
        (lambda h: h["learner"].update(nonsense=1), "nonsense"),
        (lambda h: h["problem"].update(n_features=5, feature_names=[]), "the learner needs"),
        (lambda h: h["problem"].update(n_features=-5), "n_features"),
        (lambda h: h["state"].update(more=1), "does not have the fields"),
        (lambda h: h.pop("generator"), "damaged or not a rankloop file"),
        (lambda h: h["generator"].update(bit_generator="MT19937"), "damaged or not a rankloop file"),
        (lambda h: h.update(problem=[1, 2]), "damaged or not a rankloop file"),
        (lambda h: h["generator"].update(uinteger=-4), "damaged or not a rankloop file"),
        (lambda h: h["generator"].update(state={"state": -1, "inc": 3}), "damaged or not a rankloop file"),
        (lambda h: h.update(learned="x"), "learned is a whole number from 0"),
        (lambda h: h.update(refused=-1), "refused is a whole number from 0"),
        (lambda h: h["state"].update(steps=2**70), "too large"),
        (lambda h: h["state"].update(shown=77), "by the problem it is"),
        (lambda h: h["state"].update(steps=-1), "too small"),
        (lambda h: h["state"].update(grad_squares=float("inf")), "the header holds Infinity"),
        (lambda h: h["notes"].update(price=float("nan")), "the header holds NaN"),
        (lambda h: h.update(learned=2**60), "learned is a whole number from 0"),
    ],
)
def test_a_header_that_lies_is_refused(saved, change, message):
    rewritten(saved, change)
    with pytest.raises(InvalidInput, match=message):
        load(saved)


def test_a_number_that_overflows_is_refused(saved):
    with zipfile.ZipFile(saved) as archive:
        header = archive.read(saving.HEADER_NAME).decode()
    assert '"grad_squares": 0.0' in header
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr(saving.HEADER_NAME, header.replace('"grad_squares": 0.0', '"grad_squares": 1e999'))
    with pytest.raises(InvalidInput, match="the header holds 1e999"):
        load(saved)


def test_arrays_that_do_not_fit_or_are_not_finite_are_refused(saved):
    import io

    for array in (np.zeros(4), np.zeros(3, np.float32), np.array([0.0, np.nan, 1.0])):
        part = io.BytesIO()
        np.save(part, array)
        rewritten(saved, lambda header: None, {"0.npy": part.getvalue()})
        with pytest.raises(InvalidInput, match="state"):
            load(saved)
    rewritten(saved, lambda header: None, {"0.npy": b"\x80\x04pickle"})
    with pytest.raises(InvalidInput):
        load(saved)


def test_a_file_that_unfolds_to_more_than_itself_is_refused(saved):
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(saving.HEADER_NAME, b" " * 100_000)
    with pytest.raises(InvalidInput, match="compressed or encrypted"):
        load(saved)


def test_a_header_without_end_is_refused(saved):
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr(saving.HEADER_NAME, b"[" * 100_000)
    with pytest.raises(InvalidInput, match="damaged or not a rankloop file"):
        load(saved)


def test_saving_is_all_or_nothing(saved, monkeypatch):
    before = saved.read_bytes()

    def break_off(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", break_off)
    with pytest.raises(OSError, match="disk full"):
        save(learned("online_gradient", queries(9))[0], saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_another_cpu_is_said(saved, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(saved)
    monkeypatch.setattr(saving, "processor", lambda: "abacus")
    with pytest.warns(RuntimeWarning, match="abacus"):
        load(saved)


@pytest.mark.parametrize("header", ["((((", "'''", "  x\n y\n", "{'descr': '<f8'"])
def test_an_array_whose_header_is_nonsense_is_refused(saved, header):
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    nonsense = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
    rewritten(saved, lambda header: None, {"0.npy": nonsense})
    with pytest.raises(InvalidInput, match="damaged or not a rankloop file"):
        load(saved)


class State(NamedTuple):
    weights: np.ndarray
    counts: np.ndarray
    examples: np.ndarray
    rate: float
    rounds: int
    shown: int
    averaged: bool

    def reachable(self, initial):
        return self.rounds % 2 == initial.rounds % 2


FIRST = State(np.zeros(2), np.array([-1, 0]), np.zeros((0, 2)), 0.5, 4, -1, False)
LATER = State(np.ones(2), np.array([7, -1]), np.ones((3, 2)), -2.5, 8, -1, True)


def again(first=FIRST, **changes):
    parts = LATER._replace(**changes)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    positions = {"array": 0}, {"array": 1}, {"array": 2}
    outline = dict(zip(State._fields, (*positions, *parts[3:])))
    return _restored_state(outline, first, lambda position: arrays[position])


def test_what_learning_leads_to_is_restored():
    state = again()
    assert type(state) is State
    assert all(np.array_equal(part, other) for part, other in zip(state, LATER))
    assert again(rate=3).rate == 3.0
    assert again(rounds=MAX_COUNT).rounds == MAX_COUNT


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 2}, r"state\.rounds holds a number that is too small"),
        ({"rounds": MAX_COUNT + 2}, "too large"),
        ({"rounds": 10**400}, "too large"),
        ({"rounds": True}, "type int"),
        ({"rounds": 5}, "cannot be the result of learning"),
        ({"shown": 3}, "by the problem"),
        ({"averaged": 1}, "type bool"),
        ({"rate": "x"}, "type float"),
        ({"counts": np.array([0, -2])}, r"state\.counts holds a number that is too small"),
        ({"counts": np.array([0, MAX_COUNT + 1])}, "too large"),
        ({"weights": np.array([0.0, np.inf])}, "not finite"),
        ({"weights": np.zeros(3)}, "needs float64"),
        ({"weights": np.zeros(2, ">f8")}, "needs float64"),
        ({"weights": np.array(1.0)}, "needs float64"),
        ({"examples": np.zeros((3, 1))}, "needs float64"),
        ({"examples": np.array(1.0)}, "needs float64"),
    ],
    ids=str,
)
def test_what_no_learning_leads_to_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        again(**changes)


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (4, 4)])
def test_what_is_empty_for_want_of_features_stays_empty(shape):
    bare = FIRST._replace(weights=np.zeros(0), examples=np.zeros((0, 0)))
    assert again(bare, weights=np.zeros(0), examples=np.zeros((0, 0))).rounds == 8
    with pytest.raises(InvalidInput, match="needs float64"):
        again(bare, weights=np.zeros(0), examples=np.zeros(shape))
    with pytest.raises(InvalidInput, match="needs float64"):
        again(bare, weights=np.zeros(1), examples=np.zeros((0, 0)))


def test_who_loads_a_learner_of_their_own_is_told_to_import_it(monkeypatch):
    content = dumps(Session(build("random_order", "learner"), Problem(n_features=1)))
    monkeypatch.delitem(registry._entries, ("learner", "random_order"))
    with pytest.raises(InvalidInput, match=r"no learner .random_order.*import the module that registers it"):
        loads(content)


@pytest.mark.filterwarnings("ignore:.* CPU")
def test_a_file_of_format_1_is_read_to_the_bit():
    expected = json.loads((FOLDER / "expected.json").read_text())["session"]
    assert json.loads(json.dumps(numbers_of_session(load(FOLDER / "session.rankloop")))) == expected


def test_trees_are_told_apart_from_damaged_rankers() -> None:
    with pytest.raises(InvalidInput, match="trees are the base of a ranker"):
        loads(b'{"format": 1, "boosters": []}')
