"""Training a policy on a log of single choices, and its estimate on the rows that were held out."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.bandits.ad_log import training_rows
from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.train import CRITERION, TrainedPolicy, fit_rankers
from rankloop.core.errors import InvalidInput
from rankloop.evaluation.propensity_evaluation import evaluate_policies
from rankloop.evaluation.report import Report
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.context import Encoding

TRAINED_POLICY = "trained policy"  # its name in reports


class PolicyTraining(NamedTuple):
    """A trained policy and its estimate; it prints as the table of what it would earn on held-out rows."""

    trained: TrainedPolicy
    report: Report | None  # None: every row was for training
    name: str  # of the log

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings: none."""
        return ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the policy, with which ad and which column each number stands for."""
        self.trained.save(path)

    def __str__(self) -> str:
        log, encoding = self.trained.log, self.trained.encoding
        if self.report is None:
            return f"{len(log.ads):,} rows to learn from, {log.n_ads} ads\n{encoding.described}"
        return self.report.text(self.name)

    def to_json(self) -> dict[str, Any]:
        """Return the ads, the columns, and the estimates of the policies."""
        encoding = self.trained.encoding
        plain = {"ads": encoding.ads, "columns": encoding.columns, "epsilon": self.trained.epsilon}
        return plain | (self.report.to_json() if self.report is not None else {})

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the estimates of the policies, where there are any."""
        if self.report is None:
            raise InvalidInput("all rows were used for training, so there is no estimate; train on a smaller share")
        self.report.plot(Path(path))


def train_policy(
    log: ChoiceLog,
    *,
    epsilon: float = 0.0,
    share: float = 0.5,
    ranker: AUCRanker | None = None,
    context: Sequence[str] | None = None,
    without: Sequence[str] = (),
    features: Sequence[str] = (),
    seed: int = 0,
    progress: Callable[[int], None] = lambda rows: None,
) -> PolicyTraining:
    """Train a policy on a random part of a log of single choices, and estimate it on the other rows.

    Args:
      log: The log: an ad, a reward and a propensity per row, and columns that describe the visitor.
      epsilon: With which probability the policy explores.
      share: The share of the rows that train, of at most half a million; with 1 there is no estimate.
      ranker: The settings of the rankers; the default is `AUCRanker()`.
      context: The columns that describe the visitor; by default all that have no other role.
      without: Columns that do not.
      features: Columns that are context even if they look like ids, times or outcomes.
      seed: Draws the rows that train.
      progress: Called with the number of rows that the estimate has read.
    """
    encoding = Encoding.of(log.pieces(), context, without, features)
    if len(encoding.ads) < 2:
        raise InvalidInput(f"{log.name} shows only the ad {encoding.ads[0]!r}; there is nothing to choose")
    rows = training_rows(log, encoding, seed, share)
    if not (rows.rewards > 0).any():
        fault = f"none of the {len(rows.ads):,} rows to learn from was rewarded"
        raise InvalidInput(f"{log.name}: {fault}; the log is too small to train a policy")
    trained = TrainedPolicy(encoding, fit_rankers(rows, ranker, CRITERION), rows, epsilon, seed)
    if share >= 1.0:
        return PolicyTraining(trained, None, log.name)
    report = evaluate_policies(log, encoding, {TRAINED_POLICY: trained.policy}, seed=seed, share=share, watch=progress)
    return PolicyTraining(trained, report, log.name)
