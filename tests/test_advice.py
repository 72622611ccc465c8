"""The table of choices: every program that it hands out runs, every learner fits, and the page prints the table."""

import re
from pathlib import Path

import pytest
import typer

from rankloop import InvalidInput, build
from rankloop.advice import FEEDBACK_TEXTS, ITEM_TEXTS, ProblemSize, choices, start_of_advice, table
from rankloop.cli.app import app
from rankloop.cli.main import import_commands
from rankloop.games import advise

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "which-learner.md"


def name(row):
    return f"{row.feedback}-{row.items}-{row.use}"


@pytest.mark.parametrize("row", [row for row in table() if row.learner], ids=name)
@pytest.mark.parametrize("size", [ProblemSize(), ProblemSize(n_items=5, depth=2, max_grade=2)])
def test_the_program_runs_and_the_learner_has_learned(row, size, capsys):
    names: dict = {}
    exec(row.start(size), names)  # noqa: S102
    assert names["ranker"].session.learned == 1
    assert capsys.readouterr().out.startswith("[")


@pytest.mark.parametrize("row", [row for row in table() if row.learner is None], ids=name)
def test_a_command_exists(row):
    import_commands()
    assert row.use.split()[1] in typer.main.get_group(app).commands


def test_the_advice_on_a_measure_has_its_program(capsys):
    exec(start_of_advice(advise("P@3", 10)), names := {})  # noqa: S102
    assert names["ranker"].session.learned == 1
    assert len(eval(capsys.readouterr().out)) == 10  # noqa: S307
    assert start_of_advice(advise("nDCG", 10)) is None


def test_one_first_choice_for_each_question():
    firsts = [(row.feedback, row.items) for row in table() if not row.when]
    assert len(firsts) == len(set(firsts))
    assert {feedback for feedback, _ in firsts} == set(FEEDBACK_TEXTS)
    assert {items for _, items in firsts} == set(ITEM_TEXTS)
    assert set(firsts) == {(row.feedback, row.items) for row in table()}
    assert all(choices(*question)[0].when == "" for question in firsts)


def test_every_page_exists_and_speaks_of_the_learner():
    for row in table():
        text = (ROOT / "docs" / row.page).read_text(encoding="utf-8")
        assert (row.use.split("(")[0] if row.learner else row.use.split()[1]) in text, row


def test_first_choices_beat_random_order_in_play():
    from rankloop import parse_measure, play

    plays = {
        ("clicks", "features"): ("linear_gaussian", "dcm(max_grade=4)"),
        ("clicks", "fixed"): ("flipped_relevance(n_items=8)", "dcm(max_grade=1)"),
        ("grades", "features"): ("linear_gaussian", "full"),
        ("grades", "fixed"): ("flipped_relevance(n_items=8)", "full"),
        ("top_grades", "features"): ("linear_gaussian", "top_k(depth=2)"),
        ("top_grades", "fixed"): ("flipped_relevance(n_items=8)", "top_k(depth=2)"),
        ("reward", "features"): ("linear_gaussian", "position_based(max_grade=4, shown=1)"),
    }
    measure = parse_measure("nDCG@3")
    for question, (stream, users) in plays.items():
        means = []
        for kind in (choices(*question)[0].use, "random_order"):
            parts = build(kind, "learner"), build(stream, "stream"), build(users, "feedback")
            values = [measure(one.decision.ranking, one.relevance) for one in play(*parts, horizon=800, seed=0)]
            means.append(sum(values[-300:]) / 300)
        assert means[0] > means[1] + 0.1, (question, means)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (("click", "features"), "feedback must be one of clicks, order"),
        (("clicks", "both"), "items must be 'features' (numbers)"),
        (("files", "fixed"), "items 'features' only"),
    ],
)
def test_a_question_without_an_answer(question, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        choices(*question)


def printed_rows():
    """The table of the page, as it has to be."""
    for row in table():
        use = f"`{row.use}`"
        asked = f"{FEEDBACK_TEXTS[row.feedback]}; {ITEM_TEXTS[row.items]}" if not row.when else f"… {row.when}"
        yield f"| {asked} | {use} | {row.why} ([more]({row.page})) |"


def test_the_page_prints_this_table():
    expected = "\n".join(["| what comes back; items | use | why |", "|---|---|---|", *printed_rows()])
    assert expected in PAGE.read_text(encoding="utf-8"), f"docs/which-learner.md should contain:\n{expected}"
