"""What a log says of a ranker or a policy that did not make it: one function for every kind of log."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from rankloop.bandits.saved_policy import SavedPolicy, load_policy
from rankloop.core.errors import InvalidInput
from rankloop.core.files import check_picture
from rankloop.core.registry.specs import nearest
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Clicks, Decision, Floats
from rankloop.engine import Engine
from rankloop.evaluation.choice_evaluation import evaluate_saved_policy, evaluate_target
from rankloop.evaluation.list_estimate import ListEstimate
from rankloop.evaluation.list_evaluation import AUTO, ListOptions, evaluate_pages
from rankloop.evaluation.list_model import ListMethod
from rankloop.evaluation.list_pages import ShownPage, pages_in, queries_in, replayed_pages
from rankloop.evaluation.off_policy.estimators import Method, Options
from rankloop.evaluation.off_policy.ranking_log import BY_NUMBERS, BY_POSITION, BY_SCHEMA, checked_first
from rankloop.evaluation.off_policy.sums import NeverShown
from rankloop.evaluation.ranking.saved_model import load_with_schema
from rankloop.evaluation.ranking_evaluation import HERE, evaluate_on_lists, evaluate_on_rankings
from rankloop.evaluation.report import Report
from rankloop.features.schema import Schema
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.list_log import ListLog, ShownList, feedback_of
from rankloop.logs.reader import read_log
from rankloop.logs.service_export import fields_of
from rankloop.logs.table_reader import Given

ESTIMATORS = (*get_args(Method), *BY_POSITION, *get_args(ListMethod))
Progress = Callable[[int, int], None]  # finished, of how many
BY_PLACE = "try --estimator position_wise, with the folder of the service instead of its export"


class EvaluationOptions(NamedTuple):
    """What all estimators share.

    Attributes:
      level: The probability with which each one-sided bound holds.
      bound: t, bootstrap, bernstein or hoeffding; lists are resampled.
      limit: The weight at which estimators cut, and beyond which `switch_dr` trusts the reward model.
      max_reward: The largest possible reward, for bernstein and hoeffding.
      positions: Of lists, only what so many first positions earned counts.
      position_bias: How likely each position is examined; estimated unless given.
      seed: Of every draw.
    """

    level: float = 0.95
    bound: str = "t"
    limit: float = 100.0
    max_reward: float = 1.0
    positions: int = 10
    position_bias: Sequence[float] | None = None
    seed: int = 0

    @property
    def of_choices(self) -> Options:
        """The same for estimators of single choices."""
        return Options(self.level, self.bound, self.limit, self.max_reward, seed=self.seed)  # type: ignore[arg-type]

    @property
    def of_lists(self) -> ListOptions:
        """The same for estimators by examination."""
        return ListOptions(self.level, self.positions, self.limit, self._examined(), seed=self.seed)

    def _examined(self) -> Floats | None:
        if self.position_bias is None:
            return None
        examined = np.array(self.position_bias, dtype=np.float64)
        if not ((examined > 0) & (examined <= 1)).all():
            raise InvalidInput("position bias: every position is seen with a probability above 0, at most 1")
        scaled: Floats = examined / examined[0]
        return scaled


@dataclass(frozen=True)
class Evaluation:
    """What a log says of a ranker or policy; prints as a table with its verdicts.

    Attributes:
      log: The log.
      answer: The estimates: a `Report` by probabilities, or a `ListEstimate` by examination.
    """

    log: str
    answer: Report | ListEstimate

    @property
    def verdicts(self) -> list[str]:
        """The answer in plain sentences, with its doubts."""
        return self.answer.verdicts

    def __str__(self) -> str:
        return self.answer.text(self.log)

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        return self.answer.to_json()

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the estimates into a PNG, SVG or PDF file."""
        check_picture(path)
        self.answer.plot(Path(path))


class _Target(NamedTuple):
    """The ranker or policy in question; both None where the log's own column tells the probabilities."""

    name: str  # in messages
    called: str = ""  # in the table
    ranker: Session | None = None
    schema: Schema | None = None
    policy: SavedPolicy | None = None

    @property
    def session(self) -> Session:
        if self.ranker is None:
            raise InvalidInput("a log of lists is judged for a ranker, not for a policy of single choices")
        return self.ranker


def evaluate(
    model: Any,
    log: Given | ListLog | ChoiceLog,
    *,
    estimator: str = AUTO,
    columns: Mapping[str, str] | None = None,
    ranker: str = "",
    engine: Engine = HERE,
    progress: Progress = lambda done, of: None,
    **options: Any,
) -> Evaluation:
    """Estimate from a log what a ranker or policy would earn, beside what the log itself brought.

    Nothing is trained. Lists are judged by which positions users examine, which needs no propensities and answers for
    rankers without exploration; single choices, and lists with other estimators, by propensities.

    Args:
      model: A `Ranker`, a `Session`, a `SavedPolicy`, or the path of a saved one; None evaluates the policy whose
        probabilities stand in the `target` column of a log of single choices.
      log: A log, or anything that `read_log` reads. It should not be the log that the model learned from.
      estimator: "auto", or the name of an estimator: ips, snips, clipped_ips, direct_method, doubly_robust, switch_dr;
        of lists also examination_ips, examination_dr, cascade_dr, browsing_dr; of a service's log also swap_dr,
        cascade_ips, position_wise, pseudo_inverse.
      columns: Which column is what, where the names do not tell.
      ranker: Which ranker of a service, where it has several.
      engine: Where lists are judged, with the same answer to the last digit.
      progress: Called with the number of finished rows and their total.
      **options: Fields of `EvaluationOptions`.

    Returns:
      The estimates with their bounds and verdicts.

    Raises:
      InvalidInput: If the log cannot answer for this model, with what to do.
    """
    if estimator != AUTO and estimator not in ESTIMATORS:
        raise InvalidInput(f"estimator = {estimator!r} is not known{nearest(estimator, ESTIMATORS)}")
    unknown = next((name for name in options if name not in EvaluationOptions._fields), None)
    if unknown is not None:
        raise InvalidInput(f"{unknown!r} is no option{nearest(unknown, EvaluationOptions._fields)}")
    target, how = _target_of(model), EvaluationOptions(**options)
    if not isinstance(log, ListLog | ChoiceLog):
        kind = "choices" if target.policy is not None else "auto" if target.schema is None else "lists"
        log = read_log(log, kind=kind, columns=columns, schema=target.schema, ranker=ranker)  # type: ignore[arg-type]
    if isinstance(log, ChoiceLog):
        return Evaluation(log.name, _on_choices(log, target, estimator, how, progress))
    if model is None:
        raise InvalidInput(f"{log.name} holds rankings: name the saved ranker to judge, before --log")
    if estimator in get_args(ListMethod) or (estimator == AUTO and _learns_from_clicks(log)):
        return Evaluation(log.name, _by_examination(log, target, estimator, how, engine, progress))
    method = "snips" if estimator == AUTO else estimator
    if log.rankings is not None:
        return Evaluation(log.name, _on_replay(log, target, method, how))
    return Evaluation(log.name, _by_propensity(log, target, method, how, engine, progress))


def _target_of(model: Any) -> _Target:
    """Return the ranker or policy that a model is, loaded once."""
    if model is None:
        return _Target("")
    if isinstance(model, SavedPolicy):
        return _Target("policy", "policy", policy=model)
    if isinstance(model, str | os.PathLike):
        session, schema = load_with_schema(model)
        name = Path(model).name
        if session.problem.n_features == 0:
            return _Target(name, f"policy of {name}", policy=load_policy(model))
        return _Target(name, f"ranker of {name}", session, schema)
    ranker = model if isinstance(model, Session) else getattr(model, "session", None)
    if not isinstance(ranker, Session):
        raise InvalidInput(f"a Ranker, a Session, a SavedPolicy or the path of one is evaluated, not {model!r:.60}")
    return _Target("ranker", "ranker", ranker, getattr(model, "schema", None))


def _on_choices(log: ChoiceLog, target: _Target, estimator: str, how: EvaluationOptions, progress: Progress) -> Report:
    method, options = "snips" if estimator == AUTO else estimator, how.of_choices
    if target.policy is not None:
        return evaluate_saved_policy(
            log,
            target.policy,
            name=target.called,
            method=method,
            options=options,
            seed=how.seed,
            watch=lambda rows: progress(rows, rows),
        )
    if target.ranker is not None:
        raise InvalidInput(f"{target.name} ranks items by features; this log is of single ads")
    if not log.columns.target:
        raise InvalidInput(
            f"{log.name} has no column of a target policy's probabilities and no policy is named: run `rankloop "
            f"train-policy {log.name}` first, then `rankloop evaluate` its model on another log"
        )
    return evaluate_target(log, method, options)


def _learns_from_clicks(log: ListLog) -> bool:
    """Return false where a service's ranker is known to learn from something else than clicks."""
    first = None if log.rankings is None else next(log.rankings(), None)
    return first is None or Clicks in first.drawn_by.learner.accepts


def _by_examination(
    log: ListLog, target: _Target, estimator: str, how: EvaluationOptions, engine: Engine, progress: Progress
) -> ListEstimate:
    _check_fields(log, target)
    session, schema = target.session, target.schema
    if log.rankings is not None:
        pages, engine = replayed_pages(log.rankings(), schema), HERE
    else:
        pages = pages_in(log if schema is None else log.typed_by(schema), session.problem.feature_names, schema)
    if log.export is not None and (schema is None or log.rankings is not None):
        names = log.export.feature_names
        pages = checked_first(pages, lambda page: page.query, session, target.called, names)
    watched = _watched(pages, log.n_pages, progress)
    return evaluate_pages(session, watched, estimator, how.of_lists, engine, target.called)


def _watched(pages: Iterator[ShownPage], n_pages: int, progress: Progress) -> Iterator[ShownPage]:
    for number, page in enumerate(pages, 1):
        if number % 100 == 0:
            progress(number, max(number, n_pages))
        yield page


def _on_replay(log: ListLog, target: _Target, method: str, how: EvaluationOptions) -> Report:
    """Judge a ranker on the log of a service, by the probabilities of positions or of whole rankings."""
    if log.rankings is None or log.export is None:
        raise InvalidInput(f"{log.name} does not say which states drew its lists")
    _check_fields(log, target)
    by_position = method in BY_POSITION
    with _way_on("" if by_position else "try --estimator position_wise, which weighs places instead of whole rankings"):
        return evaluate_on_rankings(
            target.session,
            log.rankings(),
            target.called,
            method,
            how.of_choices,
            positions=how.positions,
            feature_names=log.export.feature_names,
            schema=target.schema,
        )


def _by_propensity(
    log: ListLog, target: _Target, method: str, how: EvaluationOptions, engine: Engine, progress: Progress
) -> Report:
    """Judge a ranker on a table or an export, by the probabilities of whole lists."""
    if log.export is None and not log.columns.propensity:
        raise InvalidInput(
            f"{log.name} has no column with the probability of each list (such as propensity), without which it "
            "cannot tell what another ranker would earn: add --column propensity=NAME"
        )
    if method in BY_POSITION:
        raise InvalidInput(
            f"{log.name} tells the probabilities of whole rankings only, and {method} needs those of places: "
            "give the folder of the service instead, in which the states are that drew the rankings"
        )
    _check_fields(log, target)
    with _way_on("" if log.export is None else BY_PLACE):
        return evaluate_on_lists(
            target.session,
            _shown_in(log, target),
            target.called,
            method,
            how.of_choices,
            schema=target.schema,
            feature_names=() if log.export is None else log.export.feature_names,
            engine=engine,
            watch=lambda done: progress(done, max(done, log.n_pages)),
        )


def _shown_in(log: ListLog, target: _Target) -> Iterator[Arrival] | Iterator[ShownList]:
    """Return what was shown, in values by name for a ranker with a schema."""
    if target.schema is not None:
        return iter(log.typed_by(target.schema).lists(target.schema))
    return _arrivals_in(log, target.session)


def _arrivals_in(log: ListLog, session: Session) -> Iterator[Arrival]:
    """Yield every page as a decision and its feedback, items being numbered in the order shown."""
    kinds = ["clicks"] * log.n_pages if log.export is None else log.export.feedback
    queries = queries_in(log, session.problem.feature_names, None)
    pages = zip(queries, pairwise(log.offsets.tolist()), log.log_propensity.tolist(), kinds)
    for query, (start, end), log_propensity, kind in pages:
        decision = Decision(np.arange(end - start), log_propensity, ())
        yield Arrival(query, decision, feedback_of(kind, log.weight[log.order[start:end]]))


def _check_fields(log: ListLog, target: _Target) -> None:
    """Refuse a ranker that learned from something which an export never had; ids of items are always there."""
    if log.export is None:
        return
    schema = target.schema
    if (schema is None) == bool(log.schemas):
        learned, logged = (BY_NUMBERS, BY_SCHEMA) if schema is None else (BY_SCHEMA, BY_NUMBERS)
        raise InvalidInput(f"{target.name} learned from {learned}; {log.name} has {logged}")
    if schema is None:
        return
    features, context = fields_of(log.schemas)
    needed = [name for name, kind in schema.features.items() if not kind.memory]
    missing = next((name for name in needed if name not in features), None)
    missing = missing or next((name for name in schema.context if name not in context), None)
    if missing is not None:
        columns = ", ".join([*features, *context])
        raise InvalidInput(f"{target.name} learned from {missing}, which {log.name} does not have; it has {columns}")


@contextmanager
def _way_on(advice: str) -> Iterator[None]:
    """Say what to try where a ranker would never have shown what the log shows."""
    try:
        yield
    except NeverShown as error:
        raise InvalidInput(f"{error}; {advice}" if advice else str(error)) from None
