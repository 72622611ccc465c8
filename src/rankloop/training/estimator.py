"""What scikit-learn expects of an estimator, without needing scikit-learn."""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.kernels import scores_of
from rankloop.core.registry.estimator import Estimator
from rankloop.core.saved_session import save
from rankloop.core.session import Session
from rankloop.core.types import Floats, Problem, finite_floats, real_numbers
from rankloop.data.dataset import Dataset
from rankloop.evaluation.ranking.saved_model import NORMALISED as NORMALISED
from rankloop.learners.baseline import FixedWeights
from rankloop.measures.base import mean_of, parse_measure

Groups = Sequence[object] | ArrayLike


class LinearRanker(Estimator):
    """Parameters in the constructor, `coef_` after `fit`; it predicts scores, and `score` is a mean over queries.

    `qid` names the query of each row; without it, all rows are one query. In a pipeline or a search over parameters
    scikit-learn hands it on by itself after `sklearn.set_config(enable_metadata_routing=True)`.
    """

    measure: str
    coef_: Floats
    n_features_in_: int
    max_grade_: int
    n_queries_: int

    def predict(self, X: ArrayLike) -> Floats:
        """A score for each row; within a query, higher is better."""
        features = self._checked(X)
        return scores_of(features, self.coef_)

    def score(self, X: ArrayLike, y: ArrayLike, qid: Groups | None = None) -> float:
        """The mean of the `measure` over the queries; of a loss its negative, so that more is always better."""
        dataset = as_dataset(X, y, qid)
        self._require_fit()
        if qid is None and self.n_queries_ > 1:
            warnings.warn(
                f"fit was given {self.n_queries_} queries and score none, so all rows are judged as one query; inside "
                "scikit-learn, sklearn.set_config(enable_metadata_routing=True) hands qid on",
                RuntimeWarning,
                stacklevel=2,
            )
        judge = parse_measure(self.measure)
        mean = mean_of(judge.of_scores(self.predict(dataset.features), dataset.relevance, dataset.offsets))
        return mean if judge.higher_is_better else -mean

    def to_session(self, feature_names: Sequence[str] = ()) -> Session:
        """A session that ranks with these weights and learns nothing: for `rankloop.save`, `evaluate` and serving."""
        self._require_fit()
        return session_of(self.coef_, self.max_grade_, feature_names)

    def save(self, path: str | os.PathLike[str], feature_names: Sequence[str] = ()) -> None:
        """Write the weights as a file that `rankloop evaluate` reads."""
        notes = {name: value for name, value in self.get_params().items() if isinstance(value, str | float | bool)}
        save(self.to_session(feature_names), path, {"estimator": type(self).__name__} | notes)

    def _keep(self, weights: Floats, dataset: Dataset) -> None:
        self.coef_ = weights
        self.n_features_in_ = len(weights)
        self.n_queries_ = dataset.n_queries
        self.max_grade_ = max(1, int(np.ceil(dataset.relevance.max(initial=0.0))))

    def _require_fit(self) -> None:
        if not hasattr(self, "coef_"):
            raise _not_fitted(f"this {type(self).__name__} has no weights yet: call fit first")

    def _checked(self, X: ArrayLike) -> Floats:
        self._require_fit()
        features = matrix_of(X)
        if features.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"X has {features.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return features

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({given})"

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
        """`qid` goes to `fit` and `score`."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.fit.add_request(param="qid", alias=True)
        request.score.add_request(param="qid", alias=True)
        request.score.add_request(param="sample_weight", alias=None)  # a pipeline asks for it, even for nothing
        return request


def session_of(weights: Floats, max_grade: int = 1, feature_names: Sequence[str] = ()) -> Session:
    """Weights as a `fixed_weights` learner in use."""
    problem = Problem(len(weights), max_grade=max_grade, feature_names=tuple(feature_names))
    return Session(FixedWeights(weights=tuple(weights.tolist())), problem)


def matrix_of(X: ArrayLike) -> Floats:
    """Rows of features, refused in words that scikit-learn's tools look for."""
    if hasattr(X, "toarray"):
        raise InvalidInput("sparse input is not supported; pass X.toarray()")
    try:
        rows = real_numbers(X, "X")
        if rows.ndim == 1:
            raise InvalidInput("X has 1 dimension. Reshape your data: X.reshape(-1, 1) is one feature, (1, -1) one row")
        return finite_floats(rows, 2, "X")
    except InvalidInput as error:
        raise InvalidInput(
            f"{error}; X must be a table of real numbers without NaN or inf (Complex data not supported)"
        ) from None


def as_dataset(X: ArrayLike, y: ArrayLike, qid: Groups | None) -> Dataset:
    """Rows of one query brought together; without `qid` all rows are one query."""
    if y is None:
        raise InvalidInput("a ranker requires y to be passed, but the target y is None: give a grade for each row")
    features, grades = matrix_of(X), finite_floats(y, 1, "y")
    for count, what in zip(features.shape, ("sample(s)", "feature(s)")):
        if count == 0:
            raise InvalidInput(f"X has 0 {what} (shape={features.shape}) while a minimum of 1 is required.")
    return Dataset.of_rows(features, grades, [0] * len(features) if qid is None else qid)


def _not_fitted(message: str) -> Exception:
    """scikit-learn's own error where it is there, so that its tools recognise it."""
    if "sklearn" in sys.modules:
        from sklearn.exceptions import NotFittedError

        class NotFitted(InvalidInput, NotFittedError):  # type: ignore[misc]
            """Used before `fit`."""

        return NotFitted(message)
    return InvalidInput(message)
