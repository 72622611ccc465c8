"""The answer of a rehearsal: which learner to take, its gain and the cost of exploring, or that there is no gain."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankloop.click_models.examination import EVIDENCE_WORDS
from rankloop.click_models.fit import UserFit
from rankloop.core.types import Floats
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.html import write_report
from rankloop.experiments.report.model import Chart, Finding, Table
from rankloop.features.schema import Schema
from rankloop.training.report import text_table

TODAY_ARM = "today's order"
PER_PAGES = 1000  # pages, in every number that is printed
N_CURVE_POINTS = 20  # points of a learning curve
MIN_GAIN = 0.01  # of what today's order earns: less is not worth a project
REHEARSAL_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PART_NAMES: dict[str, str] = REHEARSAL_TEXTS["parts"]  # of a learner's gain
UNSUITABLE_LOGS: dict[str, str] = REHEARSAL_TEXTS["unsuitable"]  # by the property of the examination
Word = Literal["take", "no gain", "cannot tell"]


class RehearsalGain(NamedTuple):
    """A mean over worlds, per 1,000 pages, and the interval of one further world."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        mean, low, high = (round(value, 1) + 0.0 for value in self)  # no minus before 0
        return f"{mean:+,.1f} ({low:+,.1f} to {high:+,.1f})"


class ArmResult(NamedTuple):
    """The gain of an arm beside today's order, by measure (clicks, purchases, money)."""

    name: str
    learner: Any  # its spec, with every parameter
    curve: Floats  # (worlds, blocks, measures), per 1,000 pages
    late: dict[str, RehearsalGain]  # when it has learned, exploration included
    learned: dict[str, RehearsalGain]  # on the same pages without exploration
    overall: dict[str, RehearsalGain]  # over all pages
    exploration: dict[str, RehearsalGain]  # the loss at the end by exploring
    refused: int  # updates that were left out

    def to_json(self) -> dict[str, Any]:
        """Return the gains for programs."""
        gains = {part: {name: gain._asdict() for name, gain in getattr(self, part).items()} for part in PART_NAMES}
        return {"name": self.name, "learner": self.learner, **gains, "refused": self.refused}


class Rehearsal(NamedTuple):
    """The answer of a rehearsal; prints as tables with the answer in one sentence below."""

    log: str  # its name
    word: Word  # the answer
    chosen: str  # the arm that looked best in other worlds than those that judge it
    measures: tuple[str, ...]  # clicks, purchases and money, as far as the log has them
    today: dict[str, float]  # what today's order earns per 1,000 pages
    best: dict[str, RehearsalGain]  # of the best order of each world
    arms: tuple[ArmResult, ...]
    users: UserFit
    fields_matter: bool  # they predict clicks
    pairs_matter: bool  # items differ beyond their fields
    schema: Schema  # of the items
    horizon: int  # pages that each learner was played for
    n_seeds: int  # worlds that judged
    notes: tuple[str, ...]  # a sentence each

    @property
    def take(self) -> str:
        """The arm to take; empty: none."""
        return self.chosen if self.word == "take" else ""

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        if self.word == "cannot tell":
            examination = self.users.examination
            reasons = (reason for name, reason in UNSUITABLE_LOGS.items() if getattr(examination, name, True))
            return f"This log cannot tell: {next(reasons).format(evidence=EVIDENCE_WORDS['none'])}"
        arm = next(arm for arm in self.arms if arm.name == self.chosen)
        if self.word == "no gain" and not self.fields_matter and not self.pairs_matter:
            return (
                "No gain to be seen: keep today's order. Nothing tells the items of this log apart by more than "
                "chance; a longer log, or other columns, may."
            )
        if self.word == "no gain":
            change = f"{arm.name} would change clicks by {arm.late['clicks']} per {PER_PAGES:,} pages"
            if arm.late["clicks"].mean > MIN_GAIN * self.today["clicks"]:
                return f"No significant gain yet: {change}. Use more --pages and --seeds."
            return f"No gain: keep today's order; {change}."
        wins = ", ".join(f"{arm.late[measure]} {measure}" for measure in self.measures)
        share = arm.late["clicks"].mean / self.today["clicks"]
        ceiling = f"the best possible order would win {self.best['clicks']}"
        return f"Take {arm.name}: {wins} per {PER_PAGES:,} pages beside today's order ({share:+.1%} clicks); {ceiling}."

    @property
    def tables(self) -> list[Table]:
        """The gain of each learner by measure, and the fit of each click model to held-out visits."""
        tables = []
        for measure in self.measures:
            rows = [(arm.name, *(str(getattr(arm, part)[measure]) for part in PART_NAMES)) for arm in self.arms]
            rows.append(("best possible order", str(self.best[measure]), "", "", ""))
            pages = f"{measure.capitalize()} per {PER_PAGES:,} pages"
            title = f"{pages}: change from {self.today[measure]:,.1f} of today's order (95 % interval)"
            tables.append(Table(title, ("learner", *PART_NAMES.values()), rows))
        fitted, header = self.users.fitted.name, ("model", "log-likelihood of a page", "perplexity")
        users = [
            (name + " *" * (name == fitted), f"{judged.log_likelihood:.4f}", f"{judged.perplexity:.4f}")
            for name, judged in self.users.held_out.items()
        ]
        return [*tables, Table("Click models, on held-out visits (*: chosen)", header, users)]

    def __str__(self) -> str:
        tables = [f"{table.title}\n{text_table(table.header, table.rows)}" for table in self.tables]
        return "\n\n".join([*tables, str(self.users.examination), self.sentence])

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        return {
            "answer": self.word,
            "take": self.take,
            "sentence": self.sentence,
            "today": self.today,
            "best": {measure: gain._asdict() for measure, gain in self.best.items()},
            "examination": self.users.examination.to_json(),
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
        examined = ", ".join(f"{share:.2f}" for share in self.users.examination.curve[:10])
        facts = (
            ("log", self.log),
            ("pages played", f"{self.horizon:,}"),
            ("seeds", str(self.n_seeds)),
            ("users", self.users.fitted.name),
            ("examination, first positions", examined),
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
        rounds = np.arange(1, N_CURVE_POINTS + 1) * self.horizon // N_CURVE_POINTS
        lines = [Line(arm.name, arm.curve[:, :, 0], number) for number, arm in enumerate(self.arms)]
        lines.append(Line(TODAY_ARM, np.full((1, N_CURVE_POINTS), self.today["clicks"]), role="floor"))
        title = f"Clicks per {PER_PAGES:,} pages"
        return chart("clicks", title, rounds, lines, x_label="pages", caption=REHEARSAL_TEXTS["report"]["caption"])
