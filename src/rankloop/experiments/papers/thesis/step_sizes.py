"""Step sizes chosen on another part of the stream, for every learner alike, before anything is compared."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from rankloop.experiments.analysis.curves import Curves, estimate, values_at
from rankloop.experiments.papers.comparison import experiment_of, play_all
from rankloop.experiments.papers.registry import Setting
from rankloop.experiments.report.model import Table
from rankloop.experiments.spec.model import Arm, Thing

MEASURE = "nDCG@10"
LEVEL = 0.001  # what differs less is equal
TUNING_SEEDS = (1000, 1001, 1002, 1003)  # other draws than those of the comparison


class Contender(NamedTuple):
    """A learner whose `learning_rate` is still to be chosen, the feedback it gets, and the rates to try.

    Where there are `radii`, its weights are held in a ball, and its `radius` is chosen together with the rate.
    """

    name: str
    learner: dict[str, Any]
    feedback: Thing = "full"
    rates: tuple[float, ...] = (1e-5, 1e-4, 0.001, 0.01, 0.1, 1.0, 10.0)
    radii: tuple[float | None, ...] = (None,)

    @property
    def choices(self) -> list["Choice"]:
        return [Choice(rate, radius) for radius, rate in product(self.radii, self.rates)]


class Choice(NamedTuple):
    """A step size, and a radius where there is one."""

    rate: float
    radius: float | None = None

    def __str__(self) -> str:
        return f"{self.rate:g}" if self.radius is None else f"{self.rate:g} in radius {self.radius:g}"


def with_chosen_rates(
    contenders: tuple[Contender, ...], streams: dict[str, tuple[Thing, int]], setting: Setting
) -> list[tuple[tuple[Arm, ...], Table]]:
    """For each stream, the contenders with the rates of highest mean nDCG@10 on so many rounds of it.

    Beside them stands a table of what was tried.
    """
    seeds = TUNING_SEEDS[:2] if setting.quick else TUNING_SEEDS
    arms = [_arm(who, choice, f"{who.name}, {choice}") for who in contenders for choice in who.choices]
    experiments = [
        experiment_of(f"{name}-steps", stream, arms, MEASURE, horizon, seeds, floor=False)
        for name, (stream, horizon) in streams.items()
    ]
    return [_chosen(contenders, curves) for curves in play_all(experiments, setting)]


def _chosen(contenders: tuple[Contender, ...], curves: Curves) -> tuple[tuple[Arm, ...], Table]:
    chosen, rows, most = [], [], max(len(who.rates) for who in contenders)
    for who in contenders:
        values = [estimate(values_at(curves, f"{who.name}, {one}", MEASURE, "average")).mean for one in who.choices]
        best = best_choice(who.choices, values)
        chosen.append(Arm(**_arm(who, best, who.name)))
        for position, radius in enumerate(who.radii):
            name = who.name if radius is None else f"{who.name}, radius {radius:g}"
            own = values[position * len(who.rates) : (position + 1) * len(who.rates)]
            told = f"{best.rate:g}" if best.radius == radius else ""
            rows.append((name, *(f"{value:.4f}" for value in own), *[""] * (most - len(own)), told))
    header = ("learner", *(f"rate {position + 1}" for position in range(most)), "chosen")
    note = (
        f"Mean nDCG@10 over {curves.experiment.horizon:,} rounds of another part of the stream; rates rise from left "
        "to right."
    )
    return tuple(chosen), Table("How the step sizes were chosen", header, rows, note)


def best_choice(choices: list[Choice], values: list[float]) -> Choice:
    """The best one, in the smallest ball that is as good: what a larger one allows shows in longer runs only."""
    top = int(np.argmax(values))
    equal = (one for one, value in zip(choices, values) if value >= values[top] - LEVEL)
    return next(one for one in equal if one.rate == choices[top].rate)


def _arm(who: Contender, choice: Choice, name: str) -> dict[str, Any]:
    within = {} if choice.radius is None else {"radius": choice.radius}
    return {"name": name, "learner": who.learner | {"learning_rate": choice.rate} | within, "feedback": who.feedback}
