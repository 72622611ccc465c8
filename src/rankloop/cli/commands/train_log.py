"""`rankloop train --log`: a linear ranker from yesterday's clicks, weighted by how unlikely their places were seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer

from rankloop.cli.progress import progress_bar
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.click_logs.reader import ClickLog, MergedLists
    from rankloop.core.types import Floats

HELD_OUT = 5  # one list in so many chooses the regularisation
GAIN = "DCG(gain='linear')@10"


class LogTraining(NamedTuple):
    """How a log is learned from."""

    loss: str
    tight: bool
    path: tuple[float, ...]
    position_bias: str | None
    clip: float
    seed: int
    without: tuple[str, ...] = ()  # columns that are no features
    column: tuple[str, ...] = ()  # ROLE=NAME, where the names of columns do not tell

    @property
    def in_pairs(self) -> bool:
        """Whether every click counts by itself, however often its query was asked."""
        return self.loss in ("ordinal", "preferences")


def train_on_log(log: Path, how: LogTraining, out: Path, as_json: bool) -> None:
    """Weigh the clicks, choose the regularisation on held-out lists, train on all, save; see `merged` for the lists."""
    from rankloop.batch.estimator import session_of
    from rankloop.click_logs.reader import ROLES, MergedLists, merged, read_click_log
    from rankloop.core.saved_session import save
    from rankloop.data.folder import given_path
    from rankloop.logs.columns import named_columns

    clicks = read_click_log(given_path(str(log)), how.without, named_columns(how.column, tuple(ROLES)))
    examined = clicks.position_bias().examined if how.position_bias is None else _numbers(how.position_bias)
    weights = clicks.relevance(examined, how.clip)
    if not np.any(weights):
        raise InvalidInput(f"{log} has no click, so there is nothing to learn from")
    lists = MergedLists(clicks.features, clicks.offsets, weights) if how.in_pairs else merged(clicks, weights)
    if not how.in_pairs and len(lists.offsets) == len(clicks.offsets):
        typer.echo(f"warning: no query came twice, so the weights of single clicks cancel in {how.loss}", err=True)
    held_out = np.random.default_rng(how.seed).permutation(len(lists.offsets) - 1) % HELD_OUT == 0
    if held_out.all():
        raise InvalidInput(
            f"{log} has {len(held_out)} list(s); there must be at least two to choose the regularisation"
        )
    gains: dict[float, float] = {}
    with progress_bar("training", unit="fits") as progress:
        for done, regularisation in enumerate(how.path, start=1):
            model = _fitted(_chosen(lists, ~held_out), regularisation, how)
            gains[regularisation] = _gain(model, _chosen(lists, held_out))
            progress(done, len(how.path))
    best = max(gains, key=lambda regularisation: gains[regularisation])
    model = _fitted(lists, best, how)
    out.mkdir(parents=True, exist_ok=True)
    notes = {"loss": how.loss, "tight": how.tight, "regularisation": best, "looked_at": examined.tolist()}
    save(session_of(model, feature_names=clicks.feature_names), out / "model.rankloop", notes)
    _report(gains, best, examined, clicks, out / "model.rankloop", as_json)


def _numbers(text: str) -> Floats:
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InvalidInput(f"--position-bias {text!r} must be numbers with commas between, one per place") from None


def _chosen(lists: MergedLists, which: Any) -> MergedLists:
    """Some of the lists."""
    rows = [np.arange(lists.offsets[q], lists.offsets[q + 1]) for q in np.flatnonzero(which)]
    own = np.concatenate(rows)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in rows])])
    return lists._replace(features=lists.features[own], offsets=offsets, weights=lists.weights[own])


def _fitted(lists: MergedLists, regularisation: float, how: LogTraining) -> Any:
    from rankloop.batch import RankBundle
    from rankloop.batch.risks.base import risk_of
    from rankloop.batch.risks.ndcg import NDCGLoss
    from rankloop.click_logs.ips_weights import clicked_pairs, exponential_grades

    if how.in_pairs:
        pairs = clicked_pairs(lists.offsets, lists.weights)
        return RankBundle("preferences", regularisation).fit_pairs(lists.features, pairs.pairs, pairs.costs).coef_
    qid = np.repeat(np.arange(len(lists.offsets) - 1), np.diff(lists.offsets))
    exponential = isinstance(risk_of(how.loss), NDCGLoss)
    grades = exponential_grades(lists.weights) if exponential else lists.weights
    return RankBundle(how.loss, regularisation, tight=how.tight).fit(lists.features, grades, qid=qid).coef_


def _gain(model: Floats, lists: MergedLists) -> float:
    from rankloop.core.kernels import scores_of
    from rankloop.measures import mean_of, parse_measure

    scores = scores_of(lists.features, model)
    return mean_of(parse_measure(GAIN).of_scores(scores, lists.weights, lists.offsets))


def _report(
    gains: dict[float, float], best: float, examined: Floats, clicks: ClickLog, model: Path, as_json: bool
) -> None:
    if as_json:
        import msgspec

        curve = {f"{regularisation:g}": gain for regularisation, gain in gains.items()}
        answer = {"model": str(model), "regularisation": best, "held_out": curve, "looked_at": examined.tolist()}
        columns = {"features": clicks.feature_names, "left_out": (*clicks.left_out, *clicks.set_aside)}
        typer.echo(msgspec.json.encode(answer | columns).decode())
        return
    from rankloop.cli.output import show_table
    from rankloop.experiments.report.model import Table

    typer.echo(clicks.described)
    rows = [(f"{regularisation:g}", f"{gain:.4f}") for regularisation, gain in gains.items()]
    show_table(Table("Weighted clicks gained on held-out lists", ("regularisation", GAIN), rows))
    positions = ", ".join(f"{probability:.2f}" for probability in examined[:10])
    typer.echo(f"chance to be looked at, first places: {positions}")
    typer.echo(f"chosen: {best:g}\nmodel: {model}")
