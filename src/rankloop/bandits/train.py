"""From a log of shown ads and clicks to a policy: a ranker and a threshold per ad."""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from rankloop.bandits.ad_log import AdLog
from rankloop.bandits.auc_policy import AUCPolicy, Criterion, State, threshold
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.policies import NEVER_CLICKED_THRESHOLD, EpsilonGreedy, LinearScorer, Policy, Softmax
from rankloop.core.errors import InvalidInput
from rankloop.core.files import atomic_write
from rankloop.core.kernels import scores_of
from rankloop.core.saved_session import load_with_notes, save
from rankloop.core.session import Session
from rankloop.core.types import Floats, Problem, Query
from rankloop.logs.context import Encoding, Visitor

TIE_BREAK = 1e-9  # is added to the score of an ad with click rate 1; less in proportion
CRITERION: Literal["click_rate"] = "click_rate"  # is stable for ads with few clicks


def fit_rankers(log: AdLog, ranker: AUCRanker | None = None, criterion: Criterion = "f1") -> LinearScorer:
    """Fit a ranker and its threshold for each ad, from the rows in which it was shown.

    An ad without any click stands last; one that was always clicked gets weights of 0. Equal scores: by click rate.

    Args:
      log: The shown ads and what they earned.
      ranker: The settings of the rankers; the default is `AUCRanker()`.
      criterion: What the thresholds maximise, see `threshold`.
    """
    recipe, weights = ranker or AUCRanker(), np.zeros((log.n_ads, log.contexts.shape[1]))
    for ad in range(log.n_ads):
        rows = log.ads == ad
        clicked = log.rewards[rows] > 0
        if clicked.any() and not clicked.all():
            weights[ad] = dataclasses.replace(recipe).fit(log.contexts[rows], clicked).coef_
    return LinearScorer(weights, fit_thresholds(log, weights, criterion))


def fit_thresholds(log: AdLog, weights: Floats, criterion: Criterion = "f1") -> Floats:
    """Fit the threshold of each ad for existing rankers.

    Args:
      log: The shown ads and what they earned.
      weights: One row per ad.
      criterion: What the thresholds maximise, see `threshold`.
    """
    thresholds = np.full(log.n_ads, NEVER_CLICKED_THRESHOLD)
    for ad in range(log.n_ads):
        rows = log.ads == ad
        clicked = log.rewards[rows] > 0
        if clicked.any():
            scores = scores_of(log.contexts[rows], weights[ad])
            thresholds[ad] = threshold(scores, clicked, criterion) - TIE_BREAK * float(clicked.mean())
    return thresholds


class TrainedPolicy(NamedTuple):
    """A policy that was trained on a log, with everything needed to save it and to use it on another log."""

    encoding: Encoding
    scorer: LinearScorer
    log: AdLog  # the rows that it was trained on
    epsilon: float = 0.0
    seed: int = 0

    @property
    def policy(self) -> EpsilonGreedy:
        """The policy of the rankers, with its exploration."""
        return EpsilonGreedy(scorer=self.scorer, epsilon=self.epsilon)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the policy; the names of its ads and columns also go to a file of this name with `.json` behind it."""
        encoding = self.encoding
        notes = {"items": list(encoding.ads), "context": encoding.context_names, "encoding": encoding.to_plain()}
        save(self.session(), path, notes)
        atomic_write(Path(f"{os.fspath(path)}.json"), json.dumps(encoding.to_plain(), ensure_ascii=False, indent=1))

    def session(self) -> Session:
        """Return an `auc_policy` session that chooses as the trained policy does, with samples of the log."""
        variances = self.log.contexts.var(axis=0)
        varying = variances[variances > 0.0]
        # The step size is that for columns of variance 1, and a smaller one where variances are larger.
        rate = AUCPolicy.learning_rate / max(1.0, float(varying.mean()) if len(varying) else 1.0)
        learner = AUCPolicy(epsilon=self.epsilon, criterion=CRITERION, learning_rate=rate)
        n_ads, n_context = self.scorer.weights.shape
        session = Session(learner, Problem(n_features=0, n_items=n_ads, n_context=n_context, shown=1), self.seed)
        state: State = session.state
        for ad in range(n_ads):
            shown = self.log.ads == ad
            for sample, counts, chosen in (
                (state.clicked, state.n_clicked, shown & (self.log.rewards > 0)),
                (state.unclicked, state.n_unclicked, shown & (self.log.rewards <= 0)),
            ):
                rows = np.flatnonzero(chosen)
                spread = rows[np.linspace(0, len(rows) - 1, min(len(rows), learner.buffer)).astype(np.int64)]
                sample[ad, : len(spread)], counts[ad] = self.log.contexts[spread], len(rows)
        fitted = state._replace(weights=self.scorer.weights.copy(), thresholds=self.scorer.thresholds.copy())
        _, generator, learned, refused = session.snapshot()
        session.restore(fitted, generator, learned, refused)
        return session


class SavedPolicy(NamedTuple):
    """A policy with the names of its ads and of the columns of its context."""

    policy: Policy
    encoding: Encoding

    def probabilities(self, visitors: Iterable[Visitor]) -> Floats:
        """Return (n_visitors, n_ads) probabilities."""
        if isinstance(visitors, Mapping):
            raise InvalidInput("probabilities() takes a list of rows; use shares() for one visitor")
        numbers = [self.encoding.row_of(visitor) for visitor in visitors]
        return self.policy.probabilities(np.array(numbers, dtype=np.float64).reshape(-1, self.encoding.n_context))

    def shares(self, visitor: Visitor) -> dict[str, float]:
        """Return the probability of each ad for one visitor, by the name of the ad."""
        return dict(zip(self.encoding.ads, self.probabilities([visitor])[0].tolist()))


def load_policy(path: str | os.PathLike[str]) -> SavedPolicy:
    """Load what `TrainedPolicy.save` wrote; raise `NotFound` without a file, `InvalidInput` if it is no ad policy."""
    file = Path(path)
    session, notes = load_with_notes(file)
    if session.problem.n_features > 0:
        raise InvalidInput(f"{file.name} is a ranker of items with features, not an ad policy")
    if "encoding" not in notes:
        raise InvalidInput(f"{file.name} does not name its ads and columns; write it with train_policy(…).save")
    encoding = Encoding.from_plain(notes["encoding"])
    if session.problem.n_items != len(encoding.ads) or session.problem.n_context != encoding.n_context:
        raise InvalidInput(f"{file.name}: the numbers of ads and columns differ between its policy and its names")
    if session.problem.shown != 1:
        raise InvalidInput(f"{file.name} shows more than one item at a time; a log of single ads cannot judge it")
    learner, state = session.learner, session.state
    policy: Policy = SessionPolicy(session=session)
    if isinstance(learner, AUCPolicy):
        scorer = LinearScorer(state.weights, state.thresholds)
        policy = EpsilonGreedy(scorer=scorer, epsilon=learner.epsilon)
        if learner.temperature is not None:
            policy = Softmax(scorer=scorer, temperature=learner.temperature)
    return SavedPolicy(policy, encoding)


@dataclass(frozen=True, kw_only=True)
class SessionPolicy:
    """A policy by the exact propensities of a session over a fixed set of ads."""

    session: Session

    def probabilities(self, contexts: Floats) -> Floats:
        n_ads, kind = int(self.session.problem.n_items or 0), type(self.session.learner).__name__
        items, shares = np.zeros((n_ads, self.session.problem.n_features)), np.empty((len(contexts), n_ads))
        orders = [np.array([ad, *(other for other in range(n_ads) if other != ad)]) for ad in range(n_ads)]
        for row, context in enumerate(contexts):
            query = Query("", items, context)
            shares[row] = np.exp([self.session.log_prob(query, order) for order in orders])
        unknown = np.flatnonzero(np.isnan(shares).any(axis=1))
        if len(unknown):
            fault = f"{kind} has no closed form for the probability of an ad"
            raise InvalidInput(f"row {unknown[0]}: {fault}, so a log cannot judge it")
        return shares
