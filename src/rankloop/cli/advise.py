"""`rankloop advise`: can this be learned from this feedback, how fast, with which learner."""

from __future__ import annotations

import typer

from rankloop.cli.analyse import Depth, Items, MaxGrade, MeasureName
from rankloop.cli.app import app
from rankloop.cli.options import AsJson


@app.command(epilog="Example: rankloop advise --measure nDCG --depth 1 --items 10")
def advise(
    measure: MeasureName = "nDCG",
    depth: Depth = 1,
    items: Items = 4,
    max_grade: MaxGrade = 1,
    as_json: AsJson = False,
) -> None:
    """Say in three lines what to expect of a measure and a depth, and what to use."""
    from rankloop.games import advise as advised

    advice = advised(measure, items, depth, max_grade)
    if as_json:
        import msgspec

        table = {"can": advice.can, "speed": advice.speed, "how": advice.how, "learner": advice.learner}
        typer.echo(msgspec.json.encode(table | {"analysis": advice.analysis.as_table()}))
        return
    for line in advice.lines:
        typer.echo(line)
