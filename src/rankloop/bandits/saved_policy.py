"""A trained ad policy as a session that can be served and goes on learning, and the way back."""

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
    """An `auc_policy` session that shows what the trained policy shows, with examples of the log to learn on from."""
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
    """The learner's own, which suits columns of variance 1; smaller where an age in years would undo the training."""
    variances = contexts.var(axis=0)
    varying = variances[variances > 0.0]
    return AUCPolicy.learning_rate / max(1.0, float(varying.mean()) if len(varying) else 1.0)


class SavedPolicy(NamedTuple):
    """A policy with the names of its ads and columns: asked with rows as a log has them, it answers with ads."""

    policy: Policy
    encoding: Encoding

    def probabilities(self, visitors: Iterable[Visitor]) -> Floats:
        """(n_visitors, n_ads), for rows such as {"age": 41, "job": "student"} or for the numbers that they become."""
        if isinstance(visitors, Mapping):
            raise InvalidInput("probabilities are of many visitors: give a list of rows, or ask for the shares of one")
        numbers = [self.encoding.row_of(visitor) for visitor in visitors]
        return self.policy.probabilities(np.array(numbers, dtype=np.float64).reshape(-1, self.encoding.n_context))

    def shares(self, visitor: Visitor) -> dict[str, float]:
        """With which probability each ad is shown to this visitor, by the ads' names."""
        return dict(zip(self.encoding.ads, self.probabilities([visitor])[0].tolist()))


def save_policy(trained: TrainedPolicy, path: str | os.PathLike[str]) -> None:
    """Save a trained policy, with which ad and which column each number stands for.

    Args:
      trained: What `fit_policy` returned.
      path: The file to write; the names of ads and columns also go to a file of the same name with `.json` behind it.
    """
    encoding = trained.encoding
    notes = {"items": list(encoding.ads), "context": encoding.context_names, "encoding": encoding.to_plain()}
    save(session_of(trained), path, notes)
    atomic_write(Path(f"{os.fspath(path)}.json"), json.dumps(encoding.to_plain(), ensure_ascii=False, indent=1))


def load_policy(path: str | os.PathLike[str]) -> SavedPolicy:
    """What `save_policy` wrote."""
    file = Path(path)
    session, notes = load_with_notes(file)
    if session.problem.n_features > 0:
        raise InvalidInput(f"{file.name} ranks items by features; this log is of single ads")
    if "encoding" not in notes:
        raise InvalidInput(f"{file.name} was not trained on a log of single ads: it does not name its columns")
    encoding = Encoding.from_plain(notes["encoding"])
    if session.problem.n_items != len(encoding.ads) or session.problem.n_context != encoding.n_context:
        raise InvalidInput(f"{file.name}: its policy and the columns of its log do not belong together")
    if session.problem.shown != 1:
        raise InvalidInput(f"{file.name} shows more than one item at a time; a log of single ads cannot judge it")
    return SavedPolicy(_policy_of(session), encoding)


def _policy_of(session: Session) -> Policy:
    """The session itself, or the same policy over whole arrays where that is known."""
    learner, state = session.learner, session.state
    if not isinstance(learner, AUCPolicy):
        return SessionPolicy(session=session)
    scorer = LinearScorer(state.weights, state.thresholds)
    if learner.temperature is None:
        return EpsilonGreedy(scorer=scorer, epsilon=learner.epsilon)
    return Softmax(scorer=scorer, temperature=learner.temperature)


@dataclass(frozen=True, kw_only=True)
class SessionPolicy:
    """A session over a fixed set of ads, asked for the probability of each ad to be first."""

    session: Session

    def probabilities(self, contexts: Floats) -> Floats:
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
                f"row {row}: {type(self.session.learner).__name__} cannot say with which probability it shows an ad "
                "(it has no closed form), so a log cannot judge it"
            )
        return float(np.exp(log_prob))
