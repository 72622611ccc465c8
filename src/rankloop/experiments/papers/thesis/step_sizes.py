"""Step sizes chosen on another part of the stream, for every learner alike, before anything is compared."""

from typing import Any, NamedTuple

import numpy as np

from rankloop.experiments.analysis.curves import Curves, estimate, values_at
from rankloop.experiments.papers.comparison import experiment_of, play_all
from rankloop.experiments.papers.registry import Setting
from rankloop.experiments.report.model import Table
from rankloop.experiments.spec.model import Arm, Thing

MEASURE = "nDCG@10"
TUNING_SEEDS = (1000, 1001, 1002, 1003)  # other draws than those of the comparison


class Contender(NamedTuple):
    """A learner whose `learning_rate` is still to be chosen, the feedback it gets, and the rates to try."""

    name: str
    learner: dict[str, Any]
    feedback: Thing = "full"
    rates: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0)


def with_chosen_rates(
    contenders: tuple[Contender, ...], streams: dict[str, Thing], horizon: int, setting: Setting
) -> list[tuple[tuple[Arm, ...], Table]]:
    """For each stream, the contenders with the rates of highest mean nDCG@10 on it, and a table of what was tried."""
    seeds = TUNING_SEEDS[:2] if setting.quick else TUNING_SEEDS
    arms = [_arm(who, rate, f"{who.name}, {rate:g}") for who in contenders for rate in who.rates]
    experiments = [
        experiment_of(f"{name}-steps", stream, arms, MEASURE, horizon, seeds, floor=False)
        for name, stream in streams.items()
    ]
    return [_chosen(contenders, curves) for curves in play_all(experiments, setting)]


def _chosen(contenders: tuple[Contender, ...], curves: Curves) -> tuple[tuple[Arm, ...], Table]:
    chosen, rows, most = [], [], max(len(who.rates) for who in contenders)
    for who in contenders:
        values = [estimate(values_at(curves, f"{who.name}, {rate:g}", MEASURE, "average")).mean for rate in who.rates]
        best = who.rates[int(np.argmax(values))]
        chosen.append(Arm(**_arm(who, best, who.name)))
        rows.append((who.name, *(f"{value:.4f}" for value in values), *[""] * (most - len(values)), f"{best:g}"))
    header = ("learner", *(f"rate {position + 1}" for position in range(most)), "chosen")
    note = (
        f"Mean nDCG@10 over {curves.experiment.horizon:,} rounds of another part of the stream; rates rise from left "
        "to right."
    )
    return tuple(chosen), Table("How the step sizes were chosen", header, rows, note)


def _arm(who: Contender, rate: float, name: str) -> dict[str, Any]:
    return {"name": name, "learner": who.learner | {"learning_rate": rate}, "feedback": who.feedback}
