"""Estimate from a log what a ranker or a policy would earn: one function for every kind of log."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from rankloop.bandits.ad_log import training_rows
from rankloop.bandits.train import SavedPolicy, load_policy
from rankloop.core.errors import InvalidInput
from rankloop.core.files import check_picture
from rankloop.core.registry.specs import nearest
from rankloop.core.saved_session import load_with_notes
from rankloop.core.session import Session
from rankloop.core.types import Arrival, Clicks, Decision
from rankloop.engine import Engine
from rankloop.evaluation.list_estimate import ListEstimate
from rankloop.evaluation.list_evaluation import ListOptions, evaluate_pages
from rankloop.evaluation.list_pages import ShownPage
from rankloop.evaluation.off_policy.estimators import REWARD_MODEL_METHODS, Method, Options
from rankloop.evaluation.off_policy.ranking_log import BY_NUMBERS, BY_POSITION, BY_SCHEMA, LOCAL_ENGINE, AskedRanker
from rankloop.evaluation.off_policy.running_sums import NeverShown
from rankloop.evaluation.propensity_evaluation import evaluate_policies, report_of_rankings, report_of_rows
from rankloop.evaluation.ranking.score import HELD_OUT_GAIN, load_with_schema
from rankloop.evaluation.report import PER_PAGE, Report
from rankloop.features.schema import Schema
from rankloop.logs.choice_log import ChoiceLog
from rankloop.logs.list_log import ListLog, ShownList, feedback_of
from rankloop.logs.reader import LogKind, read_log
from rankloop.logs.service_export import fields_of
from rankloop.logs.table_reader import Given

AUTO_ESTIMATOR = "auto"
EXAMINATION_ESTIMATOR = "examination"  # of `list_evaluation`, without propensities
PROPENSITY_ESTIMATOR = "snips"  # the usual one by propensities
ESTIMATOR_NAMES = (AUTO_ESTIMATOR, *get_args(Method), *BY_POSITION, EXAMINATION_ESTIMATOR)
OPTION_NAMES = tuple(dict.fromkeys((*Options._fields, *ListOptions._fields)))
MAX_WEIGHT = 100.0  # at which estimators by propensity cut, unless given
PROPENSITY_POSITIONS = 10  # first positions that count by propensity, unless given
Progress = Callable[[int, int], None]  # finished, of how many
FROM_THE_FOLDER = "with the folder of the service instead of its export"


@dataclass(frozen=True)
class Evaluation:
    """The answer of a log about a ranker or policy; prints as a table with its verdicts."""

    log: str
    answer: Report | ListEstimate  # by probabilities, or by examination
    notes: tuple[str, ...] = ()  # what was guessed or left out of the log, a sentence each

    @property
    def verdicts(self) -> list[str]:
        """The answer in plain sentences, with warnings."""
        return self.answer.verdicts

    def __str__(self) -> str:
        return self.answer.text(self.log)

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        return self.answer.to_json()

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the estimates into a PNG, SVG or PDF file."""
        check_picture(Path(path))
        self.answer.plot(Path(path))


class _Target(NamedTuple):
    """The ranker or policy in question; both None where the log's own column tells the probabilities."""

    name: str  # in messages
    called: str = ""  # in the table
    ranker: Session | None = None
    schema: Schema | None = None
    policy: SavedPolicy | None = None
    held_out_gain: float | None = None  # over the logged order, as training found it on held-out lists

    @property
    def session(self) -> Session:
        if self.ranker is None:
            raise InvalidInput("a log of lists is judged for a ranker, not for a policy of single choices")
        return self.ranker


def evaluate(
    model: Any,
    log: Given | ListLog | ChoiceLog,
    *,
    estimator: str = AUTO_ESTIMATOR,
    columns: Mapping[str, str] | None = None,
    ranker: str = "",
    skip_bad_rows: bool = False,
    engine: Engine = LOCAL_ENGINE,
    progress: Progress = lambda done, of: None,
    **options: Any,
) -> Evaluation:
    """Estimate from a log what a ranker or policy would earn, beside what the log itself brought.

    Lists are judged by examination, which needs no propensities, and beside a random order: a verdict that the controls
    contradict is refused. Single choices, and other estimators, are judged by propensities.

    Args:
      model: A `Ranker`, a `Session`, a `SavedPolicy`, or the path of a saved one; None evaluates the policy whose
        probabilities stand in the `target` column of a log of single choices.
      log: A log, or anything that `read_log` reads. It should not be the log that the model learned from.
      estimator: "auto", or the name of an estimator: ips, snips, clipped_ips, direct_method, doubly_robust, switch_dr;
        of lists also examination; of a service's log also cascade_ips, position_wise, pseudo_inverse.
      columns: Which column is what, where the names do not tell.
      ranker: Which ranker of a service, where it has several.
      skip_bad_rows: Leave out rows of a table of lists with a bad cell; `notes` counts them.
      engine: Where lists are judged, with the same answer to the last digit.
      progress: Called with the number of finished rows and their total.
      **options: Fields of `Options`, `limit` being 100 unless given; of lists, by examination, those of `ListOptions`.

    Raises:
      InvalidInput: If the log cannot answer for this model, with what to do.
    """
    if estimator not in ESTIMATOR_NAMES:
        raise InvalidInput(f"estimator = {estimator!r} is not known{nearest(estimator, ESTIMATOR_NAMES[1:])}")
    if unknown := [name for name in options if name not in OPTION_NAMES]:
        raise InvalidInput(f"{unknown[0]!r} is no option{nearest(unknown[0], OPTION_NAMES)}")
    of_choices, of_lists = (
        {name: value for name, value in options.items() if name in kind._fields} for kind in (Options, ListOptions)
    )
    target, by_propensity = _target_of(model), Options(**{"limit": MAX_WEIGHT} | of_choices)
    if not isinstance(log, ListLog | ChoiceLog):
        kind: LogKind = "choices" if target.policy is not None else "auto" if target.schema is None else "lists"
        schema = target.schema
        log = read_log(log, kind=kind, columns=columns, schema=schema, ranker=ranker, skip_bad_rows=skip_bad_rows)
    if isinstance(log, ListLog) and model is None:
        raise InvalidInput(f"{log.name} holds rankings: name the saved ranker to judge, before --log")
    method = PROPENSITY_ESTIMATOR if estimator == AUTO_ESTIMATOR else estimator
    if estimator == AUTO_ESTIMATOR and isinstance(log, ListLog):  # by propensities where a learner took no clicks
        first = None if log.rankings is None else next(log.rankings(), None)
        if first is None or Clicks in first.drawn_by.learner.accepts:
            method = EXAMINATION_ESTIMATOR
    if isinstance(log, ChoiceLog):
        return Evaluation(log.name, _on_choices(log, target, method, by_propensity, progress))
    target, notes = _fitting(target, log)
    if method == EXAMINATION_ESTIMATOR:
        list_options = ListOptions(**{"held_out_gain": target.held_out_gain} | of_lists)
        answer: Report | ListEstimate = _by_examination(log, target, list_options, engine, progress)
    else:
        positions = options.get("positions") or PROPENSITY_POSITIONS
        answer = _by_propensity(log, target, method, by_propensity, positions, engine, progress)
    n_other = log.n_pages - (answer.n_pages if isinstance(answer, ListEstimate) else answer.n_rows)
    if log.rankings is not None and n_other > 0:
        notes += (f"{n_other:,} pages were left out: no known state of the ranker made their order (rules, erasure …)",)
    return Evaluation(log.name, answer, notes)


def _fitting(target: _Target, log: ListLog) -> tuple[_Target, tuple[str, ...]]:
    """Return the target with item fields in place of context fields that differ inside a list, and notes."""
    schema, varying = target.schema, list[str]()
    if schema is not None and log.export is None:
        varying = [name for name in schema.context if name in log.values and not log.same_in_lists(name)]
    if schema is None or not varying:
        return target, log.notes
    # The hash of a cross is the same for a field of the context and of the items, so that all weights stay right.
    context = {name: kind for name, kind in schema.context.items() if name not in varying}
    features = {**schema.features, **{name: schema.context[name] for name in varying}}
    note = f"{', '.join(varying)}: differs inside lists of {log.name}, so it counts as a field of the items"
    return target._replace(schema=replace(schema, features=features, context=context)), (*log.notes, note)


def _target_of(model: Any) -> _Target:
    """Return the ranker or policy that a model is, loaded once."""
    if model is None:
        return _Target("")
    if isinstance(model, SavedPolicy):
        return _Target("policy", "policy", policy=model)
    if isinstance(model, str | os.PathLike):
        session, schema = load_with_schema(model)
        held_out_gain, name = load_with_notes(model)[1].get(HELD_OUT_GAIN), Path(model).name
        if session.problem.n_features == 0:
            return _Target(name, f"policy of {name}", policy=load_policy(model))
        return _Target(name, f"ranker of {name}", session, schema, held_out_gain=held_out_gain)
    ranker = model if isinstance(model, Session) else getattr(model, "session", None)
    if not isinstance(ranker, Session):
        raise InvalidInput(f"a Ranker, a Session, a SavedPolicy or the path of one is evaluated, not {model!r:.60}")
    return _Target("ranker", "ranker", ranker, getattr(model, "schema", None))


def _on_choices(log: ChoiceLog, target: _Target, method: str, options: Options, progress: Progress) -> Report:
    if target.policy is not None:
        # All rows count; where the method needs a reward model, a random half fits it and the other half counts.
        (policy, encoding), seed = target.policy, options.seed
        share = 0.5 if method in REWARD_MODEL_METHODS else 0.0
        return evaluate_policies(
            log,
            encoding,
            {target.called: policy},
            method=method,
            options=options,
            model=training_rows(log, encoding, seed, share).reward_model() if share else None,
            seed=seed,
            share=share,
            watch=lambda rows: progress(rows, rows),
        )
    if target.ranker is not None:
        raise InvalidInput(f"{target.name} ranks items by features; this log is of single ads")
    if not log.columns.target:
        fault = f"{log.name} has no column of a target policy's probabilities and no policy is named"
        advice = f"run `rankloop train-policy {log.name}` first, then `rankloop evaluate` its model on another log"
        raise InvalidInput(f"{fault}: {advice}")
    return report_of_rows(log.rows(), log.columns.target, method, options)


def _by_examination(
    log: ListLog, target: _Target, options: ListOptions, engine: Engine, progress: Progress
) -> ListEstimate:
    _check_fields(log, target)
    session, schema = target.session, target.schema
    if log.rankings is not None:
        pages, engine = ShownPage.replayed(log.rankings(), schema), LOCAL_ENGINE
    else:
        table = log if schema is None else log.typed_by(schema)
        pages = ShownPage.in_log(table, session.problem.feature_names, schema)
    if log.export is not None and (schema is None or log.rankings is not None):
        ranker = AskedRanker(session, schema)
        pages = ranker.checked(pages, lambda page: page.query, target.called, log.export.feature_names)

    def watched() -> Iterator[ShownPage]:
        for number, page in enumerate(pages, 1):
            if number % 100 == 0:
                progress(number, max(number, log.n_pages))
            yield page

    return evaluate_pages(session, watched(), options, engine, target.called)


def _by_propensity(
    log: ListLog, target: _Target, method: str, options: Options, positions: int, engine: Engine, progress: Progress
) -> Report:
    """Judge a ranker by the probabilities of whole lists or, on the log of a service, of positions."""
    if log.export is None and not log.columns.propensity:
        fault = f"{log.name} has no column with the probability of each list (such as propensity), which {method} needs"
        raise InvalidInput(f"{fault}: add --column propensity=NAME, or leave --estimator out, which needs none")
    if method in BY_POSITION and log.rankings is None:
        fault = f"{log.name} tells the probabilities of whole rankings only, and {method} needs those of positions"
        raise InvalidInput(f"{fault}: give the folder of the service instead")
    if log.rankings is None and (unknown := np.flatnonzero(np.isnan(log.log_propensity))).size:
        fault = f"{len(unknown):,} of {log.n_pages:,} pages have no propensity, the first of them page {unknown[0] + 1}"
        raise InvalidInput(f"{log.name}: {fault}; {method} needs that of every page, examination needs none")
    _check_fields(log, target)
    name, features = target.called, () if log.export is None else log.export.feature_names
    ranker = AskedRanker(target.session, target.schema)
    try:
        if log.rankings is not None:
            rankings = ranker.checked(log.rankings(), lambda entry: entry.query_by(ranker.encoder), name, features)
            return report_of_rankings(ranker, rankings, name, method, options, positions)
        pages = ranker.checked(_shown_in(log, target), lambda page: ranker.arrival(page).query, name, features)
        rows = ranker.rows(pages, engine, lambda finished: progress(finished, max(finished, log.n_pages)))
        return report_of_rows(rows, name, method, options)._replace(unit=PER_PAGE)
    except NeverShown as error:
        if log.export is None or method in BY_POSITION:
            raise
        where = "which weighs positions instead of whole rankings" if log.rankings is not None else FROM_THE_FOLDER
        raise InvalidInput(f"{error}; try --estimator position_wise, {where}") from None


def _shown_in(log: ListLog, target: _Target) -> Iterator[Arrival | ShownList]:
    """Yield every page, in values by name for a ranker with a schema."""
    # Else it is a decision and its feedback, items being numbered in the order shown.
    if target.schema is not None:
        yield from log.typed_by(target.schema).lists(target.schema)
        return
    kinds = ["clicks"] * log.n_pages if log.export is None else log.export.feedback
    queries = log.queries(target.session.problem.feature_names)
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
    missing = [name for name, kind in schema.features.items() if not kind.memory and name not in features]
    missing += [name for name in schema.context if name not in context]
    if missing:
        columns = ", ".join([*features, *context])
        raise InvalidInput(f"{target.name} learned from {missing[0]}, which {log.name} does not have; it has {columns}")
