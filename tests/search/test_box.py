"""A search box in a Python program: what it learns, keeps, takes back and forgets, and what it refuses."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from rankloop.core.errors import Conflict, InvalidInput, NotFound
from rankloop.search import SearchBox, ranked_search
from rankloop.search.engine import MATCHES, Candidate, TextDocument, TextQuery
from rankloop.search.ranked_search import DAY_SECONDS, SearchResults
from rankloop.service.application import learner_worker
from rankloop.service.errors import LateFeedback, TooMany
from rankloop.service.records import FeedbackReceived, Ranked, encode
from tests.search.boxes import (
    ENGINE_ORDER,
    NOTES,
    box_over,
    content_of,
    digest,
    prefer,
    records,
    replay,
    rows_in,
    write_notes,
)
from tests.service.cases import until

SECRET = "boat of colonel mustard"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[SearchBox]:
    with box_over(tmp_path) as box:
        yield box


def data(box: SearchBox) -> Path:
    return box.folder


def assert_replays(box: SearchBox) -> None:
    """What is served is what the log amounts to."""
    found = replay(data(box))
    assert found.digest == digest(box)
    assert found.differing == ()


def test_the_next_search_goes_by_what_was_learned(box: SearchBox, monkeypatch: pytest.MonkeyPatch) -> None:
    applied = learner_worker._apply_and_publish

    def later(work: Any) -> Any:
        time.sleep(2.2)  # as on a machine that has to compile first: longer than an answer over HTTP waits
        return applied(work)

    monkeypatch.setattr(learner_worker, "_apply_and_publish", later)
    box.learn(box.search("boat"), clicks=["knots.md"])
    assert box.predict("boat").state == 1


def test_the_engines_order_comes_first_and_clicks_change_it(box: SearchBox) -> None:
    assert box.predict("boat").ids == ENGINE_ORDER
    prefer(box, "knots.md")
    assert box.predict("boat").ids[0] == "knots.md"
    assert box.predict("Boat!").ids == box.predict("boat").ids  # the same query
    assert box.predict("boat").state == 3
    assert_replays(box)


def test_results_have_what_a_page_shows(box: SearchBox) -> None:
    shown = box.search("Boat", n=2)
    assert shown.query == "Boat"
    assert len(shown.ids) == 2
    assert [result.id for result in shown.results] == shown.ids
    first = next(result for result in box.predict("boat").results if result.id == "boats.md")
    assert first.title == "Boats"
    marked = [first.snippet[start:end] for start, end in first.highlights]
    assert marked.count("boat") == 3
    assert set(marked) <= {"boat", "Boats"}
    scores = [result.score for result in box.predict("boat").results]
    assert scores == sorted(scores, reverse=True)


def test_the_newest_first_are_those_with_the_words(tmp_path: Path) -> None:
    """What is only near in meaning would otherwise be first because it is new."""
    words = ["car wheel", "car road", "car wheel road", "road wheel"] + ["flour salt", "bread salt", "bread flour"] * 4
    texts = {f"{i}.md": text for i, text in enumerate(words)}
    for file in write_notes(tmp_path / "notes", texts).iterdir():
        seconds = 1e9 + 1e6 * int(file.stem)
        os.utime(file, (seconds, seconds))
    with box_over(tmp_path) as box:
        assert [result.by_meaning for result in box.predict("car").results] == [False, False, False, True]
        assert box.predict("car", sort="date").ids == ["2.md", "1.md", "0.md"]


def test_neighbours_are_swapped_and_nothing_moves_further(box: SearchBox) -> None:
    orders = {tuple(box.search("boat").ids) for _ in range(40)}
    assert len(orders) > 1
    for order in orders:
        assert all(abs(order.index(id) - position) <= 1 for position, id in enumerate(ENGINE_ORDER))


def test_what_a_program_used_counts_as_the_click(tmp_path: Path) -> None:
    with box_over(tmp_path / "a") as clicked, box_over(tmp_path / "b") as used:
        for _ in range(3):
            clicked.learn(clicked.search("boat"), clicks=["knots.md"])
            used.learn(used.search("boat"), used=["knots.md"])
        assert digest(clicked) == digest(used)


def test_weights_of_clicks_count(tmp_path: Path) -> None:
    with box_over(tmp_path / "a") as once, box_over(tmp_path / "b") as half:
        once.learn(once.search("boat"), clicks={"knots.md": 1.0})
        half.learn(half.search("boat"), clicks={"knots.md": 0.5})
        assert digest(once) != digest(half)


def test_private_predictions_leave_no_event(box: SearchBox) -> None:
    before = rows_in(data(box)), digest(box)
    for text in (SECRET, "boat", "", "nothing like it"):
        box.predict(text)
    assert (rows_in(data(box)), digest(box)) == before
    assert b"mustard" not in content_of(data(box))
    found = box.predict("boat")
    assert found.impression == ""
    box.learn(found, clicks=["knots.md"])  # nobody could join it with anything
    assert (rows_in(data(box)), digest(box)) == before


def test_what_was_learned_is_there_again(tmp_path: Path) -> None:
    with box_over(tmp_path) as box:
        prefer(box, "knots.md")
        order, learned = box.predict("boat").ids, digest(box)
        still_open = box.search("boat")
    with box_over(tmp_path) as box:
        assert box.predict("boat").ids == order
        assert digest(box) == learned
        box.learn(still_open, clicks=["boats.md"])
        assert digest(box) != learned
        assert_replays(box)


def test_documents_change_and_what_was_learned_stays(tmp_path: Path) -> None:
    with box_over(tmp_path) as box:
        prefer(box, "knots.md", times=6)
        notes = tmp_path / "notes"
        (notes / "boats.md").unlink()
        (notes / "harbours.md").write_text("# Harbours\n\nA boat, a boat, a boat, a boat and no other word than boat.")
        (notes / "ferries.md").write_text("# Ferries\n\nA ferry is a boat.")
        found = box.refresh()
        assert (found.added, found.changed, found.removed, found.documents) == (1, 1, 1, 4)
        assert box.predict("boat").ids[0] == "knots.md"
        assert set(box.predict("boat").ids) == {"knots.md", "harbours.md", "ferries.md"}
        (notes / "boats.md").write_text(NOTES["boats.md"])
        box.refresh()
        assert box.predict("boat").ids[0] == "knots.md"
        assert_replays(box)


def test_a_click_on_a_document_that_is_gone_is_a_click(tmp_path: Path) -> None:
    with box_over(tmp_path) as box:
        shown = box.search("boat")
        (tmp_path / "notes" / "knots.md").unlink()
        box.refresh()
        box.learn(shown, clicks=["knots.md"])
        assert box.explain(shown, "knots.md").score > 0
        assert "knots.md" not in box.predict("boat").ids
        assert_replays(box)


def test_a_click_is_taken_back(tmp_path: Path) -> None:
    with box_over(tmp_path / "a") as box, box_over(tmp_path / "b") as other:
        for one in (box, other):
            prefer(one, "knots.md", times=2)
        learned = digest(box)
        wrong = box.search("boat")
        box.learn(wrong, clicks=["harbours.md"])
        assert digest(box) != learned
        assert box.undo(wrong, "harbours.md")
        assert digest(box) == learned == digest(other)
        assert not box.undo(wrong, "harbours.md")
        assert not box.undo(wrong, "no such document")
        assert_replays(box)
        box.learn(wrong, clicks=["boats.md"])  # it is open again
        assert digest(box) != learned
        assert_replays(box)


def test_of_two_clicks_one_is_taken_back(tmp_path: Path) -> None:
    with box_over(tmp_path / "a") as box, box_over(tmp_path / "b") as other:
        both, one = box.search("boat"), other.search("boat")
        assert both.ids == one.ids  # the same seed
        box.learn(both, clicks=["knots.md", "harbours.md"])
        other.learn(one, clicks=["knots.md"])
        assert digest(box) != digest(other)
        assert box.undo(both.impression, "harbours.md")
        assert digest(box) == digest(other)
        assert_replays(box)


def test_reasons_add_up(box: SearchBox) -> None:
    prefer(box, "knots.md")
    shown = box.search("boat")
    why = box.explain(shown, "knots.md")
    assert why.id == "knots.md"
    assert why.score == pytest.approx(sum(part.contribution for part in why.contributions))
    sizes = [abs(part.contribution) for part in why.contributions]
    assert sizes == sorted(sizes, reverse=True)
    names = [part.name for part in why.contributions]
    assert {"relevance", "query = boat × document = knots.md", "document = knots.md"} <= set(names)
    assert not [name for name in names if name.startswith("match")]
    order = box.predict("boat").ids
    assert sorted(order, key=lambda id: -box.explain(shown, id).score) == order


def test_the_same_again_is_learned_once(box: SearchBox) -> None:
    shown = box.search("boat")
    box.learn(shown, clicks=["knots.md"])
    learned, events = digest(box), rows_in(data(box))
    for _ in range(3):
        box.learn(shown, clicks=["knots.md"])
    assert (digest(box), rows_in(data(box))) == (learned, events)
    with pytest.raises(LateFeedback):
        box.learn(shown, clicks=["boats.md"])
    assert (digest(box), rows_in(data(box))) == (learned, events)


def test_only_the_undos_of_owners_count_and_the_refusal_names_its_limit(
    box: SearchBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {visitor: box.search("boat", visitor=visitor).impression for visitor in ("ann", "bob")}

    def undo(impression: str, visitor: str) -> bool:
        return bool(box._service.call(box._search.undo(impression, "knots.md", visitor)))

    monkeypatch.setattr(ranked_search, "MAX_UNDOS", 3)
    monkeypatch.setattr(ranked_search, "MAX_UNDOS_PER_VISITOR", 2)
    for stranger in 3 * ["", "bob", "eve"]:
        with pytest.raises(NotFound):
            undo(shown["ann"], stranger)
    assert undo(shown["ann"], "ann") is False  # there is no click on it
    assert undo(shown["ann"], "ann") is False
    with pytest.raises(TooMany, match="a visitor may undo or forget 2 times"):
        undo(shown["ann"], "ann")
    assert undo(shown["bob"], "bob") is False
    with pytest.raises(TooMany, match="all visitors together may undo or forget 3 times"):
        undo(shown["bob"], "bob")
    with pytest.raises(TooMany, match="all visitors together"):
        box._service.call(box._search.forget_me("bob"))


def test_the_same_from_many_threads_is_learned_once(box: SearchBox) -> None:
    shown = box.search("boat")
    threads = [Thread(target=box.learn, args=(shown, ["knots.md"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [record.event for record in records(data(box)) if isinstance(record.event, FeedbackReceived)]
    assert box.predict("boat").state == 1
    assert len(told) >= 1
    assert_replays(box)


def test_a_page_without_a_click_may_be_told(box: SearchBox) -> None:
    shown = box.search("boat")
    box.learn(shown, clicks=[])
    with pytest.raises(LateFeedback):
        box.learn(shown, clicks=["knots.md"])
    assert_replays(box)


@pytest.mark.parametrize(
    "text",
    ["", "   ", "\x00", '"', '""" OR * NEAR( AND', "'; DROP TABLE events;--", "\ud800", "\u202e", "zzzz", "🦆" * 300],
)
def test_queries_that_find_nothing_are_answered(box: SearchBox, text: str) -> None:
    before = rows_in(data(box))
    for found in (box.search(text), box.predict(text)):
        assert found.ids == []
        assert found.impression == ""
        box.learn(found, clicks=[])
    assert rows_in(data(box)) == before
    assert box.forget(query=text) == 0


@pytest.mark.parametrize(
    "text", ['"boat', "boat AND NOT (", "boat*", "boat\x00boat", "the boat " * 100, "boat " + "🦆" * 300]
)
def test_hostile_queries_are_words(box: SearchBox, text: str) -> None:
    shown = box.search(text)
    assert set(shown.ids) <= set(ENGINE_ORDER)
    box.learn(shown, clicks=shown.ids[:1])
    assert_replays(box)
    assert box.forget(query=text) == 1
    assert_replays(box)


WRONG: list[Any] = [
    lambda box, shown: box.search("boat", n=0),
    lambda box, shown: box.search("boat", n=51),
    lambda box, shown: box.search("boat", n=True),
    lambda box, shown: box.predict("boat", n=1.0),
    lambda box, shown: box.search("b" * 20_001),
    lambda box, shown: box.search(5),
    lambda box, shown: box.search("boat", visitor=5),
    lambda box, shown: box.search("boat", visitor="\ud800"),
    lambda box, shown: box.search("boat", visitor="v" * 257),
    lambda box, shown: box.learn(shown),
    lambda box, shown: box.learn(shown, ["knots.md"], used=["knots.md"]),
    lambda box, shown: box.learn(shown, clicks=["bread.md"]),
    lambda box, shown: box.learn(shown, clicks=["knots.md", "knots.md"]),
    lambda box, shown: box.learn(shown, clicks="knots.md"),
    lambda box, shown: box.learn(shown, clicks=[5]),
    lambda box, shown: box.learn(shown, clicks={"knots.md": float("nan")}),
    lambda box, shown: box.learn(shown, clicks={"knots.md": -1.0}),
    lambda box, shown: box.learn(shown.impression, clicks=["bread.md"]),
    lambda box, shown: box.learn(5, clicks=[]),
    lambda box, shown: box.explain("", "knots.md"),
    lambda box, shown: box.explain(None, "knots.md"),
    lambda box, shown: box.forget(),
    lambda box, shown: box.forget(visitor=""),
    lambda box, shown: box.forget(visitor=5),
    lambda box, shown: box.forget(query=5),
    lambda box, shown: box.forget(days=-1),
    lambda box, shown: box.forget(days=float("nan")),
    lambda box, shown: box.forget(days="3"),
]
UNKNOWN: list[Any] = [
    lambda box, shown: box.learn("nobody", clicks=[]),
    lambda box, shown: box.learn("x" * 10_000, clicks=["knots.md"]),
    lambda box, shown: box.undo("nobody", "knots.md"),
    lambda box, shown: box.undo("", "knots.md"),
    lambda box, shown: box.explain("nobody", "knots.md"),
    lambda box, shown: box.explain(shown, "bread.md"),
]


def test_a_call_that_forgets_nothing_names_what_it_takes(box: SearchBox) -> None:
    with pytest.raises(InvalidInput, match="give query, visitor or days"):
        box.forget()


def test_what_cannot_be_used_is_refused_and_changes_nothing(box: SearchBox) -> None:
    shown = box.search("boat")
    before = rows_in(data(box)), digest(box)
    for wrong in WRONG:
        with pytest.raises(InvalidInput):
            wrong(box, shown)
    for unknown in UNKNOWN:
        with pytest.raises(NotFound):
            unknown(box, shown)
    assert (rows_in(data(box)), digest(box)) == before
    box.learn(shown, clicks=["knots.md"])


def test_a_click_below_what_was_shown_is_refused(box: SearchBox) -> None:
    shown = box.search("boat", n=1)
    hidden = next(id for id in ENGINE_ORDER if id not in shown.ids)
    with pytest.raises(InvalidInput, match="is not among the results"):
        box.learn(shown, clicks=[hidden])


def test_an_impression_runs_out(box: SearchBox) -> None:
    shown = box.search("boat")
    service = box._service.node
    course = service.learning.worker.consumers["ranker/search"]
    assert course.projection.first_window == DAY_SECONDS
    course.projection.first_window = 0.0
    box._service.call(service.learning.catch_up("search"))
    until(lambda: service.directory.rankers["search"].projection.counters.closed == 1)
    with pytest.raises(LateFeedback):
        box.learn(shown, clicks=["knots.md"])
    assert box.predict("boat").state == 0


def test_after_it_is_closed_every_call_says_so(tmp_path: Path) -> None:
    box = box_over(tmp_path)
    shown = box.search("boat")
    box.close()
    box.close()
    for call in (
        lambda: box.search("boat"),
        lambda: box.predict("boat"),
        lambda: box.learn(shown, clicks=["knots.md"]),
        lambda: box.undo(shown, "knots.md"),
        lambda: box.explain(shown, "knots.md"),
        lambda: box.forget(query="boat"),
        box.refresh,
    ):
        with pytest.raises(InvalidInput, match="closed"):
            call()


def test_two_boxes_on_one_folder(tmp_path: Path) -> None:
    with box_over(tmp_path) as box, pytest.raises(Conflict, match="in use"):
        box_over(tmp_path)
    with box_over(tmp_path) as box:
        prefer(box, "knots.md", times=1)


def test_two_processes_on_one_folder(tmp_path: Path) -> None:
    with box_over(tmp_path):
        done = run(f"SearchBox({str(tmp_path / 'notes')!r}, {str(tmp_path / 'data')!r})")
    assert done.returncode == 1
    assert "Conflict" in done.stderr
    assert "in use" in done.stderr


def test_what_was_acknowledged_outlives_the_process(tmp_path: Path) -> None:
    write_notes(tmp_path / "notes")
    done = run(
        f"box = SearchBox({str(tmp_path / 'notes')!r}, {str(tmp_path / 'data')!r})\n"
        "for _ in range(3): box.learn(box.search('boat'), clicks=['knots.md'])\n"
        "from rankloop.service.domain.trainer import digest\n"
        "print(digest(box._service.node.directory.rankers['search'].serving.state), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert done.returncode == -signal.SIGKILL
    with box_over(tmp_path) as box:
        assert digest(box) == done.stdout.strip()
        assert box.predict("boat").state == 3
        assert box.predict("boat").ids[0] == "knots.md"
        assert_replays(box)


def test_a_program_that_does_not_close_it_ends(tmp_path: Path) -> None:
    write_notes(tmp_path / "notes")
    done = run(
        f"box = SearchBox({str(tmp_path / 'notes')!r}, {str(tmp_path / 'data')!r})\n"
        "box.learn(box.search('boat'), clicks=['knots.md'])"
    )
    assert (done.returncode, done.stderr) == (0, "")
    with box_over(tmp_path) as box:
        assert box.predict("boat").state == 1


def run(program: str) -> subprocess.CompletedProcess[str]:
    whole = f"import os, signal\nfrom rankloop.search import SearchBox\n{program}\n"
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=120, env=os.environ)


def test_a_box_that_cannot_open_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound):
        SearchBox(tmp_path / "nowhere", data=tmp_path / "data")
    assert not (tmp_path / "data").exists()
    with monkeypatch.context() as patched:
        patched.setattr(SearchBox, "refresh", lambda box: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            box_over(tmp_path)
    with pytest.raises(InvalidInput, match="engine"):
        box_over(tmp_path, engine="none")
    with box_over(tmp_path) as box:
        assert box.predict("boat").ids == ENGINE_ORDER


def forgotten(data: Path, *words: bytes) -> bool:
    content = content_of(data)
    return not any(word in content for word in words)


def test_a_query_is_forgotten(tmp_path: Path) -> None:
    with box_over(tmp_path / "a") as box, box_over(tmp_path / "b") as other:
        for one in (box, other):
            prefer(one, "harbours.md", "bowline harbour", times=2)
        before = digest(box)
        prefer(box, "knots.md", SECRET, times=4)
        assert not forgotten(data(box), b"colonel")
        assert box.predict(SECRET).ids != other.predict(SECRET).ids
        assert box.forget(query="Boat of Colonel MUSTARD!") == 4
        assert digest(box) == before == digest(other)
        assert box.predict(SECRET).ids == other.predict(SECRET).ids
        assert forgotten(data(box), b"colonel", b"mustard")
        assert_replays(box)
        assert box.forget(query=SECRET) == 0
    assert forgotten(tmp_path / "a" / "data", b"colonel", b"mustard")
    with box_over(tmp_path / "a") as box:
        assert digest(box) == before
        assert forgotten(data(box), b"colonel", b"mustard")


def test_a_large_request_is_forgotten_too(tmp_path: Path) -> None:
    """Values of more than some kilobytes are pressed: no byte of their beginning may stay behind."""
    write_notes(tmp_path / "notes", {f"boat {i}.md": f"# Boat {i}\n\nboat {'x' * i}" for i in range(99)})
    with box_over(tmp_path) as box:
        shown = box.search(SECRET)
        box.learn(shown, clicks=shown.ids[:1])
        (event,) = [record.event for record in records(data(box)) if isinstance(record.event, Ranked)]
        assert event.values[:1] == b"\x78"
        pressed = event.values[40:140]
        assert pressed in encode(event)
        assert pressed in content_of(data(box))
        assert box.forget(query=SECRET) == 1
        assert forgotten(data(box), pressed, b"mustard")
        assert_replays(box)


def test_a_visitor_is_forgotten(box: SearchBox) -> None:
    prefer(box, "harbours.md", visitor="anne-of-cleves", times=2)
    kept = digest(box)
    prefer(box, "knots.md", visitor="jane-seymour")
    assert not forgotten(data(box), b"jane-seymour")
    assert box.forget(visitor="jane-seymour") == 3
    assert forgotten(data(box), b"jane-seymour")
    assert not forgotten(data(box), b"anne-of-cleves")
    assert digest(box) == kept
    assert_replays(box)


@pytest.mark.parametrize(("where", "left"), [("SqliteStore.amend", 3), ("LogWriter.clear_recent", 0)])
def test_a_kill_while_it_forgets_leaves_all_or_nothing(tmp_path: Path, where: str, left: int) -> None:
    write_notes(tmp_path / "notes")
    done = run(
        "from rankloop.service.stores.sqlite import SqliteStore\n"
        "from rankloop.service.log.writer import LogWriter\n"
        f"box = SearchBox({str(tmp_path / 'notes')!r}, {str(tmp_path / 'data')!r})\n"
        f"for _ in range(3): box.learn(box.search({SECRET!r}), clicks=['knots.md'])\n"
        "box.learn(box.search('boat'), clicks=['harbours.md'])\n"
        "shown = box.search('boat')\n"
        "box.learn(shown, clicks=['knots.md', 'boats.md'])\n"
        f"{where} = lambda *given: os.kill(os.getpid(), signal.SIGKILL)\n"
        + (f"box.forget(query={SECRET!r})" if left == 0 else "box.undo(shown, 'boats.md')")
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with box_over(tmp_path) as box:
        assert box.predict("boat").state == left + 2
        assert_replays(box)
        assert box.forget(query=SECRET) == left
        assert box.predict("boat").state == 2
        assert forgotten(data(box), b"colonel", b"mustard")
        assert_replays(box)


def test_of_several_what_is_all_of_them(box: SearchBox) -> None:
    for text, visitor in (("boat", "a"), ("boat", "b"), ("harbour", "a")):
        prefer(box, "harbours.md", text, times=1, visitor=visitor)
    assert box.forget(query="boat", visitor="a") == 1
    left = [record.event for record in records(data(box)) if isinstance(record.event, Ranked)]
    assert [(event.query_id, event.user) for event in left] == [("boat", "b"), ("harbour", "a")]
    assert_replays(box)


def test_days_are_forgotten(box: SearchBox) -> None:
    first = digest(box)
    prefer(box, "knots.md", times=2)
    assert box.forget(days=1) == 0
    assert box.forget(days=0) == 2
    assert digest(box) == first
    assert box.predict("boat").ids == ENGINE_ORDER
    assert not [record for record in records(data(box)) if isinstance(record.event, Ranked | FeedbackReceived)]
    assert_replays(box)


def test_what_is_forgotten_while_it_is_open_cannot_be_learned(box: SearchBox) -> None:
    shown = box.search(SECRET)
    assert box.forget(query=SECRET) == 1
    with pytest.raises(NotFound):
        box.learn(shown, clicks=["knots.md"])
    assert_replays(box)


def test_the_state_is_the_log_after_all_of_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    box = box_over(tmp_path)
    for turn in range(25):
        shown = box.search(str(rng.choice(["boat", "harbour boat", SECRET])), visitor=f"v{rng.integers(3)}")
        if rng.random() < 0.8:
            box.learn(shown, clicks=list(rng.choice(shown.ids, rng.integers(1, 3), replace=False)))
        if turn % 6 == 3:
            box.undo(shown, shown.ids[0])
        if turn % 10 == 8:
            box.forget(visitor=f"v{rng.integers(3)}")
        if turn == 12:
            box.close()
            box = box_over(tmp_path)
        assert_replays(box)
    box.close()
    assert replay(tmp_path / "data").checked >= 1


def test_segments_like_different_values_of_a_field(tmp_path: Path) -> None:
    words = " ".join(f"word{i}" for i in range(9))  # in all of them: the engine cannot tell them apart
    rows = [f"d{i},Boat,boat {words},{'sailing' if i % 2 else 'motor'}" for i in range(12)]
    (tmp_path / "boats.csv").write_text("\n".join(["id,title,body,kind", *rows]))
    with SearchBox(tmp_path / "boats.csv", tmp_path / "data", fields=["kind"]) as box:

        def share(segment: str) -> float:
            """Of sailing boats among the first four, for a query that nobody asked."""
            ids = box.predict("word8", segment=segment).ids[:4]
            return float(np.mean([int(id[1:]) % 2 for id in ids]))

        for turn in range(24):
            for segment, wanted in (("sailors", 1), ("drivers", 0)):
                shown = box.search(f"word{turn % 8}", segment=segment)
                box.learn(shown, clicks=[id for id in shown.ids if int(id[1:]) % 2 == wanted][:2])
        assert (share("sailors"), share("drivers")) == (1.0, 0.0)
        why = [part.name for part in box.explain(box.search("boat", segment="sailors"), "d1").contributions]
        assert [name for name in why if "segment" in name]
        assert_replays(box)


def test_fields_that_are_new_join_what_was_learned(tmp_path: Path) -> None:
    (tmp_path / "boats.csv").write_text("id,title,body,kind\na,Boat,boat boat,x\nb,Boat,boat,y\n")
    with SearchBox(tmp_path / "boats.csv", tmp_path / "data") as box:
        prefer(box, "b", times=4)
    with SearchBox(tmp_path / "boats.csv", tmp_path / "data", fields=["kind"]) as box:
        assert box.predict("boat").ids == ["b", "a"]
        box.learn(box.search("boat", segment="s"), clicks=["b"])
        assert_replays(box)
    with SearchBox(tmp_path / "boats.csv", tmp_path / "data") as box:
        assert box.predict("boat").ids == ["b", "a"]
        assert_replays(box)
    with pytest.raises(InvalidInput, match="rename the field 'document'"):
        SearchBox(tmp_path / "boats.csv", tmp_path / "other", fields=["document"])


def test_an_unknown_option_is_refused(box: SearchBox) -> None:
    with pytest.raises(InvalidInput, match="Unexpected keyword argument 'colour'"):
        box.search("boat", colour="red")


class OwnEngine:
    """Somebody's own, of three calls: the longest text first."""

    def __init__(self) -> None:
        self.texts = {"a": "boat boat boat", "b": "a boat", "c": "boat"}

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        found = [id for id, text in self.texts.items() if set(query.words) & set(text.split())]
        return [Candidate(id, float(len(self.texts[id]))) for id in found]

    def features(self, query: TextQuery, ids: Sequence[str]) -> Any:
        return [[0.0] * len(MATCHES) for _ in ids]

    def document(self, id: str) -> TextDocument | None:
        fields = {"kind": "short" if len(self.texts[id]) < 5 else "long"}
        return TextDocument(id, id.upper(), self.texts[id], fields=fields) if id in self.texts else None


def test_an_engine_of_ones_own(tmp_path: Path) -> None:
    with SearchBox(engine=OwnEngine(), data=tmp_path / "data", fields=["kind"]) as box:
        assert box.predict("boat").ids == ["a", "b", "c"]
        assert box.search("ship").ids == []
        assert isinstance(box.search("boat"), SearchResults)
        prefer(box, "c", times=12, segment="s")
        assert box.predict("boat").ids[0] == "c"
        assert box.predict("boat").results[0].title == "C"
        assert [
            part.name
            for part in box.explain(box.search("boat", segment="s"), "c").contributions
            if "short" in part.name
        ]
        with pytest.raises(InvalidInput, match="keeps its own documents"):
            box.refresh()
        assert box.forget(query="boat") == 14
        assert box.predict("boat").ids == ["a", "b", "c"]
        assert_replays(box)


def test_a_document_that_is_taken_out_meanwhile_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are asked for again when one of them has no features any more, or no text."""
    own, wanted = OwnEngine(), list[list[str]]()

    def features(query: TextQuery, ids: Sequence[str]) -> Any:
        wanted.append(list(ids))
        if own.texts.pop("a", None):
            raise InvalidInput("there is no document 'a' in the index")
        return np.zeros((len(ids), len(MATCHES)))

    monkeypatch.setattr(own, "features", features)
    with SearchBox(engine=own, data=tmp_path / "data") as box:
        assert box.predict("boat").ids == ["b", "c"]
        assert wanted == [["a", "b", "c"], ["b", "c"]]
        monkeypatch.setattr(own, "document", lambda id: None if id == "b" else TextDocument(id, id, id))
        assert box.search("boat").ids == ["c"]


def test_an_engine_that_breaks_its_promise_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SearchBox(engine=OwnEngine(), data=tmp_path / "data") as box:
        monkeypatch.setattr(OwnEngine, "features", lambda engine, query, ids: np.zeros((len(ids), 3)))
        with pytest.raises(InvalidInput, match="see MATCHES"):
            box.search("boat")
        monkeypatch.setattr(OwnEngine, "features", lambda engine, query, ids: np.full((len(ids), 10), np.nan))
        with pytest.raises(InvalidInput):
            box.search("boat")
        assert box.predict("ship").ids == []


def test_visitors_are_remembered_only_on_request(tmp_path: Path) -> None:
    """Each visitor's own clicks count for this visitor, beside those of all."""
    with box_over(tmp_path / "off") as box:
        prefer(box, "knots.md", visitor="ann")
        assert box.predict("boat", visitor="ann").ids == box.predict("boat", visitor="bob").ids
    with box_over(tmp_path / "on", remember_visitors=True) as box:
        for _ in range(4):
            prefer(box, "knots.md", times=1, visitor="ann")
            prefer(box, "harbours.md", times=1, visitor="bob")
        assert box.predict("boat", visitor="ann").ids[0] == "knots.md"
        assert box.predict("boat", visitor="bob").ids[0] == "harbours.md"
        names = [part.name for part in box.explain(box.search("boat", visitor="ann"), "knots.md").contributions]
        assert "visitor = ann × document = knots.md" in names
        box.forget(visitor="ann")
        assert box.predict("boat", visitor="ann").ids == box.predict("boat", visitor="eve").ids
        assert_replays(box)
    assert b"ann" not in content_of(tmp_path / "on" / "data")


def test_remembering_visitors_can_begin_later(tmp_path: Path) -> None:
    with box_over(tmp_path) as box:
        prefer(box, "knots.md", visitor="ann")
    with box_over(tmp_path, remember_visitors=True) as box:
        prefer(box, "harbours.md", times=6, visitor="bob")
        assert box.predict("boat", visitor="bob").ids[0] == "harbours.md"
