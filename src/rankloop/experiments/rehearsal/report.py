"""A rehearsal as a page: the answer, what each learner would win and cost, and the people it was played against."""

import json
from pathlib import Path

import numpy as np

from rankloop.click_models.fit import examined_by_position
from rankloop.experiments.rehearsal.answer import PER, TODAY, Answer
from rankloop.experiments.rehearsal.play import BLOCKS
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.html import write_report
from rankloop.experiments.report.model import Chart, Finding, Table

HOW = (
    "Clicks are those of a click model that was fitted to the log; pages, items and fields are the log's own. Learners "
    "see where an item stands today as a field: give today's score as `base` when you serve. Every seed is another "
    "world that the log allows, and intervals are over seeds (95 %): they do not cover people who are not as the model "
    "says, nor items that were never shown. An experiment with real people decides."
)


def tables_of(answer: Answer) -> list[Table]:
    """What each learner wins by measure, and how well each click model foresees."""
    found = []
    for measure in answer.measures:
        rows = [
            (arm.name, *(str(part[measure]) for part in (arm.late, arm.known, arm.whole, arm.exploration)))
            for arm in answer.arms
        ]
        head = ("learner", "once it has learned", "without exploring", "over all pages", "of which exploring")
        title = f"{measure.capitalize()} per {PER:,} pages, beside {answer.today[measure]:,.1f} of today's order"
        found.append(Table(title, head, rows))
    people = [
        (name + " *" * (name == answer.users.fitted.name), f"{one.log_likelihood:.4f}", f"{one.perplexity:.4f}")
        for name, one in answer.users.held_out.items()
    ]
    found.append(Table("Click models, on held-out visits", ("model", "log-likelihood of a page", "perplexity"), people))
    return found


def curves(answer: Answer) -> Chart:
    """Clicks per 1,000 pages while each learner learns."""
    rounds = np.arange(1, BLOCKS + 1) * answer.horizon // BLOCKS
    lines = [Line(arm.name, arm.curve[:, :, 0], number) for number, arm in enumerate(answer.arms)]
    floor = np.full((1, BLOCKS), answer.today["clicks"])
    lines.append(Line(TODAY, floor, role="floor"))
    return chart("clicks", f"Clicks per {PER:,} pages", rounds, lines, x_label="pages", caption=HOW)


def write_rehearsal(answer: Answer, folder: Path, name: str) -> Path:
    """The report, and beside it the answer as JSON and the people as TOML."""
    examined = ", ".join(f"{one:.2f}" for one in examined_by_position(answer.users.fitted)[:10])
    facts = (
        ("log", name),
        ("pages played", f"{answer.horizon:,}"),
        ("seeds", str(answer.n_seeds)),
        ("people", answer.users.fitted.name),
        ("examined, first positions", examined),
        ("fields tell what attracts", "yes" if answer.fields_matter else "no"),
        ("items differ beyond that", "yes" if answer.pairs_matter else "no"),
    )
    spec = {"learners": {arm.name: arm.learner for arm in answer.arms}, "users": answer.users.fitted.spec()}
    finding = Finding(
        id="rehearsal",
        title=f"Would it help? {name}",
        text="\n\n".join([answer.sentence, *answer.notes]),
        charts=(curves(answer),),
        tables=tuple(tables_of(answer)),
        facts=facts,
        spec=json.dumps(spec, indent=1),
    )
    return write_report(folder, finding.title, [finding])


def plain_answer(answer: Answer) -> dict[str, object]:
    """The answer for programs."""
    arms = [
        {
            "name": arm.name,
            "learner": arm.learner,
            **{
                part: {measure: gain._asdict() for measure, gain in getattr(arm, part).items()}
                for part in ("late", "known", "whole", "exploration")
            },
            "refused": arm.refused,
        }
        for arm in answer.arms
    ]
    held_out = {name: one.log_likelihood for name, one in answer.users.held_out.items()}
    return {
        "answer": answer.word,
        "take": answer.take,
        "sentence": answer.sentence,
        "today": answer.today,
        "arms": arms,
        "users": answer.users.fitted.spec(),
        "held_out": held_out,
        "fields_matter": answer.fields_matter,
        "pairs_matter": answer.pairs_matter,
        "schema": answer.schema.to_plain(),
        "pages": answer.horizon,
        "seeds": answer.n_seeds,
        "notes": answer.notes,
    }
