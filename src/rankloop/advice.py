"""The table of recommended learners by feedback and items, behind `rankloop advise` and a page of the docs."""

import json
import tomllib
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.games import Advice

ADVICE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FEEDBACK_TEXTS: dict[str, str] = ADVICE["feedback"]
ITEM_TEXTS: dict[str, str] = ADVICE["items"]


class ProblemSize(NamedTuple):
    """The sizes that a first program needs; `depth` is for top_grades, the others are for fixed sets."""

    n_items: int | None = None
    depth: int = 1
    max_grade: int = 1


DEFAULT_SIZE = ProblemSize()


class Choice(NamedTuple):
    """A row of the table; `when` is empty for the first choice, `use` is a learner's spec or a command."""

    feedback: str
    items: str
    use: str
    why: str
    page: str
    when: str = ""

    @property
    def learner(self) -> str | None:
        """The learner's spec; None where the row names a command."""
        return None if self.use.startswith("rankloop ") else self.use

    def as_table(self, size: ProblemSize = DEFAULT_SIZE) -> dict[str, Any]:
        """Return the row with its learner and first program, for JSON."""
        return self._asdict() | {"learner": self.learner, "start": self.start(size)}

    def start(self, size: ProblemSize = DEFAULT_SIZE) -> str:
        """Return a short program that runs as it is, or a command."""
        if self.learner is None:
            return self.use
        parts = ADVICE["programs"][self.items]
        parts = {"learn": ADVICE["learn"].get(self.feedback), **parts, **parts.get(self.feedback, {})}
        program = (
            f"from rankloop import Ranker\n\nranker = Ranker({json.dumps(self.use)}, {parts['problem']})\n"
            f"shown = ranker.rank({parts['rank']})\nprint(shown.ids)  # show these, best first\n"
            f"ranker.learn(shown, {parts['learn']})"
        )
        sizes = {
            "items": f'[f"item {{i}}" for i in range({size.n_items})]' if size.n_items else '["a", "b", "c", "d"]',
            "depth": f", depth={size.depth}" if self.feedback == "top_grades" else "",
            "top": size.depth,
            "max_grade": f", max_grade={size.max_grade}" if size.max_grade != 1 else "",
        }
        return Template(program).substitute(sizes)


@cache
def table() -> tuple[Choice, ...]:
    """Return all rows of `advice.toml`."""
    return tuple(Choice(**row) for row in ADVICE["choices"])


def choices(feedback: str, items: str | None = None) -> tuple[Choice, ...]:
    """Return the rows for some feedback and items, the first choice first.

    Args:
      feedback: One of `FEEDBACK_TEXTS`.
      items: One of `ITEM_TEXTS`; None: the usual ones for this feedback.

    Examples:
      >>> choices("clicks")[0].use
      'newton_pairs'
    """
    if feedback not in FEEDBACK_TEXTS:
        raise InvalidInput(f"feedback must be one of {', '.join(FEEDBACK_TEXTS)}; got {feedback!r}")
    rows = [row for row in table() if row.feedback == feedback]
    items = items or rows[0].items
    if items not in ITEM_TEXTS:
        valid = "'features' (numbers), 'fields' (raw values), 'fixed' (a fixed set) or the size of a fixed set"
        raise InvalidInput(f"items must be {valid}; got {items!r}")
    matches = tuple(row for row in rows if row.items == items)
    if not matches:
        raise InvalidInput(f"for {FEEDBACK_TEXTS[feedback]} there is advice for items {rows[0].items!r} only")
    return matches


def start_of_advice(advice: "Advice") -> str | None:
    """Return a short program with the learner of a verdict on a measure; None where nothing can be learned."""
    if advice.learner is None:
        return None
    analysis = advice.analysis
    feedback = "grades" if analysis.depth >= analysis.n_items else "top_grades"
    choice = choices(feedback, "fixed")[0]._replace(use=advice.learner)
    return choice.start(ProblemSize(analysis.n_items, analysis.depth, analysis.max_grade))
