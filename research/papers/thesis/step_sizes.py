"""Step sizes chosen on another part of the stream, for every learner alike, before anything is compared."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from rankloop.experiments.analysis.curves import Curves, estimate
from rankloop.experiments.report.model import Table
from rankloop.experiments.spec.model import Arm, Experiment, Thing
from research.comparison import experiment_of, play_all
from research.registry import Setting

MEASURE = "nDCG@10"
EQUALITY_TOLERANCE = 0.001  # what differs less is equal
MIN_TUNING_ROUNDS = 1000  # rounds to try a step size over
N_FINALISTS = 2
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
        """Return all combinations of step size and radius."""
        return [Choice(rate, radius) for radius, rate in product(self.radii, self.rates)]


class Choice(NamedTuple):
    """A step size, and a radius where there is one."""

    rate: float
    radius: float | None = None

    def __str__(self) -> str:
        return f"{self.rate:g}" if self.radius is None else f"{self.rate:g} in radius {self.radius:g}"


Tried = dict[str, dict[Choice, float]]  # by the learner's name, the mean of every choice that was played


def with_chosen_rates(
    contenders: tuple[Contender, ...], streams: dict[str, tuple[Thing, int]], setting: Setting
) -> list[tuple[tuple[Arm, ...], Table]]:
    """For each stream and its rounds, the contenders with the rates of highest mean nDCG@10, and what was tried.

    Every rate is tried over a tenth of the rounds; the best two of each learner then over all of them, since a step
    that is best at first may lose everything later. A contender with a single choice is not tried.
    """
    contenders, fixed = (tuple(who for who in contenders if (len(who.choices) > 1) == tuned) for tuned in (True, False))
    constant = tuple(Arm(**_arm(who, who.choices[0], who.name)) for who in fixed)
    if not contenders:
        return [(constant, Table("How the step sizes were chosen", ("learner",), [], "None was.")) for _ in streams]
    shortened = {name: min(rounds, max(MIN_TUNING_ROUNDS, rounds // 10)) for name, (_, rounds) in streams.items()}
    longer = [name for name, (_, rounds) in streams.items() if shortened[name] < rounds]
    arms = [_arm(who, choice, f"{who.name}, {choice}") for who in contenders for choice in who.choices]
    heats = [_trial(f"{name}-steps", streams[name][0], shortened[name], arms, setting) for name in streams]
    tried = {name: _tried(contenders, curves) for name, curves in zip(streams, play_all(heats, setting))}
    finalists = {name: [arm for who in contenders for arm in _finalists(who, tried[name][who.name])] for name in longer}
    finals = [_trial(f"{name}-finals", *streams[name], finalists[name], setting) for name in longer]
    lasting = {name: _tried(contenders, curves) for name, curves in zip(longer, play_all(finals, setting))}
    chosen = [_chosen(contenders, tried[name], lasting.get(name), shortened[name]) for name in streams]
    return [((*arms, *constant), steps) for arms, steps in chosen]


def _trial(name: str, stream: Thing, rounds: int, arms: list[dict[str, Any]], setting: Setting) -> Experiment:
    seeds = TUNING_SEEDS[:2] if setting.quick else TUNING_SEEDS
    return experiment_of(name, stream, arms, MEASURE, rounds, seeds, floor=False)


def _tried(contenders: tuple[Contender, ...], curves: Curves) -> Tried:
    names = {arm.name for arm in curves.experiment.arms}
    return {
        who.name: {
            option: estimate(curves.at(name, MEASURE, "average")).mean
            for option in who.choices
            if (name := f"{who.name}, {option}") in names
        }
        for who in contenders
    }


def _finalists(who: Contender, tried: dict[Choice, float]) -> list[dict[str, Any]]:
    """The best rates, each in the smallest ball that is as good there."""
    by_rate = [{option: value for option, value in tried.items() if option.rate == rate} for rate in who.rates]
    best = sorted(by_rate, key=lambda values: -max(values.values()))[:N_FINALISTS]
    return [_arm(who, best_choice(values), f"{who.name}, {best_choice(values)}") for values in best]


def _chosen(
    contenders: tuple[Contender, ...], tried: Tried, lasting: Tried | None, rounds: int
) -> tuple[tuple[Arm, ...], Table]:
    chosen, rows, most = [], [], max(len(who.rates) for who in contenders)
    for who in contenders:
        finals = lasting[who.name] if lasting else {}
        best = best_choice(finals or tried[who.name])
        chosen.append(Arm(**_arm(who, best, who.name)))
        for radius in who.radii:
            name = who.name if radius is None else f"{who.name}, radius {radius:g}"
            short_values = [f"{tried[who.name][Choice(rate, radius)]:.4f}" for rate in who.rates]
            long = "; ".join(
                f"{option.rate:g}: {value:.4f}" for option, value in finals.items() if option.radius == radius
            )
            chosen_rate = f"{best.rate:g}" if best.radius == radius else ""
            rows.append((name, *short_values, *[""] * (most - len(short_values)), long, chosen_rate))
    header = ("learner", *(f"rate {position + 1}" for position in range(most)), "at full length", "chosen")
    note = (
        f"Mean nDCG@10 over {rounds:,} rounds of another part of the stream; rates rise from left to right. "
        "The best two are played at full length there, and the better one is chosen."
    )
    return tuple(chosen), Table("How the step sizes were chosen", header, rows, note)


def best_choice(tried: dict[Choice, float]) -> Choice:
    """The best one, in the smallest ball that is as good: what a larger one allows shows in longer runs only."""
    top = max(tried, key=lambda option: tried[option])
    equal = (
        option
        for option, value in tried.items()
        if option.rate == top.rate and value >= tried[top] - EQUALITY_TOLERANCE
    )
    return min(equal, key=lambda option: option.radius or np.inf)


def _arm(who: Contender, choice: Choice, name: str) -> dict[str, Any]:
    within = {} if choice.radius is None else {"radius": choice.radius}
    return {"name": name, "learner": who.learner | {"learning_rate": choice.rate} | within, "feedback": who.feedback}
