"""From a log of shown ads and clicks to a policy: a ranker and a threshold per ad."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike

from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.policies import NEVER, EpsilonGreedy, LinearScorer
from rankloop.bandits.reward_model import RewardModel, fit_reward_model
from rankloop.bandits.thresholds import Criterion, threshold
from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.types import Floats, Ints, finite_floats, item_indices, whole_number
from rankloop.logs.choice_log import ChoiceLog, rows_of
from rankloop.logs.context import Encoding, encoding_of

MAX_CONTEXT = 1e100  # squares and sums of numbers up to this stay finite
TIE = 1e-9  # what a click rate of 1 adds to a score
MAX_TRAINING_ROWS = 500_000
CRITERION: Literal["click_rate"] = "click_rate"  # steady where an ad has few clicks
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class AdLog(NamedTuple):
    """What was shown to whom, and what came of it; ads count from 0."""

    contexts: Floats  # (n, n_context)
    ads: Ints
    rewards: Floats
    propensities: Floats  # with which the ad was shown
    n_ads: int

    def take(self, rows: ArrayLike) -> "AdLog":
        """The log of these rows (a mask or numbers)."""
        chosen = np.asarray(rows)
        shown = self.contexts[chosen], self.ads[chosen]
        return AdLog(*shown, self.rewards[chosen], self.propensities[chosen], self.n_ads)


def ad_log(
    contexts: ArrayLike, ads: ArrayLike, rewards: ArrayLike, propensities: ArrayLike | None = None, n_ads: int = 0
) -> AdLog:
    """Check and copy what comes from outside; without propensities every ad had the same."""
    people, shown = finite_floats(contexts, 2, "contexts"), item_indices(ads, "ads")
    earned = finite_floats(rewards, 1, "rewards")
    n_ads = whole_number(n_ads, "n_ads", 0) or int(shown.max(initial=-1)) + 1
    uniform = np.full(len(shown), 1.0 / max(n_ads, 1))
    logged = uniform if propensities is None else finite_floats(propensities, 1, "propensities")
    if people.shape[1] == 0:
        raise InvalidInput("contexts have no features: there is nothing to choose an ad by")
    if np.abs(people).max(initial=0.0) > MAX_CONTEXT:
        raise InvalidInput(f"contexts have numbers beyond {MAX_CONTEXT:g}, which cannot be scaled")
    if not len(people) == len(shown) == len(earned) == len(logged):
        raise InvalidInput("contexts, ads, rewards and propensities differ in length")
    impossible = np.flatnonzero((logged <= 0.0) | (logged > 1.0))
    if len(impossible):
        raise InvalidInput(
            f"row {impossible[0]}: the propensity is {logged[impossible[0]]}; what was shown had one above 0, at most 1"
        )
    if len(shown) == 0 or shown.min() < 0 or shown.max() >= n_ads:
        raise InvalidInput(f"ads are numbers from 0 to {n_ads - 1}, at least one row of them")
    return AdLog(people, shown, earned, logged, n_ads)


def fit_rankers(log: AdLog, ranker: AUCRanker | None = None, criterion: Criterion = "f1") -> LinearScorer:
    """A ranker and its threshold for each ad, from the rows in which it was shown.

    An ad without any click stands last; one that was always clicked has nothing to rank by. Ads of the same score stand
    by their click rates.
    """
    recipe = ranker or AUCRanker()
    weights = np.zeros((log.n_ads, log.contexts.shape[1]))
    for ad in range(log.n_ads):
        own = log.ads == ad
        clicked = log.rewards[own] > 0
        if clicked.any() and not clicked.all():
            weights[ad] = dataclasses.replace(recipe).fit(log.contexts[own], clicked).coef_
    return LinearScorer(weights, fit_thresholds(log, weights, criterion))


def fit_thresholds(log: AdLog, weights: Floats, criterion: Criterion = "f1") -> Floats:
    """The threshold of each ad for rankers that are already there, one row of `weights` per ad."""
    found, weights = np.full(log.n_ads, NEVER), finite_floats(weights, 2, "weights")
    if weights.shape != (log.n_ads, log.contexts.shape[1]):
        raise InvalidInput(f"weights must be of shape {(log.n_ads, log.contexts.shape[1])}, got {weights.shape}")
    for ad in range(log.n_ads):
        own = log.ads == ad
        clicked = log.rewards[own] > 0
        if clicked.any():
            scores = scores_of(log.contexts[own], weights[ad])
            found[ad] = threshold(scores, clicked, criterion) - TIE * float(clicked.mean())
    return found


def fit_resampled(
    log: AdLog, rng: Generator, n: int = 20, ranker: AUCRanker | None = None, criterion: Criterion = "f1"
) -> list[LinearScorer]:
    """`n` scorers, each from a resample of the rows with replacement: the beliefs of `Thompson`."""
    rows = len(log.ads)
    draws = ((rng.random(rows) * rows).astype(np.int64) for _ in range(n))
    return [fit_rankers(log.take(drawn), ranker, criterion) for drawn in draws]


class TrainedPolicy(NamedTuple):
    """What was learned from a log, with what is needed to use it on another."""

    encoding: Encoding
    scorer: LinearScorer
    log: AdLog  # the rows that it was trained on
    model: RewardModel

    def policy(self, epsilon: float) -> EpsilonGreedy:
        """The policy of the rankers, with exploration."""
        return EpsilonGreedy(scorer=self.scorer, epsilon=epsilon)


def train_policy(
    table: ChoiceLog,
    seed: int = 0,
    share: float = 0.5,
    ranker: AUCRanker | None = None,
    *,
    context: Sequence[str] | None = None,
    without: Sequence[str] = (),
    asked_for: Sequence[str] = (),
) -> TrainedPolicy:
    """Train rankers on a random `share` of the log, up to half a million rows; for the columns see `encoding_of`."""
    encoding = encoding_of(table.pieces(), context, without, asked_for)
    if len(encoding.ads) < 2:
        raise InvalidInput(f"{table.name} shows only the ad {encoding.ads[0]!r}; there is nothing to choose")
    log = training_rows(table, encoding, seed, share)
    if not (log.rewards > 0).any():
        raise InvalidInput(
            f"{table.name}: none of the {len(log.ads):,} rows to learn from was rewarded; the log is too small to "
            "train a policy, let alone to tell how good it is"
        )
    return TrainedPolicy(encoding, fit_rankers(log, ranker, CRITERION), log, fit_reward_model(log))


def training_rows(table: ChoiceLog, encoding: Encoding, seed: int, share: float) -> AdLog:
    """The rows of a random `share` of the log, up to half a million."""
    parts: list[AdLog] = []
    for log, training in split_rows(table, encoding, seed, share):
        parts.append(log.take(training))
        if sum(len(part.ads) for part in parts) >= MAX_TRAINING_ROWS:
            break
    if not parts:
        raise InvalidInput(f"{table.name} has no rows")
    contexts, ads, rewards, propensities = (np.concatenate(column) for column in zip(*(part[:4] for part in parts)))
    return AdLog(contexts, ads, rewards, propensities, len(encoding.ads))


def split_rows(table: ChoiceLog, encoding: Encoding, seed: int, share: float) -> Iterator[tuple[AdLog, Mask]]:
    """Every piece of the log, and which of its rows are for training: the same ones in every pass."""
    rng, where = default_rng(seed), table.name
    for piece in table.pieces():
        training = rng.random(len(piece.reward)) < share
        # checked before rows are left out, so that a fault is named by its row in the file
        rows_of(piece.reward, piece.propensity, np.zeros(len(piece.reward)), first_row=piece.first_row, where=where)
        ads, contexts = encoding.ads_of(piece, where), encoding.contexts_of(piece)
        yield AdLog(contexts, ads, piece.reward, piece.propensity, len(encoding.ads)), training
