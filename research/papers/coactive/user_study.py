"""Figures 1 to 3 of the paper on stable coactive learning: its user study, with simulated users."""

from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.registry import build
from rankloop.core.session import Session, generators
from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.charts import Line, chart
from rankloop.experiments.report.model import Finding
from rankloop.interleaving import credit, interleave
from research.papers.coactive.click_streams import PAPER
from research.registry import Setting, reproduction
from research.stability import overlaps
from research.verdicts import is_above

TOP, THREE = "clicks to the top", "3PR"
LEARNERS: dict[str, Any] = {TOP: {"kind": "preference_perceptron"}, THREE: {"kind": "3pr"}}
STREAM = {"kind": "web_search", "n_items": 24}
SIMULATED_USERS = {"kind": "gaussian_grader", "sd": 1.0}
VISITS, SEEDS, PROBES, EVERY = 8000, 10, 50, 100
QUICK_VISITS, QUICK_SEEDS = 1600, 2
BASELINE_ROUNDS = 20
STUDY_TEXT = f"""{PAPER}, section 7, with simulated users, since the search engine of the study no longer exists. \
The learner learns from half of the visits; the other half sees the predicted ranking interleaved with a fixed \
baseline, from which learning also starts, and is only counted. \
The baseline is what a structured perceptron makes of the grades of {BASELINE_ROUNDS} \
queries."""


class Study(NamedTuple):
    """Record of one learner and seed at `rounds`, counted in updates."""

    rounds: Ints
    win_ratio: Floats  # over all comparisons so far
    common: Floats  # items that the top 10 of two models 100 updates apart share
    score_agreement: Floats  # mean of all updates so far; nan where a learner has none


def baseline_weights(seed: int) -> tuple[float, ...]:
    """Fixed weights, better than nothing and far from perfect."""
    learner, stream, users = (
        build(*spec) for spec in (("structured_perceptron", "learner"), (STREAM, "stream"), ("full", "feedback"))
    )
    session, rng = Session(learner, stream.problem, seed), generators(seed)[1]
    for query, relevance in islice(stream.rounds(generators(seed)[0]), BASELINE_ROUNDS):
        decision = session.rank(query)
        session.learn(query, decision, users.observe(decision.ranking, relevance, rng))
    return tuple(session.state.weights.tolist())


@cache
def study(name: str, seed: int, visits: int) -> Study:
    """Learn from every even visit, compare in every odd one."""
    start = baseline_weights(seed)
    learner = build(LEARNERS[name] | {"start": start}, "learner")
    baseline = build({"kind": "fixed_weights", "weights": start}, "learner")
    stream, users = build(STREAM, "stream"), build(SIMULATED_USERS, "feedback")
    of_stream, of_users, _, of_mixing = generators(seed)
    problem = stream.problem._replace(shown=users.shown)
    session, fixed = Session(learner, problem, seed), baseline.init(problem)
    queries = stream.rounds(of_stream)
    next(queries)  # the stream is drawn with the first query
    probes = [query for query, _ in islice(queries, PROBES)]
    states, ratios, affirmed, wins, losses = [], [], [], 0, 0
    for visit, (query, relevance) in enumerate(islice(queries, visits)):
        if visit % 2 == 0:
            decision = session.rank(query)
            states.append(session.learn(query, decision, users.observe(decision.ranking, relevance, of_users)))
            continue
        mixed = interleave("balanced", session.predict(query), baseline.predict(fixed, query), of_mixing)
        earned = credit("balanced", mixed, users.observe(mixed.ranking, relevance, of_users))
        wins, losses = wins + int(earned[0] > earned[1]), losses + int(earned[0] < earned[1])
        ratios.append(wins / max(losses, 1))
        affirmed.append(getattr(session.state, "score_agreement", np.nan) / len(states))
    shared = list(overlaps(learner, states, probes, apart=100, every=EVERY))
    at = np.array([step.t for step in shared])
    common = np.array([step.common for step in shared])
    return Study(at, np.array(ratios)[at - 1], common, np.array(affirmed)[at - 1])


def _studies(setting: Setting) -> dict[str, list[Study]]:
    """The studies of each learner, one per seed; they are computed once for all three figures."""
    visits, seeds = (QUICK_VISITS, QUICK_SEEDS) if setting.quick else (VISITS, SEEDS)
    return {name: [study(name, seed, visits) for seed in range(seeds)] for name in LEARNERS}


def _rows(studies: list[Study], part: str) -> Floats:
    return np.array([getattr(single_study, part) for single_study in studies])


def _finding(
    setting: Setting, claims: tuple[Verdict, ...], chart_name: str, title: str, part: str, y_label: str
) -> Finding:
    """The claims with the curves of one part of the studies."""
    studies, visits = _studies(setting), QUICK_VISITS if setting.quick else VISITS
    rows = {name: _rows(seeds, part) for name, seeds in studies.items()}
    lines = [
        Line(name, values, colour) for colour, (name, values) in enumerate(rows.items()) if not np.isnan(values).any()
    ]
    drawn = chart(chart_name, title, studies[THREE][0].rounds, lines, x_label="updates", y_label=y_label)
    seeds = ", ".join(map(str, range(len(studies[THREE]))))
    facts = ("data", "simulated"), ("visits", f"{visits:,}"), ("seeds", seeds)
    return Finding(text=STUDY_TEXT, claims=claims, charts=(drawn,), facts=facts)


@reproduction("coactive-1", title="Wins against a fixed baseline")
def wins(setting: Setting) -> Finding:
    """Figure 1: the ratio of wins to losses against the baseline, over time."""
    studies = _studies(setting)
    final = {name: _rows(seeds, "win_ratio")[:, -1] for name, seeds in studies.items()}
    claims = (
        is_above("3PR wins against the baseline", final[THREE], 1.0, paper="section 7: converges to 1.9"),
        is_above("3PR wins by more than moving clicks to the top", final[THREE], final[TOP],
                 paper="section 7: 1.9 against slightly above 1"),
    )  # fmt: skip
    return _finding(setting, claims, "wins", "Wins against a fixed baseline", "win_ratio", "wins per loss")


@reproduction("coactive-2", title="How much of the top 10 stays the same")
def stability(setting: Setting) -> Finding:
    """Figure 2: items common to the top 10 of two models 100 updates apart."""
    studies = _studies(setting)
    last = {name: _rows(seeds, "common")[:, -5:].mean(axis=1) for name, seeds in studies.items()}
    claims = (
        is_above("The top 10 of 3PR changes less than that of clicks to the top", last[THREE], last[TOP],
                 paper="section 4.1: clicks to the top keep 4 on average, 3PR does not oscillate"),
        is_above("The top 10 of 3PR settles: more in common at the end than at the beginning", last[THREE],
                 _rows(studies[THREE], "common")[:, 0], paper="figure 2"),
    )  # fmt: skip
    return _finding(
        setting, claims, "overlap", "How much of the top 10 stays the same", "common", "common items in the top 10"
    )


@reproduction("coactive-3", title="Agreement of the clicks with the scores of 3PR")
def confirmation(setting: Setting) -> Finding:
    """Figure 3: the mean score agreement of 3PR."""
    studies = _studies(setting)
    values = _rows(studies[THREE], "score_agreement")
    end, earlier = values[:, -1], values[:, round(0.8 * values.shape[1]) - 1]
    printed = "section 7: positive, and it stabilizes"
    claims = (
        is_above("The mean score agreement of 3PR is positive at the end", end, 0.0, paper=printed),
        is_above("It stabilises: the last fifth of the updates changes it by less than a tenth", 0.1 * np.abs(end),
                 np.abs(end - earlier), paper=printed),
    )  # fmt: skip
    return _finding(
        setting,
        claims,
        "score_agreement",
        "Agreement of the clicks with the scores of 3PR",
        "score_agreement",
        "mean score agreement",
    )
