"""Single choices of the Open Bandit Dataset: every side learns from the log of one policy, a random log judges it.

The choices of a campaign under Bernoulli Thompson sampling are learned from, in their order. Then each side scores the
items of the uniformly random log. Its choice is its best item, everywhere. All sides get item, position and click.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.environment import installed
from rankloop import Ranker
from rankloop.core.statistics import beta_quantile
from rankloop.core.types import Floats

CAMPAIGNS = ("all", "men", "women")
N_RESAMPLES = 1000
ERROR_PROBABILITY = 0.05


class Choice(NamedTuple):
    """One shown item."""

    item: str
    position: str
    clicked: float


class ChoiceSide(Protocol):
    """A learner from single choices."""

    def learn(self, choice: Choice) -> None: ...

    def scores(self, items: Sequence[str]) -> Floats: ...


def choices_of(path: Path) -> list[Choice]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [Choice(row["item_id"], row["position"], float(row["click"])) for row in csv.DictReader(file)]


class Uniform:
    """No item is better than another."""

    def learn(self, choice: Choice) -> None: ...

    def scores(self, items: Sequence[str]) -> Floats:
        return np.zeros(len(items))


class Popularity:
    """By the click rate of the item so far, shrunk to 0.5 %."""

    def __init__(self) -> None:
        self.clicks, self.shown = dict[str, float](), dict[str, float]()

    def learn(self, choice: Choice) -> None:
        self.clicks[choice.item] = self.clicks.get(choice.item, 0.0) + choice.clicked
        self.shown[choice.item] = self.shown.get(choice.item, 0.0) + 1.0

    def scores(self, items: Sequence[str]) -> Floats:
        return np.array([(self.clicks.get(item, 0.0) + 1) / (self.shown.get(item, 0.0) + 200) for item in items])


class OursByChoice:
    """`click_regression` with pages of one item."""

    def __init__(self) -> None:
        self.ranker = Ranker("click_regression(offset=-5)", features={"item": "id"}, shown=1)

    def learn(self, choice: Choice) -> None:
        clicks = [choice.item] if choice.clicked else []
        self.ranker.learn(order=[choice.item], clicks=clicks, at=0.0)

    def scores(self, items: Sequence[str]) -> Floats:
        scores = self.ranker.scores(ids=items, at=0.0)
        return np.array([scores[item] for item in items])


class VowpalWabbitByChoice:
    """Logistic regression on item and position."""

    def __init__(self) -> None:
        import vowpalwabbit

        self.workspace = vowpalwabbit.Workspace(
            "--loss_function logistic --ftrl --ftrl_alpha 0.1 --ftrl_beta 1 --quiet"
        )

    def learn(self, choice: Choice) -> None:
        self.workspace.learn(f"{1 if choice.clicked else -1} |i i{choice.item} |p p{choice.position}")

    def scores(self, items: Sequence[str]) -> Floats:
        return np.array([self.workspace.predict(f"|i i{item} |p p1") for item in items])


class RiverByChoice:
    """FTRL on item and position."""

    def __init__(self) -> None:
        from river import linear_model, optim

        self.model = linear_model.LogisticRegression(optimizer=optim.FTRLProximal(alpha=0.1, beta=1.0, l1=0.0, l2=1.0))

    def learn(self, choice: Choice) -> None:
        self.model.learn_one({f"i {choice.item}": 1.0, f"p {choice.position}": 1.0}, bool(choice.clicked))

    def scores(self, items: Sequence[str]) -> Floats:
        return np.array([self.model.predict_proba_one({f"i {item}": 1.0, "p 1": 1.0}).get(True, 0.0) for item in items])


class LightGBMByChoice:
    """Logistic loss on item and position as categories, fitted once."""

    def __init__(self) -> None:
        self.choices = list[Choice]()

    def learn(self, choice: Choice) -> None:
        self.choices.append(choice)

    def scores(self, items: Sequence[str]) -> Floats:
        import lightgbm

        rows = np.array([(int(choice.item), int(choice.position)) for choice in self.choices])
        labels = np.array([choice.clicked for choice in self.choices])
        options = {"objective": "binary", "num_leaves": 15, "learning_rate": 0.05, "verbose": -1, "num_threads": 1}
        data = lightgbm.Dataset(rows, labels, categorical_feature=[0, 1])
        model = lightgbm.train(options, data, num_boost_round=100)
        scores: Floats = model.predict(np.array([(int(item), 1) for item in items]))
        return scores


SIDES: dict[str, tuple[Callable[[], ChoiceSide], str]] = {
    "uniform": (Uniform, ""),
    "running popularity": (Popularity, ""),
    "rankloop": (OursByChoice, ""),
    "VowpalWabbit": (VowpalWabbitByChoice, "VowpalWabbit"),
    "river": (RiverByChoice, "river"),
    "LightGBM": (LightGBMByChoice, "LightGBM"),
}


class ChoiceResult(NamedTuple):
    """Click rate of the best items of a side, and AUC of its scores, each with a 95 % interval."""

    matched: int
    clicks: int
    rate: float
    rate_low: float
    rate_high: float
    auc: float
    auc_low: float
    auc_high: float


def auc_of(scores: Floats, clicked: Floats) -> float:
    """Return the chance that a clicked row scores above one that was not clicked; ties count half."""
    good, others = np.sort(scores[clicked > 0]), np.sort(scores[clicked == 0])
    below = np.searchsorted(others, good, "left") + np.searchsorted(others, good, "right")
    return float(below.mean() / 2 / len(others))


def judged(side: str, folder: Path) -> ChoiceResult:
    """Learn and judge campaign by campaign; clicks are added up, AUC is weighed by clicks."""
    make, matched, clicks, campaigns = SIDES[side][0], 0.0, 0.0, []
    for campaign in CAMPAIGNS:
        arm, judge = make(), choices_of(folder / f"random/{campaign}.csv.gz")
        for choice in choices_of(folder / f"bts/{campaign}.csv.gz"):
            arm.learn(choice)
        items = sorted({choice.item for choice in judge}, key=int)
        score = dict(zip(items, arm.scores(items).tolist()))
        best = {item for item in items if score[item] == max(score.values())}
        clicked = np.array([choice.clicked for choice in judge])
        is_match = np.array([choice.item in best for choice in judge])
        # Every item has the same propensity, so the self-normalised estimate is the click rate of the matching rows.
        matched, clicks = matched + is_match.sum(), clicks + clicked[is_match].sum()
        campaigns.append((np.array([score[choice.item] for choice in judge]), clicked))
    low = beta_quantile(ERROR_PROBABILITY / 2, clicks, matched - clicks + 1) if clicks else 0.0
    high = beta_quantile(1 - ERROR_PROBABILITY / 2, clicks + 1, matched - clicks)
    rng = np.random.default_rng(0)
    draws = [_mean_auc([_resampled(campaign, rng) for campaign in campaigns]) for _ in range(N_RESAMPLES)]
    auc_low, auc_high = np.quantile(draws, [ERROR_PROBABILITY / 2, 1 - ERROR_PROBABILITY / 2]).tolist()
    return ChoiceResult(
        int(matched), int(clicks), float(clicks / matched), low, high, _mean_auc(campaigns), auc_low, auc_high
    )


def _mean_auc(campaigns: Sequence[tuple[Floats, Floats]]) -> float:
    weights = [clicked.sum() for _, clicked in campaigns]
    return float(np.average([auc_of(scores, clicked) for scores, clicked in campaigns], weights=weights))


def _resampled(campaign: tuple[Floats, Floats], rng: np.random.Generator) -> tuple[Floats, Floats]:
    rows = rng.integers(len(campaign[0]), size=len(campaign[0]))
    return campaign[0][rows], campaign[1][rows]


def results(data: Path) -> dict[str, dict[str, Any]]:
    """Return what each installed side reached; nothing where the data set is not on this machine."""
    folder = data / "clicks/obd"
    if not folder.is_dir():
        return {}
    names = [name for name, (_, peer) in SIDES.items() if not peer or installed(peer)]
    return {name: judged(name, folder)._asdict() for name in names}
