"""Figures 4 to 7 and table 1 of the paper on stable coactive learning, on the data sets that this machine has."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.core.types import Floats
from rankloop.experiments.claims import Verdict
from rankloop.experiments.curves import Curves, estimate
from rankloop.experiments.findings import Finding, Table
from rankloop.experiments.reproducing import Setting, reproduction
from rankloop.experiments.reproductions.click_worlds import (
    LETOR,
    MEASURE,
    PAPER,
    TEXT,
    ClickWorld,
    Plan,
    claim,
    compared,
)
from rankloop.experiments.reproductions.verdicts import is_above
from rankloop.experiments.spec import Thing

TOP, PAIR, THREE, DYNAMIC = "clicks to the top", "pairs", "3PR", "3PR, dynamic"
WORLDS = (LETOR[0], *TEXT)
LEARNERS: dict[str, Any] = {
    TOP: {"kind": "preference_perceptron", "clicks_to": "top"},
    PAIR: {"kind": "preference_perceptron", "clicks_to": "pairs"},
    THREE: {"kind": "3pr"},
}
ORDER = [
    claim("above", "3PR is above pairs", THREE, right=PAIR),
    claim("above", "pairs are above top", PAIR, right=TOP),
]


def _arm(name: str, learner: Any, people: Thing) -> dict[str, Any]:
    return {"name": name, "learner": learner, "feedback": people}


@reproduction("coactive-4", title="Learning curves of the preference perceptrons and 3PR")
def learning_curves(setting: Setting) -> Finding:
    """Figure 4: top, pairs, 3PR, and the structured perceptron that is told the best ranking."""

    def arms(world: ClickWorld) -> list[dict[str, Any]]:
        told = _arm("structured perceptron, all grades", {"kind": "structured_perceptron"}, "full")
        return [*(_arm(name, learner, world.people) for name, learner in LEARNERS.items()), told]

    text = f"{PAPER}, figure 4. Quality of what was shown, in the last tenth of the rounds."
    plan = Plan("coactive-4", "Learning curves of the preference perceptrons and 3PR", text, arms, ORDER)
    return compared(plan, WORLDS, setting)[0]


@reproduction("coactive-5", title="How much perturbation is needed")
def swap_probabilities(setting: Setting) -> Finding:
    """Figure 5: fixed swap probabilities and the dynamic one."""

    def arms(world: ClickWorld) -> list[dict[str, Any]]:
        swaps: list[tuple[str, Any]] = [(f"swap {p:g}", p) for p in (0.0, 0.25, 0.5, 0.75, 1.0)]
        return [_arm(name, {"kind": "3pr", "swap": p}, world.people) for name, p in [*swaps, (DYNAMIC, "dynamic")]]

    claims = [
        claim("below", "Swapping more than half of the pairs hurts", "swap 0.75", right="swap 0.5"),
        claim("above", "Some swapping is better than none", "swap 0.5", right="swap 0"),
        *(
            claim("above", f"The dynamic probability is at most 0.01 below {p}", DYNAMIC, right=p, by=-0.01)
            for p in ("swap 0.25", "swap 0.5")
        ),
    ]
    text = f"{PAPER}, figure 5: 3PR with fixed swap probabilities and with the dynamic one without budget."
    return compared(Plan("coactive-5", "How much perturbation is needed", text, arms, claims), WORLDS, setting)[0]


@reproduction("coactive-6", title="The dynamic swap probability over time")
def swap_over_time(setting: Setting) -> Finding:
    """Figure 6: p_t with little and with much noise."""

    def arms(world: ClickWorld) -> list[dict[str, Any]]:
        learner = {"kind": "3pr", "swap": "dynamic"}
        return [_arm("noisy people", learner, world.people), _arm("clean people", learner, world.clean)]

    text = f"{PAPER}, figure 6: the swap probability that the dynamic rule chooses, with and without noise."
    more = {"checkpoints": 400, "spacing": "linear", "floor": False}
    plan = Plan("coactive-6", "The dynamic swap probability over time", text, arms, [], more=more)
    finding, curves = compared(plan, WORLDS, setting)
    verdicts = [verdict for name, one in curves.items() for verdict in _about_swaps(name, one)]
    return finding._replace(claims=tuple(verdicts), charts=tuple(c for c in finding.inside if ": swap" in c.title))


def _about_swaps(world: str, curves: Curves) -> list[Verdict]:
    noisy, clean = (curves.report(curves.streams[0], arm, "swap") for arm in ("noisy people", "clean people"))
    if noisy is None or clean is None:
        return []
    first, last = (part.mean(axis=1) for part in np.array_split(noisy, 3, axis=1)[::2])
    return [
        is_above(f"{world}: with noise the swap probability is higher", noisy.mean(axis=1), clean.mean(axis=1)),
        is_above(f"{world}: it falls from the first third of the rounds to the last", first, last),
    ]


@reproduction("coactive-7", title="How noise hurts")
def noise(setting: Setting) -> Finding:
    """Figure 7: the loss of quality when noise is added."""

    def arms(world: ClickWorld) -> list[dict[str, Any]]:
        people = {"": world.people, ", no noise": world.clean}
        return [_arm(n + suffix, learner, who) for suffix, who in people.items() for n, learner in LEARNERS.items()]

    clean = [c | {"left": f"{c['left']}, no noise", "right": f"{c['right']}, no noise"} for c in ORDER]
    text = f"{PAPER}, figure 7: quality at the end with noisy people and with clean ones."
    finding, curves = compared(Plan("coactive-7", "How noise hurts", text, arms, clean), WORLDS, setting)
    lost = [_loses_less(name, one, other) for name, one in curves.items() for other in (TOP, PAIR)]
    return finding._replace(claims=finding.claims + tuple(lost))


def _loses_less(world: str, curves: Curves, other: str) -> Verdict:
    losses = [_final(curves, f"{arm}, no noise") - _final(curves, arm) for arm in (other, THREE)]
    return is_above(f"{world}: 3PR loses less by noise than {other}", *losses)


@reproduction("coactive-table-1", title="What is shown against what is predicted")
def presented_and_predicted(setting: Setting) -> Finding:
    """Table 1: nDCG of the presented and of the predicted rankings of 3PR."""

    def arms(world: ClickWorld) -> list[dict[str, Any]]:
        swaps = {THREE: 0.5, DYNAMIC: "dynamic"}
        return [_arm(name, {"kind": "3pr", "swap": swap}, world.people) for name, swap in swaps.items()]

    text = f"{PAPER}, table 1: over all rounds, what people saw and what 3PR would have shown without swaps."
    plan = Plan("coactive-table-1", "What is shown against what is predicted", text, arms, [], more={"predicted": True})
    finding, curves = compared(plan, WORLDS, setting)
    rows, verdicts = [], []
    for name, one in curves.items():
        for arm in (THREE, DYNAMIC):
            shown, predicted = _final(one, arm, "average"), _final(one, arm, "predicted")
            rows.append((f"{name}, {arm}", str(estimate(shown)), str(estimate(predicted))))
            verdicts.append(is_above(f"{name}: the predicted rankings of {arm} are better", predicted, shown))
    table = Table("Presented and predicted", ("", "presented", "predicted"), rows)
    return finding._replace(tables=(table, *finding.tables), claims=tuple(verdicts))


def _final(curves: Curves, arm: str, quantity: str = "recent") -> Floats:
    rows = curves.of(curves.streams[0], arm, MEASURE, quantity)
    return np.full(len(curves.seeds), np.nan) if rows is None else rows[:, -1]
