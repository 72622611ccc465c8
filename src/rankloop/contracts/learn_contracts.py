"""The contracts for `learn`, its state and its feedback."""

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng

from rankloop.contracts import cases
from rankloop.contracts.cases import Case, ContractViolation, contract, require
from rankloop.core.errors import IncompatibleFeedback, RankloopError
from rankloop.core.kernels import is_permutation
from rankloop.core.plain_values import decision_from_plain, decision_to_plain, with_receipt
from rankloop.core.registry import build, spec_of
from rankloop.core.saved_session import load, save
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Preferred, Relevances, Reward

FEEDBACK_KINDS = {Relevances, Clicks, Preferred, Reward}


@contract("copy before you write, `weights = state.weights.copy()`, and return a new state")
def check_purity(case: Case) -> None:
    """Nothing that is handed in is changed, and no state is changed by what comes after it."""
    history = case.play()
    original = copy.deepcopy(history)
    rng = default_rng(3)
    for state, arrival in zip(history.states, history.arrivals, strict=False):
        case.learner.rank(state, arrival.query, rng)
        case.learned(state, arrival)
        case.learner.predict(state, arrival.query)
        case.learner.log_prob(state, arrival.query, arrival.decision.ranking)
    for part, then, now in zip(history._fields, original, history, strict=True):
        cases.require_same(tuple(then), tuple(now), f"{part} changed in place at")


@contract("keep nothing on `self` or in the module: what `learn` needs is in the state or in the receipt")
def check_replay(case: Case) -> None:
    """A fresh copy of the recipe learns the same states from the same decisions and feedback."""
    history, again = case.play(), build(spec_of(case.learner))
    state = again.init(case.problem)
    for t, arrival in enumerate(history.arrivals):
        cases.require_same(state, history.states[t], f"replay differs after {t} arrivals at")
        state = case._replace(learner=again).learned(state, copy.deepcopy(arrival))
    cases.require_same(state, history.states[-1], "replay differs at the end at")


@contract("draw in `rank` alone; what `learn` needs of the draws goes into the receipt")
def check_no_draws_elsewhere(case: Case) -> None:
    """`learn`, `predict` and `log_prob` are functions: a second call returns the same."""
    history = case.play()
    state, arrival = history.states[-2], history.arrivals[-1]
    learner, query, answers = case.learner, arrival.query, list[tuple[Any, ...]]()
    for _ in range(3):
        log_prob = learner.log_prob(state, query, arrival.decision.ranking)
        answers.append((case.learned(state, arrival), learner.predict(state, query), log_prob))
        cases.require_same(answers[0], answers[-1], "a second call differs at")


@contract("learn from the decision and its receipt, not the present state; annotate `rank(...) -> Decision[Receipt]`")
def check_late_feedback(case: Case) -> None:
    """Feedback that comes late, out of order, twice, or through JSON is accepted by any copy of the learner."""
    history, order = case.play(), default_rng(10)
    again = build(spec_of(case.learner))
    for state in (history.states[0], history.states[-1]):
        for t in order.permutation(np.repeat(np.arange(len(history.arrivals)), 2)):
            query, decision, feedback = history.arrivals[t]
            posted = with_receipt(decision_from_plain(json.loads(json.dumps(decision_to_plain(decision)))), again)
            learned = again.learn(state, query, decision, feedback)
            again_learned = again.learn(state, query, posted, feedback)
            cases.require_same(learned, again_learned, "a decision that was sent as JSON leads to another state at")
            state = learned
    cases.require_finite_state(state)


@contract("name in `accepts` what `learn` can use, no more")
def check_foreign_feedback(case: Case) -> None:
    """A session refuses feedback of other kinds, or that does not fit, and keeps its state."""
    session, rng = Session(case.learner, case.problem, seed=0), default_rng(11)
    query = case.query(3, rng)
    decision, state = session.rank(query), session.state
    ranking, ones = decision.ranking, np.ones(len(decision.ranking))
    one_of_each = Relevances(ranking, ones), Clicks(ranking[:1], ones[:1]), Preferred(ranking), Reward(1.0)
    foreign: list[Any] = [feedback for feedback in one_of_each if type(feedback) not in case.learner.accepts]
    if Relevances in case.learner.accepts:
        foreign += [Relevances(np.array([0, 0, 1]), np.ones(3)), Relevances(ranking, np.full(len(ranking), np.nan))]
    if Clicks in case.learner.accepts:
        foreign += [Clicks(np.array([99]), np.ones(1)), Clicks(ranking[:1], np.array([np.inf]))]
    for feedback in foreign:
        try:
            session.learn(query, decision, feedback)
        except IncompatibleFeedback:
            cases.require_same(session.state, state, "refused feedback changed the state at")
        else:
            raise ContractViolation(f"{feedback} was accepted, though accepts = {case.learner.accepts}")


@contract(
    "take scores from `rankloop.core.kernels.scores_of`, and end the step with `require_finite(weights)`, inside "
    '`with np.errstate(over="ignore")` where NumPy would warn'
)
def check_huge_numbers(case: Case) -> None:
    """Features, grades and rewards that overflow are refused and the state is kept, or the new state is finite."""
    rng = default_rng(12)
    for size, reward in ((1e200, 1.0), (1e8, 1.0), (1.0, 1e300)):
        session = Session(case.learner, case.problem, seed=0)
        for _ in range(3):
            query = case.query(4, rng)
            query = query._replace(features=query.features * size, context=query.context * size)
            decision = session.rank(query)
            is_ranking = is_permutation(decision.ranking, len(query.features))
            require(is_ranking, f"features of size {size}: {decision.ranking}")
            for feedback in case.feedbacks(decision, rng):
                old_state = copy.deepcopy(session.state)
                try:
                    session.learn(query, decision, _scale_feedback(feedback, reward))
                except RankloopError:
                    cases.require_same(old_state, session.state, "a refused step changed the state at")
        cases.require_finite_state(session.state)


@contract("a state is a NamedTuple of arrays and numbers, nothing else")
def check_state_form(case: Case) -> None:
    """A state is a tree of arrays and numbers, finite, and is restored from a file together with the generator."""
    session, rng = Session(case.learner, case.problem, seed=3), default_rng(13)
    for t in range(8):
        query = case.query(2 + t % 4, rng)
        decision = session.rank(query)
        for feedback in case.feedbacks(decision, rng):
            session.learn(query, decision, feedback)
    cases.require_finite_state(session.state)
    with tempfile.TemporaryDirectory() as folder_name:
        path = Path(folder_name) / "saved"
        save(session, path)
        loaded = load(path)
    cases.require_same(session.state, loaded.state, "the loaded state differs at")
    query = case.query(5, rng)
    cases.require_same(session.rank(query), loaded.rank(query), "after loading, the next ranking differs at")


@contract(
    "`accepts` is a tuple of kinds of feedback, `reports` of names in the state; `init` makes new arrays each time"
)
def check_declarations(case: Case) -> None:
    """`accepts` names kinds of feedback, `reports` finite numbers of the state, `init` returns new arrays."""
    accepts = case.learner.accepts
    require(bool(accepts), "accepts is empty: nothing to learn from")
    require(set(accepts) <= FEEDBACK_KINDS, f"accepts = {accepts} is not among {FEEDBACK_KINDS}")
    for path in case.learner.reports:
        value: Any = case.learner.init(case.problem)
        for part in path.split("."):
            require(hasattr(value, part), f"reports has {path!r}, but the state has no {part!r}")
            value = getattr(value, part)
        kind = type(value).__name__
        require(isinstance(value, int | float), f"reports has {path!r}, which is not a number but {kind}")
    first, second = case.learner.init(case.problem), case.learner.init(case.problem)
    cases.require_same(first, second, "two calls of init differ at")
    for (path, a), (_, b) in zip(cases.leaves(first), cases.leaves(second), strict=True):
        shared = isinstance(a, np.ndarray) and a.size and np.shares_memory(a, b)
        require(not shared, f"two initial states share the array {path}")


def _scale_feedback(feedback: Any, size: float) -> Any:
    if isinstance(feedback, Relevances):
        return feedback._replace(grades=feedback.grades * size)
    if isinstance(feedback, Clicks):
        return feedback._replace(weights=feedback.weights * size)
    return feedback._replace(value=feedback.value * size) if isinstance(feedback, Reward) else feedback
