"""The linear ranker of the bundle method, with scikit-learn's conventions but without needing scikit-learn."""

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.registry.specs import Estimator
from rankloop.core.saved_session import save
from rankloop.core.session import Session
from rankloop.core.types import Floats, Problem, finite_floats, item_indices, real_numbers, whole_number
from rankloop.data.dataset import Dataset
from rankloop.engine import Threads
from rankloop.evaluation.ranking.score import NORMALISED_NOTE as NORMALISED_NOTE
from rankloop.learners.baseline import FixedWeights
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.bundle import minimise
from rankloop.training.risks.base import risk_of
from rankloop.training.risks.pairwise import hinge_of_pairs
from rankloop.training.solution_path import Fit, SolverSettings, fit

Groups = Sequence[object] | ArrayLike


@dataclass(eq=False)
class RankBundle(Estimator):
    """A linear ranker, trained by the bundle method: min over w of λ/2 ‖w‖² + (1/Q) Σ_q loss(X_q · w, y_q).

    Features should be of about the same scale. `qid` names the query of each row; without it, all rows are one query.
    In a pipeline or a search over parameters scikit-learn passes it on after
    `sklearn.set_config(enable_metadata_routing=True)`.

    Args:
      loss: A risk (`ordinal`, `least_squares`, `preferences`, `list_net`, `slam`) or the measure that it bounds
        (`nDCG@10`, `P@5`, `ERU`, `NERU`).
      regularisation: λ.
      tight: Take the tighter, non-convex bound on a measure, from the ordinal solution on.
      tolerance: The share of the possible improvement over w = 0 that may be missing.
      max_iterations: Of the bundle method.
      warm_start: Begin with the weights of the last fit.
      n_jobs: The number of threads; None or −1 is one per core.
      measure: What `score` returns the mean of.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], [1, 1, 2, 2]
    >>> RankBundle(regularisation=0.1).fit(X, y, qid=qid).score(X, y, qid=qid)
    1.0
    """

    loss: str = "ordinal"
    regularisation: float = 1e-3
    _: KW_ONLY
    tight: bool = False
    tolerance: float = 1e-4
    max_iterations: int = 1000
    warm_start: bool = False
    n_jobs: int | None = None
    measure: str = "nDCG@10"

    def fit(self, X: ArrayLike, y: ArrayLike, qid: Groups | None = None) -> "RankBundle":
        """Train on rows with grades `y`, each belonging to the query `qid`."""
        dataset = as_dataset(X, y, qid)
        n_jobs = None if self.n_jobs in (None, -1) else whole_number(self.n_jobs, "n_jobs", 1)
        settings = SolverSettings(self.tolerance, self.max_iterations, Threads(workers=n_jobs))
        usable = self.warm_start and hasattr(self, "coef_") and len(self.coef_) == dataset.n_features
        start = self.coef_ if usable else None
        model = fit(dataset, risk_of(self.loss), self.regularisation, tight=self.tight, start=start, settings=settings)
        self._keep(model, dataset, self.tight)
        return self

    def fit_pairs(self, X: ArrayLike, pairs: ArrayLike, costs: ArrayLike | None = None) -> "RankBundle":
        """Train on preferences (Algorithm 2 of the bundle paper's supplement).

        Args:
          X: (n_rows, n_features).
          pairs: Row numbers (i, j): row j of X should stand above row i.
          costs: The cost of each pair; 1 unless given.
        """
        if self.loss != "preferences":
            raise InvalidInput(f'fit_pairs needs loss="preferences", this ranker has {self.loss!r}')
        features, table = _matrix_of(X), np.asarray(pairs)
        if table.ndim != 2 or table.shape[1] != 2 or len(table) == 0:
            raise InvalidInput(f"pairs must be rows of two row numbers of X, got shape {table.shape}")
        rows = item_indices(table.ravel(), "pairs").reshape(-1, 2)
        if rows.min() < 0 or rows.max() >= len(features):
            raise InvalidInput(f"pairs name rows from {rows.min()} to {rows.max()}; X has 0 to {len(features) - 1}")
        prices = finite_floats(np.ones(len(rows)) if costs is None else costs, 1, "costs")
        if len(prices) != len(rows) or prices.min() < 0.0:
            raise InvalidInput(f"costs must be {len(rows)} numbers from 0, one for each pair")

        def risk(weights: Floats) -> tuple[float, Floats]:
            value, grad = hinge_of_pairs(scores_of(features, weights), rows, prices)
            return value, weighted_rows(features, grad)

        options: Any = {"tolerance": self.tolerance, "max_iterations": self.max_iterations}
        solution = minimise(risk, np.zeros(features.shape[1]), regularisation=self.regularisation, **options)
        dataset = Dataset.of(features, np.zeros(len(features)), [0, len(features)])
        self._keep(Fit(self.regularisation, solution, solution.at_zero), dataset)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return a score for each row; within a query, higher is better."""
        self._require_fit()
        features = _matrix_of(X)
        if features.shape[1] != self.n_features_in_:
            expected = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise InvalidInput(f"X has {features.shape[1]} features, but {expected}")
        return scores_of(features, self.coef_)

    def score(self, X: ArrayLike, y: ArrayLike, qid: Groups | None = None) -> float:
        """Return the mean of the `measure` over the queries; the negative of a loss, so that more is always better."""
        dataset = as_dataset(X, y, qid)
        self._require_fit()
        if qid is None and self.n_queries_ > 1:
            fault = f"fit got {self.n_queries_} queries and score none, so all rows are judged as one query"
            advice = "inside scikit-learn, sklearn.set_config(enable_metadata_routing=True) passes qid on"
            warnings.warn(f"{fault}; {advice}", RuntimeWarning, stacklevel=2)
        judge = parse_measure(self.measure)
        mean = mean_of(judge.of_scores(self.predict(dataset.features), dataset.relevance, dataset.offsets))
        return mean if judge.higher_is_better else -mean

    def to_session(self, feature_names: Sequence[str] = ()) -> Session:
        """Return a session that ranks with these weights and learns nothing, for `rankloop.save` and serving."""
        self._require_fit()
        return session_of(self.coef_, self.max_grade_, feature_names)

    def save(self, path: str | os.PathLike[str], feature_names: Sequence[str] = ()) -> None:
        """Write the weights as a file that `rankloop evaluate` reads."""
        notes = {name: value for name, value in self.get_params().items() if isinstance(value, str | float | bool)}
        save(self.to_session(feature_names), path, {"estimator": type(self).__name__} | notes)

    def _keep(self, model: Fit, dataset: Dataset, tight: bool = False) -> None:
        self.coef_, self.n_features_in_ = model.weights, len(model.weights)
        self.solution_, self.n_iter_ = model.solution, model.solution.iterations
        self.n_queries_ = dataset.n_queries
        self.max_grade_ = max(1, int(np.ceil(dataset.relevance.max(initial=0.0))))
        for message in model.warnings(self.loss, tight):
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def _require_fit(self) -> None:
        if hasattr(self, "coef_"):
            return
        message = f"this {type(self).__name__} has no weights yet: call fit first"
        if "sklearn" not in sys.modules:
            raise InvalidInput(message)
        from sklearn.exceptions import NotFittedError

        class NotFitted(InvalidInput, NotFittedError):  # type: ignore[misc]
            """Used before `fit`: scikit-learn's error, so that its tools recognise it."""

        raise NotFitted(message)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(poor_score=True),
            input_tags=InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def get_metadata_routing(self) -> Any:
        """Return the routing by which `qid` goes to `fit` and `score`."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.fit.add_request(param="qid", alias=True)
        request.score.add_request(param="qid", alias=True)
        request.score.add_request(param="sample_weight", alias=None)  # a pipeline asks for it even if it is unused
        return request


def session_of(weights: Floats, max_grade: int = 1, feature_names: Sequence[str] = ()) -> Session:
    """Return weights as a session of `fixed_weights`.

    Args:
      weights: One per feature.
      max_grade: The highest grade of the problem.
      feature_names: The names of the features, where they have any.
    """
    problem = Problem(len(weights), max_grade=max_grade, feature_names=tuple(feature_names))
    return Session(FixedWeights(weights=tuple(weights.tolist())), problem)


def _matrix_of(X: ArrayLike) -> Floats:
    """Return rows of features; errors have the words that scikit-learn's tools look for."""
    if hasattr(X, "toarray"):
        raise InvalidInput("sparse input is not supported; pass X.toarray()")
    try:
        rows = real_numbers(X, "X")
        if rows.ndim == 1:
            raise InvalidInput("X has 1 dimension. Reshape your data: X.reshape(-1, 1) is one feature, (1, -1) one row")
        return finite_floats(rows, 2, "X")
    except InvalidInput as error:
        rule = "X must be a table of real numbers without NaN or inf (Complex data not supported)"
        raise InvalidInput(f"{error}; {rule}") from None


def as_dataset(X: ArrayLike, y: ArrayLike, qid: Groups | None) -> Dataset:
    """Return rows as a data set, those of a query together.

    Args:
      X: (n_rows, n_features).
      y: The grade of each row.
      qid: The query of each row; None: all rows are one query.
    """
    if y is None:
        raise InvalidInput("a ranker requires y to be passed, but the target y is None: give a grade for each row")
    features, grades = _matrix_of(X), finite_floats(y, 1, "y")
    for count, unit in zip(features.shape, ("sample(s)", "feature(s)")):
        if count == 0:
            raise InvalidInput(f"X has 0 {unit} (shape={features.shape}) while a minimum of 1 is required.")
    return Dataset.of_rows(features, grades, [0] * len(features) if qid is None else qid)
