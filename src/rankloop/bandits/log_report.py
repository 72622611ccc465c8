"""From a log of shown ads to a trained policy and what it would earn: one half teaches, the other judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import default_rng

from rankloop.bandits.auc_ranker import AUCRanker
from rankloop.bandits.policies import EpsilonGreedy, LinearScorer, Policy, Uniform
from rankloop.bandits.reward_model import RewardModel, fit_reward_model
from rankloop.bandits.scorer import AdLog, fit_rankers, joined
from rankloop.core.errors import InvalidInput
from rankloop.evaluation.off_policy.estimate import Options, check_options, concluded
from rankloop.evaluation.off_policy.estimators import MODELLED, SPANS, Method, check_method, series_of
from rankloop.evaluation.off_policy.overlap import is_off_balance
from rankloop.evaluation.off_policy.sums import Sums
from rankloop.evaluation.report import CURRENT, UNIFORM, Judgement, unit_of
from rankloop.evaluation.report import verdict as verdict
from rankloop.evaluation.report import verdicts as verdicts
from rankloop.logs.context import Encoding
from rankloop.logs.context_columns import encoding_of
from rankloop.logs.rows import Rows, rows_of
from rankloop.logs.table import LogPiece, LogTable

Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
MAX_TRAINING_ROWS = 500_000
CRITERION: Literal["click_rate"] = "click_rate"  # steady where an ad has few clicks


class Taught(NamedTuple):
    """A policy learned from a log, with what is needed to use it on another."""

    encoding: Encoding
    scorer: LinearScorer
    log: AdLog
    model: RewardModel


def teach(
    table: LogTable,
    seed: int = 0,
    share: float = 0.5,
    ranker: AUCRanker | None = None,
    *,
    context: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> Taught:
    """Train rankers on a random `share` of the log, up to half a million rows; for the columns see `encoding_of`."""
    encoding = encoding_of(table.pieces(), context, without)
    if len(encoding.ads) < 2:
        raise InvalidInput(f"{table.path.name} shows only the ad {encoding.ads[0]!r}; there is nothing to choose")
    log = _teaching_rows(table, encoding, seed, share)
    if not (log.rewards > 0).any():
        raise InvalidInput(
            f"{table.path.name}: none of the {len(log.ads):,} rows to learn from was rewarded; the log is too small to "
            "train a policy, let alone to tell how good it is"
        )
    return Taught(encoding, fit_rankers(log, ranker, CRITERION), log, fit_reward_model(log))


def reward_model_of(
    table: LogTable, encoding: Encoding, method: Method, seed: int = 0, share: float = 0.5
) -> RewardModel | None:
    """A reward model from a random `share` of the rows, for the methods that need one."""
    return fit_reward_model(_teaching_rows(table, encoding, seed, share)) if method in MODELLED else None


def _teaching_rows(table: LogTable, encoding: Encoding, seed: int, share: float) -> AdLog:
    parts: list[AdLog] = []
    for piece, teaching in _halves(table, seed, share):
        if sum(len(part.ads) for part in parts) < MAX_TRAINING_ROWS:
            parts.append(_ad_log(piece, encoding, table.path.name).take(teaching))
    return joined(parts)


def judge(
    table: LogTable,
    encoding: Encoding,
    policies: Mapping[str, Policy],
    *,
    method: Method = "snips",
    options: Options | None = None,
    model: RewardModel | None = None,
    seed: int = 0,
    share: float = 0.5,
    watch: Callable[[int], None] = lambda rows: None,
) -> Judgement:
    """Estimate each policy on the rows that `teach` left out with this seed and share (0: all of them).

    The current policy is judged by the mean of what it earned, the others by `method`.
    """
    options = options or Options()
    check_method(method)
    check_options(options, method)
    rated: dict[str, Policy | None] = {CURRENT: None, **policies, UNIFORM: Uniform(n_ads=len(encoding.ads))}
    sums = {name: Sums() for name in rated}
    n_rows, n_taught, n_rewarded = 0, 0, 0
    for piece, teaching in _halves(table, seed, share):
        _refuse_propensities(piece, table.path.name)
        n_rows, n_taught = n_rows + len(teaching), n_taught + int(teaching.sum())
        n_rewarded += int((piece.reward > 0).sum())
        ads, contexts = encoding.ads_of(piece, table.path.name)[~teaching], encoding.contexts_of(piece)[~teaching]
        log = AdLog(contexts, ads, piece.reward[~teaching], piece.propensity[~teaching], len(encoding.ads))
        for name, policy in rated.items():
            how: Method = "ips" if policy is None else method
            sums[name].add(series_of(policy_rows(log, policy, model), how, options.limit))
        watch(n_rows)
    methods: dict[str, Method] = {name: "ips" if policy is None else method for name, policy in rated.items()}
    estimates = {name: concluded(sums[name], methods[name], options, SPANS[methods[name]]) for name in rated}
    unit = unit_of(sums[CURRENT])
    context = encoding.described + table.columns.said
    return Judgement(n_rows, n_taught, n_rewarded, len(encoding.ads), estimates, unit, context)


def policy_rows(log: AdLog, policy: Policy | None, model: RewardModel | None = None) -> Rows:
    """The log with a policy's probabilities of what was shown; without a policy, those of the log itself."""
    if policy is None:
        return Rows(log.rewards, log.propensities, log.propensities, log.rewards, log.rewards)
    shares, own = policy.probabilities(log.contexts), (np.arange(len(log.ads)), log.ads)
    if model is None:
        return Rows(log.rewards, log.propensities, shares[own])
    values = model.predict(log.contexts)
    return Rows(log.rewards, log.propensities, shares[own], values[own], (shares * values).sum(axis=1))


def trained_policy(taught: Taught, epsilon: float) -> EpsilonGreedy:
    """The ranker policy with exploration."""
    return EpsilonGreedy(scorer=taught.scorer, epsilon=epsilon)


def _refuse_propensities(piece: LogPiece, where: str) -> None:
    """Check before rows are left out, so that a fault is named by its row in the file."""
    rows_of(piece.reward, piece.propensity, np.zeros(len(piece.reward)), first_row=piece.first_row, where=where)


def _halves(
    table: LogTable, seed: int, share: float
) -> Iterator[tuple[LogPiece, np.ndarray[tuple[int], np.dtype[np.bool_]]]]:
    """Every piece, and which of its rows teach: the same ones in every pass."""
    rng = default_rng(seed)
    for piece in table.pieces():
        yield piece, rng.random(len(piece.reward)) < share


def _ad_log(piece: LogPiece, encoding: Encoding, where: str) -> AdLog:
    _refuse_propensities(piece, where)
    people, shown = encoding.contexts_of(piece), encoding.ads_of(piece, where)
    return AdLog(people, shown, piece.reward, piece.propensity, len(encoding.ads))


GREY = "#8a8f98"


def plot_judgement(judgement: Judgement, path: Path) -> None:
    """A dot for each policy's estimate and a line down to its lower bound, the current one dashed across.

    Where the log cannot tell, the dot is hollow and no bound is drawn.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names, unit = list(judgement.estimates), judgement.unit
    figure = Figure(figsize=(7.2, 0.6 * len(names) + 1.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for position, name in enumerate(names):
        found = judgement.estimates[name]
        low, value = unit.scale * max(0.0, found.lower), unit.scale * found.value
        if is_off_balance(found.overlap):
            axes.plot([value], [position], marker="o", markerfacecolor="none", color=GREY)
            axes.annotate(
                "the log cannot tell", (value, position), xytext=(9, -4), textcoords="offset points", color=GREY
            )
            continue
        axes.plot([low, value], [position, position], color="#2f7ed8", linewidth=2.5)
        axes.plot([low], [position], marker="|", markersize=12, color="#2f7ed8")
        axes.plot([value], [position], marker="o", color="#2f7ed8")
    axes.axvline(unit.scale * judgement.estimates[CURRENT].value, color=GREY, linestyle="dashed", linewidth=1.0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(f"{unit.name}; the line ends at the {judgement.estimates[CURRENT].level:.0%} lower bound")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160, facecolor="white")
