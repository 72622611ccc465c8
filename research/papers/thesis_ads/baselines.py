"""What rankers are compared with: logistic regression, random forests, and a cost-sensitive classifier."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from rankloop.bandits.ad_log import AdLog
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from research.datasets.download import need
from research.papers.thesis_ads.labelled_logs import undersampled

MIN_SCORE = -1e12  # the score of an ad that nobody ever clicked


@dataclass(frozen=True, kw_only=True)
class OneVsAll:
    """A classifier per ad; the score is its probability of a click."""

    classifiers: tuple[Any, ...]  # None for an ad without clicks, 1.0 for one that was always clicked

    def scores(self, contexts: Floats) -> Floats:
        """Return the score of each ad, as (n_rows, n_ads)."""
        return np.column_stack([self._of(classifier, contexts) for classifier in self.classifiers])

    def _of(self, classifier: Any, contexts: Floats) -> Floats:
        if classifier is None or isinstance(classifier, float):
            return np.full(len(contexts), MIN_SCORE if classifier is None else classifier)
        return np.asarray(classifier.predict_proba(contexts)[:, 1], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class CostSensitive:
    """One classifier over all ads, trained to pick what was clicked."""

    classifier: Any
    n_ads: int

    def scores(self, contexts: Floats) -> Floats:
        """Return the score of each ad, as (n_rows, n_ads)."""
        scores = np.full((len(contexts), self.n_ads), -1.0)
        scores[:, self.classifier.classes_] = self.classifier.predict_proba(contexts)
        return scores


def fit_logistic(
    log: AdLog,
    *,
    regularisation: float = 0.01,
    ratio: float | None = None,
    n_steps: int | None = None,
    rng: Generator,
) -> OneVsAll:
    """Logistic regression per ad: mean log-loss + `regularisation` · ‖w‖² over standardised features.

    `ratio` under-samples: so many unclicked examples are kept per clicked one. `n_steps` steps of averaged stochastic
    descent take the place of the exact minimum.
    """
    linear = need("sklearn.linear_model", "the logistic baseline")
    pipeline, scaling = need("sklearn.pipeline", "scaling"), need("sklearn.preprocessing", "scaling")

    def make(n: int) -> Any:
        if n_steps is not None:
            passes, seed = max(1, round(n_steps / n)), int(rng.random() * 2**31)
            descent = linear.SGDClassifier(loss="log_loss", alpha=2.0 * regularisation, max_iter=passes, tol=None)
            return pipeline.make_pipeline(scaling.StandardScaler(), descent.set_params(average=True, random_state=seed))
        strength = 1.0 / (2.0 * regularisation * n)
        return pipeline.make_pipeline(scaling.StandardScaler(), linear.LogisticRegression(C=strength, max_iter=1000))

    return _one_vs_all(log, make, ratio, rng)


def fit_forest(log: AdLog, *, n_trees: int = 200, ratio: float | None = None, rng: Generator) -> OneVsAll:
    """A random forest per ad, as in the thesis."""
    ensemble = need("sklearn.ensemble", "the random forest baseline")
    seed = int(rng.random() * 2**31)
    return _one_vs_all(log, lambda _: ensemble.RandomForestClassifier(n_trees, random_state=seed, n_jobs=1), ratio, rng)


def fit_cost_sensitive(log: AdLog, *, regularisation: float = 0.01) -> CostSensitive:
    """Multinomial logistic regression of the clicked ad, each click weighted by reward / propensity.

    It maximises a smooth lower bound of Σ reward / propensity over the rows where the policy agrees with the log.
    Reference: Dudík, Langford and Li (2011), Doubly Robust Policy Evaluation and Learning (reduction to
    cost-sensitive classification).
    """
    linear = need("sklearn.linear_model", "the cost-sensitive baseline")
    pipeline, scaling = need("sklearn.pipeline", "scaling"), need("sklearn.preprocessing", "scaling")
    clicked = log.rewards > 0
    if len(np.unique(log.ads[clicked])) < 2:
        raise InvalidInput("the cost-sensitive policy needs clicks on at least two ads")
    weight = log.rewards[clicked] / log.propensities[clicked]
    model = linear.LogisticRegression(C=1.0 / (2.0 * regularisation * clicked.sum()), max_iter=1000)
    steps = pipeline.make_pipeline(scaling.StandardScaler(), model)
    steps.fit(log.contexts[clicked], log.ads[clicked], logisticregression__sample_weight=weight / weight.mean())
    return CostSensitive(classifier=steps, n_ads=log.n_ads)


def _one_vs_all(log: AdLog, make: Callable[[int], Any], ratio: float | None, rng: Generator) -> OneVsAll:
    classifiers: list[Any] = []
    for ad in range(log.n_ads):
        ad_rows = np.flatnonzero(log.ads == ad)
        clicked = log.rewards[ad_rows] > 0
        if clicked.any() and not clicked.all():
            rows = ad_rows if ratio is None else ad_rows[undersampled(clicked, ratio, rng)]
            classifiers.append(make(len(rows)).fit(log.contexts[rows], log.rewards[rows] > 0))
        else:
            classifiers.append(1.0 if clicked.any() else None)
    return OneVsAll(classifiers=tuple(classifiers))
