"""Which learner for which feedback: the one table behind `rankloop advise` and a page of the documentation."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.games import Advice

FEEDBACK = {
    "clicks": "clicks on the list",
    "order": "a better order of the list",
    "grades": "grades of all items",
    "top_grades": "grades of the first k items",
    "reward": "a click, or none, on the one thing shown",
    "files": "files of queries with grades",
    "log": "a log of lists and clicks",
    "ad_log": "a log of ads, each with its probability to be shown",
}
ITEMS = {"features": "with features", "fields": "with fields as they are", "fixed": "a fixed set"}
ANSWERS = {
    "clicks": "clicks=shown.ids[:1]",
    "order": 'preferred=["b", "a"]',
    "grades": "relevances={item: float(item == shown.ids[0]) for item in shown.ids}",
    "top_grades": "relevances={item: 1 for item in shown.ids[:%d]}",
    "reward": "reward=1.0",
}
FIELDS = 'features={"price": "number", "brand": "category"}, context={"segment": "category"}, crosses=["segment*brand"]'
ASKED = '{"a": {"price": 1999, "brand": "Acme"}, "b": {"price": 700}}, context={"segment": "sport"}'


class ProblemSize(NamedTuple):
    """What a first program has to be told beside the learner; `depth` is for top_grades, the rest for fixed sets."""

    n_items: int | None = None
    depth: int = 1
    max_grade: int = 1


USUAL = ProblemSize()


class Choice(NamedTuple):
    """A row of the table: `when` is empty for the first choice, `use` is a learner's spec or a command."""

    feedback: str
    items: str
    use: str
    why: str
    page: str
    when: str = ""

    @property
    def learner(self) -> str | None:
        return None if self.use.startswith("rankloop ") else self.use

    def as_table(self, size: ProblemSize = USUAL) -> dict[str, Any]:
        """The row with its learner and first program, as JSON writes it."""
        return self._asdict() | {"learner": self.learner, "start": start(self, size)}


@cache
def table() -> tuple[Choice, ...]:
    """Every row, as `advice.toml` has them."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(Choice(**row) for row in tomllib.loads(text)["choices"])


def choices(feedback: str, items: str | None = None) -> tuple[Choice, ...]:
    """The rows for this feedback and these items, the first choice first; None stands for the usual items."""
    if feedback not in FEEDBACK:
        raise InvalidInput(f"feedback is one of {', '.join(FEEDBACK)}; got {feedback!r}")
    rows = [row for row in table() if row.feedback == feedback]
    items = items or rows[0].items
    if items not in ITEMS:
        known = "'features' (numbers), 'fields' (as they are), or 'fixed' or a number for a fixed set"
        raise InvalidInput(f"items are {known}; got {items!r}")
    found = tuple(row for row in rows if row.items == items)
    if not found:
        raise InvalidInput(f"for {FEEDBACK[feedback]} there is an answer for items {rows[0].items!r} only")
    return found


def start(choice: Choice, size: ProblemSize = USUAL) -> str:
    """A program of a few lines that runs as it stands, or a command."""
    if choice.learner is None:
        return choice.use
    problem, asked = _problem(choice, size)
    return "\n".join(
        [
            "from rankloop import Ranker",
            "",
            f"ranker = Ranker({json.dumps(choice.use)}, {problem})",
            f"shown = ranker.rank({asked})",
            "print(shown.ids)  # show these, best first",
            f"ranker.learn(shown, {_answer(choice, size)})",
        ]
    )


def start_of_advice(advice: "Advice") -> str | None:
    """The first program with the learner of a verdict on a measure; None where nothing can be learned."""
    if advice.learner is None:
        return None
    found = advice.analysis
    feedback = "grades" if found.depth >= found.n_items else "top_grades"
    size = ProblemSize(found.n_items, found.depth, found.max_grade)
    return start(choices(feedback, "fixed")[0]._replace(use=advice.learner), size)


def _problem(choice: Choice, size: ProblemSize) -> tuple[str, str]:
    """What a `Ranker` has to know beforehand, and what it is asked."""
    names = f'[f"item {{i}}" for i in range({size.n_items})]' if size.n_items else '["a", "b", "c", "d"]'
    depth = f", depth={size.depth}" if choice.feedback == "top_grades" else ""
    candidates = '{"a": {"price": 0.3}, "b": {"price": 0.5, "rating": 4.5}}'
    shown = ", shown=1" if choice.feedback == "reward" else ""
    if choice.items == "fields":
        return FIELDS + shown, ASKED
    if choice.items == "features":
        return f'features=["price", "rating"]{depth}{shown}', candidates
    if choice.feedback == "order":
        return 'features=["a", "b"]', '{"a": {"a": 1}, "b": {"b": 1}}'
    if choice.feedback == "reward":
        return f'items={names}, context=["age"]', 'context={"age": 0.4}'
    grades = f", max_grade={size.max_grade}" if size.max_grade != 1 else ""
    return f"items={names}{depth}{grades}", ""


def _answer(choice: Choice, size: ProblemSize) -> str:
    """What came back, as an argument of `Ranker.learn`; a reward of items with features is a click on the first."""
    if choice.feedback == "top_grades":
        return ANSWERS["top_grades"] % size.depth
    click = choice.feedback == "reward" and choice.items != "fixed"
    return ANSWERS["clicks" if click else choice.feedback]
