"""What a rehearsal says: which learner to take, what it would win and cost, or that there is nothing to win."""

import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankloop.click_models.fit import FIXED_ORDER, UserFit, examined_by_position
from rankloop.core.types import Floats
from rankloop.experiments.rehearsal.play import BLOCKS
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.html import write_report
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.features.schema import Schema
from rankloop.training.report import text_table

TODAY = "today's order"
PER = 1000  # pages, in every number that people read
MIN_GAIN = 0.01  # of what today's order earns: less is not worth a project
PARTS = {  # of a learner's gain, and how a table calls them
    "late": "once it has learned",
    "known": "without exploring",
    "whole": "over all pages",
    "exploration": "of which exploring",
}
HOW = (
    "Clicks are those of a click model that was fitted to the log; pages, items and fields are the log's own. "
    "Learners see where an item stands today as a field: give today's score as `base` when you serve. Every seed is "
    "another world that the log allows, and intervals are over seeds (95 %): they do not cover users who behave "
    "differently from the model, nor items that were never shown. Confirm the result by an experiment with real "
    "users."
)
Word = Literal["take", "no gain", "cannot tell"]


class RehearsalGain(NamedTuple):
    """A mean over seeds, per 1,000 pages, and its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        mean, low, high = (round(value, 1) + 0.0 for value in self)  # no minus before 0
        return f"{mean:+,.1f} ({low:+,.1f} to {high:+,.1f})"


class ArmResult(NamedTuple):
    """What an arm earned beside today's order, by measure (clicks, purchases, money)."""

    name: str
    learner: Any  # its spec, with every parameter
    curve: Floats  # (seeds, blocks, measures), per 1,000 pages
    late: dict[str, RehearsalGain]  # when it has learned, exploration included
    known: dict[str, RehearsalGain]  # on the same pages without exploration
    whole: dict[str, RehearsalGain]  # over the whole rehearsal
    exploration: dict[str, RehearsalGain]  # what is lost at the end by exploring
    refused: int

    def to_json(self) -> dict[str, Any]:
        """Return the gains for programs."""
        gains = {part: {name: gain._asdict() for name, gain in getattr(self, part).items()} for part in PARTS}
        return {"name": self.name, "learner": self.learner, **gains, "refused": self.refused}


class Rehearsal(NamedTuple):
    """The answer of a rehearsal; prints as tables with the answer in one sentence below."""

    log: str  # its name
    word: Word
    take: str  # the arm; empty: none
    measures: tuple[str, ...]
    today: dict[str, float]  # per 1,000 pages
    arms: tuple[ArmResult, ...]
    users: UserFit
    fields_matter: bool
    pairs_matter: bool
    schema: Schema
    horizon: int
    n_seeds: int
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        if self.word == "cannot tell":
            return f"This log cannot tell: {FIXED_ORDER}. Show some lists in another order, then ask again."
        if self.word == "no gain" and not self.fields_matter and not self.pairs_matter:
            return (
                "No gain to be seen: keep today's order. Nothing tells the items of this log apart by more than "
                "chance; a longer log, or other columns, may."
            )
        if self.word == "no gain":
            best = max(self.arms, key=lambda arm: arm.late["clicks"].mean)
            change = f"{best.name}, would change clicks by {best.late['clicks']} per {PER:,} pages"
            if best.late["clicks"].mean > MIN_GAIN * self.today["clicks"]:
                return f"No sure gain yet: the best learner, {change}. More --pages and --seeds, no --quick, can tell."
            return f"No gain: keep today's order. The best learner, {change}."
        arm = next(arm for arm in self.arms if arm.name == self.take)
        wins = ", ".join(f"{arm.late[measure]} {measure}" for measure in self.measures)
        share = arm.late["clicks"].mean / self.today["clicks"]
        return f"Take {arm.name}: {wins} per {PER:,} pages beside today's order ({share:+.1%} clicks)."

    @property
    def tables(self) -> list[Table]:
        """What each learner wins by measure, and how well each click model predicts held-out visits."""
        tables = []
        for measure in self.measures:
            rows = [(arm.name, *(str(getattr(arm, part)[measure]) for part in PARTS)) for arm in self.arms]
            title = f"{measure.capitalize()} per {PER:,} pages, beside {self.today[measure]:,.1f} of today's order"
            tables.append(Table(title, ("learner", *PARTS.values()), rows))
        users = [
            (
                name + " *" * (name == self.users.fitted.name),
                f"{judged.log_likelihood:.4f}",
                f"{judged.perplexity:.4f}",
            )
            for name, judged in self.users.held_out.items()
        ]
        header = ("model", "log-likelihood of a page", "perplexity")
        return [*tables, Table("Click models, on held-out visits", header, users)]

    def __str__(self) -> str:
        tables = [f"{table.title}\n{text_table(table.header, table.rows)}" for table in self.tables]
        return "\n\n".join([*tables, self.sentence])

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        return {
            "answer": self.word,
            "take": self.take,
            "sentence": self.sentence,
            "today": self.today,
            "arms": [arm.to_json() for arm in self.arms],
            "users": self.users.fitted.spec(),
            "held_out": {name: judged.log_likelihood for name, judged in self.users.held_out.items()},
            "fields_matter": self.fields_matter,
            "pairs_matter": self.pairs_matter,
            "schema": self.schema.to_plain(),
            "pages": self.horizon,
            "seeds": self.n_seeds,
            "notes": self.notes,
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw clicks per 1,000 pages while each learner learns into a PNG file."""
        Path(path).write_bytes(self._curves().png)

    def write_report(self, folder: str | os.PathLike[str]) -> Path:
        """Write a page with the answer, the charts and the tables, and return its path."""
        examined = ", ".join(f"{share:.2f}" for share in examined_by_position(self.users.fitted)[:10])
        facts = (
            ("log", self.log),
            ("pages played", f"{self.horizon:,}"),
            ("seeds", str(self.n_seeds)),
            ("users", self.users.fitted.name),
            ("examined, first positions", examined),
            ("fields tell what attracts", "yes" if self.fields_matter else "no"),
            ("items differ beyond that", "yes" if self.pairs_matter else "no"),
        )
        spec = {"learners": {arm.name: arm.learner for arm in self.arms}, "users": self.users.fitted.spec()}
        finding = Finding(
            id="rehearsal",
            title=f"Would it help? {self.log}",
            text="\n\n".join([self.sentence, *self.notes]),
            charts=(self._curves(),),
            tables=tuple(self.tables),
            facts=facts,
            spec=json.dumps(spec, indent=1),
        )
        return write_report(Path(folder), finding.title, [finding])

    def _curves(self) -> Chart:
        rounds = np.arange(1, BLOCKS + 1) * self.horizon // BLOCKS
        lines = [Line(arm.name, arm.curve[:, :, 0], number) for number, arm in enumerate(self.arms)]
        lines.append(Line(TODAY, np.full((1, BLOCKS), self.today["clicks"]), role="floor"))
        return chart("clicks", f"Clicks per {PER:,} pages", rounds, lines, x_label="pages", caption=HOW)
