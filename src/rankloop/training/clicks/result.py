"""The result of training on clicks: a ranker, how it was chosen, and warnings."""

import os
from dataclasses import dataclass
from typing import Any, Literal

from rankloop.core.saved_session import save
from rankloop.core.session import Session
from rankloop.core.types import Floats
from rankloop.evaluation.ranking.score import HELD_OUT_GAIN
from rankloop.features.schema import Schema
from rankloop.training.bundle import Solution
from rankloop.training.clicks.weights import GAIN_MEASURE, HeldOutJudgement
from rankloop.training.report import draw_curves, text_table

SENTENCES = {
    "better": "BETTER THAN AS LOGGED on held-out lists",
    "as logged wins": "AS LOGGED WINS on held-out lists, so do not replace the logged order",
    "cannot tell": "CANNOT TELL: keep today's order until `rankloop evaluate` or a test says otherwise",
}


@dataclass(frozen=True, kw_only=True)
class ClickTraining:
    """A ranker that was trained on clicks; it prints as the table by which it was chosen."""

    session: Session  # the ranker in use
    choice: Literal["regularisation", "passes"]  # the quantity that held-out lists chose
    chosen: float  # its value
    gains: dict[float, float]  # by value, the weighted clicks gained on held-out lists
    logged_gain: float | None  # the same for the order that was logged; None where the lists stay on disk
    examined: Floats  # the probability of each position to be examined
    examined_is_known: bool  # given, or estimated from items that moved; else the loss learned it
    n_lists: int  # of the log
    loss: str = ""  # empty for passes of an online learner
    tight: bool = False  # the tighter, non-convex bound was taken
    solution: Solution | None = None  # of the batch solver
    judgement: HeldOutJudgement | None = None  # of `evaluate`; None for grades and lists on disk
    schema: Schema | None = None  # by which values became features; None for plain numbers
    feature_names: tuple[str, ...] = ()  # of plain numbers, where the log tells them
    columns: str = ""  # one line with the roles of the columns
    notes: tuple[str, ...] = ()  # warnings, a sentence each

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranker as a file that `Ranker.load`, `rankloop evaluate` and the service read."""
        notes: dict[str, Any] = {self.choice: self.chosen, "examined": self.examined.tolist()}
        if self.logged_gain is not None:
            notes[HELD_OUT_GAIN] = self.gains[self.chosen] - self.logged_gain
        if self.loss:
            notes |= {"loss": self.loss, "tight": self.tight}
        if self.schema is not None:
            notes["schemas"] = [self.schema.to_plain()]
        save(self.session, path, notes)

    @property
    def as_logged_wins(self) -> bool:
        """True where no value of the choice gained more than the logged order, or `evaluate` calls the order worse."""
        is_worse = self.judgement is not None and self.judgement.verdict == "worse"
        return is_worse or (self.logged_gain is not None and self.logged_gain >= max(self.gains.values()))

    @property
    def verdict(self) -> Literal["better", "as logged wins", "cannot tell"]:
        """The answer of the held-out lists: better only where the judgement of `evaluate` says so."""
        if self.as_logged_wins:
            return "as logged wins"
        return "better" if self.judgement is not None and self.judgement.verdict == "better" else "cannot tell"

    @property
    def sentence(self) -> str:
        """The verdict with its numbers, and what to do."""
        change = ""
        if self.judgement is not None:
            change = f" Clicks per 1,000 held-out lists change by {self.judgement.gain}, 95 % confidence."
            change += "".join(f" This log cannot tell: {reason}." for reason in self.judgement.reasons)
        return f"{SENTENCES[self.verdict]}.{change}"

    def __str__(self) -> str:
        rows = [] if self.logged_gain is None else [("as logged", f"{self.logged_gain:.4f}")]
        rows += [(f"{value:g}", f"{gain:.4f}") for value, gain in self.gains.items()]
        source = "" if self.examined_is_known else " (learned: no item stands at two positions)"
        examined = ", ".join(f"{probability:.2f}" for probability in self.examined[:10])
        title = f"Held-out lists, by {self.choice} (clicks at rarely examined positions count more)"
        lines = [f"{self.n_lists:,} lists; {self.columns}", "", title]
        lines += [text_table((self.choice, GAIN_MEASURE), rows), ""]
        lines += [f"examination probability, first positions: {examined}{source}"]
        return "\n".join([*lines, f"chosen {self.choice}: {self.chosen:g}", self.sentence])

    def to_json(self) -> dict[str, Any]:
        """Return the choice, the verdict and the gains on held-out lists."""
        answer: dict[str, Any] = {"lists": self.n_lists, self.choice: self.chosen, "logged": self.logged_gain}
        answer |= {"as_logged_wins": self.as_logged_wins, "verdict": self.verdict, "sentence": self.sentence}
        answer["gain"] = None if self.judgement is None else self.judgement.gain._asdict()
        answer |= {"held_out": {f"{value:g}": gain for value, gain in self.gains.items()}}
        answer |= {"examined": self.examined.tolist(), "columns": self.columns, "notes": list(self.notes)}
        if self.solution is not None:
            answer |= {"loss": self.loss, "gap": self.solution.gap}
        if self.schema is None:
            return answer | {"features": list(self.feature_names)}
        return answer | {"schema": self.schema.to_plain()}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the gain on held-out lists over the choice, into a PNG, SVG or PDF file."""
        curve = (list(self.gains), [list(self.gains.values())])
        draw_curves(path, curve, self.chosen, xlabel=self.choice, ylabel=f"{GAIN_MEASURE} on held-out lists")
