"""Saving and loading of ad policies; a saved policy is a session that can be served and goes on learning."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.bandits.auc_policy import AUCPolicy, State
from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Policy, Softmax
from rankloop.bandits.train import CRITERION, TrainedPolicy
from rankloop.core.errors import InvalidInput
from rankloop.core.files import atomic_write
from rankloop.core.saved_session import load_with_notes, save
from rankloop.core.session import Session
from rankloop.core.types import Floats, Problem, Query
from rankloop.logs.context import Encoding, Visitor


def session_of(trained: TrainedPolicy) -> Session:
    """Return an `auc_policy` session that chooses as the trained policy does, with samples of the log."""
    learner = AUCPolicy(epsilon=trained.epsilon, criterion=CRITERION, learning_rate=_step_size(trained.log.contexts))
    n_ads, n_context = trained.scorer.weights.shape
    session = Session(learner, Problem(n_features=0, n_items=n_ads, n_context=n_context, shown=1), trained.seed)
    state: State = session.state
    for ad in range(n_ads):
        shown = trained.log.ads == ad
        for sample, counts, chosen in (
            (state.clicked, state.n_clicked, shown & (trained.log.rewards > 0)),
            (state.unclicked, state.n_unclicked, shown & (trained.log.rewards <= 0)),
        ):
            rows = np.flatnonzero(chosen)
            spread = rows[np.linspace(0, len(rows) - 1, min(len(rows), learner.buffer)).astype(np.int64)]
            sample[ad, : len(spread)], counts[ad] = trained.log.contexts[spread], len(rows)
    fitted = state._replace(weights=trained.scorer.weights.copy(), thresholds=trained.scorer.thresholds.copy())
    _, generator, learned, refused = session.snapshot()
    session.restore(fitted, generator, learned, refused)
    return session


def _step_size(contexts: Floats) -> float:
    """Return the learner's step size for columns of variance 1, and a smaller one where variances are larger."""
    variances = contexts.var(axis=0)
    varying = variances[variances > 0.0]
    return AUCPolicy.learning_rate / max(1.0, float(varying.mean()) if len(varying) else 1.0)


class SavedPolicy(NamedTuple):
    """A policy with the names of its ads and of the columns of its context."""

    policy: Policy
    encoding: Encoding

    def probabilities(self, visitors: Iterable[Visitor]) -> Floats:
        """Return (n_visitors, n_ads) probabilities.

        Args:
          visitors: Rows of the log, such as {"age": 41, "job": "student"}, or the numbers that they become.

        Raises:
          InvalidInput: If a row does not have the columns of the log.
        """
        if isinstance(visitors, Mapping):
            raise InvalidInput("probabilities() takes a list of rows; use shares() for one visitor")
        numbers = [self.encoding.row_of(visitor) for visitor in visitors]
        return self.policy.probabilities(np.array(numbers, dtype=np.float64).reshape(-1, self.encoding.n_context))

    def shares(self, visitor: Visitor) -> dict[str, float]:
        """Return the probability of each ad for one visitor, by the name of the ad."""
        return dict(zip(self.encoding.ads, self.probabilities([visitor])[0].tolist()))


def save_policy(trained: TrainedPolicy, path: str | os.PathLike[str]) -> None:
    """Save a trained policy with the names of its ads and columns.

    Args:
      trained: What `fit_policy` returned.
      path: The file to write; the names of ads and columns also go to a file of the same name with `.json` behind it.
    """
    encoding = trained.encoding
    notes = {"items": list(encoding.ads), "context": encoding.context_names, "encoding": encoding.to_plain()}
    save(session_of(trained), path, notes)
    atomic_write(Path(f"{os.fspath(path)}.json"), json.dumps(encoding.to_plain(), ensure_ascii=False, indent=1))


def load_policy(path: str | os.PathLike[str]) -> SavedPolicy:
    """Load what `save_policy` wrote.

    Args:
      path: The file.

    Raises:
      InvalidInput: If the file is not that of an ad policy.
      NotFound: If there is no such file.
    """
    file = Path(path)
    session, notes = load_with_notes(file)
    if session.problem.n_features > 0:
        raise InvalidInput(f"{file.name} is a ranker of items with features, not an ad policy")
    if "encoding" not in notes:
        raise InvalidInput(f"{file.name} does not name its ads and columns; write it with save_policy")
    encoding = Encoding.from_plain(notes["encoding"])
    if session.problem.n_items != len(encoding.ads) or session.problem.n_context != encoding.n_context:
        raise InvalidInput(f"{file.name}: the numbers of ads and columns differ between its policy and its names")
    if session.problem.shown != 1:
        raise InvalidInput(f"{file.name} shows more than one item at a time; a log of single ads cannot judge it")
    return SavedPolicy(_policy_of(session), encoding)


def _policy_of(session: Session) -> Policy:
    """Return a policy that computes many visitors at once where the learner is `auc_policy`."""
    learner, state = session.learner, session.state
    if not isinstance(learner, AUCPolicy):
        return SessionPolicy(session=session)
    scorer = LinearScorer(state.weights, state.thresholds)
    if learner.temperature is None:
        return EpsilonGreedy(scorer=scorer, epsilon=learner.epsilon)
    return Softmax(scorer=scorer, temperature=learner.temperature)


@dataclass(frozen=True, kw_only=True)
class SessionPolicy:
    """A policy by the exact propensities of a session over a fixed set of ads."""

    session: Session

    def probabilities(self, contexts: Floats) -> Floats:
        """Return the probability of each ad for each visitor, one row per visitor."""
        n_ads = int(self.session.problem.n_items or 0)
        shares = np.empty((len(contexts), n_ads))
        items = np.zeros((n_ads, self.session.problem.n_features))
        for row, context in enumerate(contexts):
            shares[row] = [self._probability(Query("", items, context), ad, row) for ad in range(n_ads)]
        return shares

    def _probability(self, query: Query, ad: int, row: int) -> float:
        others = [other for other in range(query.n_items) if other != ad]
        log_prob = self.session.log_prob(query, np.array([ad, *others]))
        if np.isnan(log_prob):
            raise InvalidInput(
                f"row {row}: {type(self.session.learner).__name__} has no closed form for the probability "
                "of an ad, so it cannot be evaluated on a log"
            )
        return float(np.exp(log_prob))
