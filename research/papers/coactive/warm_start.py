"""Whether 3PR learns faster when clicks move items to the top at first, which the paper suggests and does not try."""

from typing import Any

from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.model import Finding
from research.papers.coactive.click_streams import (
    ACCEPTED_OPTIONS,
    PAPER,
    ClickStream,
    Plan,
    arm,
    at_start,
    at_the_end,
    compared,
)
from research.registry import Setting, reproduction
from research.verdicts import about, is_above

COLD, NEAR = "3PR", 0.01
WARM_ROUNDS = {f"3PR, warm for {rounds:,}": rounds for rounds in (100, 1000)}


@reproduction("coactive-warm", takes=ACCEPTED_OPTIONS, title="3PR after a start in which clicks move items to the top")
def warm_start(setting: Setting) -> Finding:
    """Section 8.1: "an interesting extension could be the combination of aggressive move-to-top feedback"."""

    def arms(stream: ClickStream) -> list[dict[str, Any]]:
        starts = {COLD: 0} | WARM_ROUNDS
        return [arm(name, {"kind": "3pr", "warm": rounds}, stream.users) for name, rounds in starts.items()]

    text = f"""{PAPER}, section 8.1, suggests "the combination of aggressive move-to-top feedback in early iterations \
with more conservative 3PR updates later". The paper makes no claim of it; these are ours."""
    finding, curves = compared(Plan("coactive-warm", text, arms, []), setting)
    verdicts = (
        verdict for name, stream_curves in curves.items() for verdict in about((name,), _verdicts(stream_curves))
    )
    return finding._replace(claims=tuple(verdicts))


def _verdicts(curves: Curves) -> list[Verdict]:
    verdicts = []
    for name in WARM_ROUNDS:
        faster = f"{name} rounds is above 3PR in the first tenth of the rounds"
        settled = f"in the end {name} rounds is at most {NEAR} below 3PR"
        verdicts.append(is_above(faster, at_start(curves, name), at_start(curves, COLD)))
        verdicts.append(is_above(settled, at_the_end(curves, name), at_the_end(curves, COLD), by=-NEAR))
    return verdicts
