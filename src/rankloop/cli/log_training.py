"""`rankloop train --log`: a linear ranker from yesterday's clicks, weighted by how unlikely their places were seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer

from rankloop.cli.progress import progress_bar
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.core.types import Floats, Ints

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


def train_on_log(log: Path, how: LogTraining, out: Path, as_json: bool) -> None:
    """Weigh the clicks, choose the regularisation on held-out lists, train on all, save."""
    from rankloop.ads.click_log import read_click_log
    from rankloop.batch.estimator import session_of
    from rankloop.core.saving import save
    from rankloop.data.folder import data_path

    clicks = read_click_log(data_path(str(log)))
    looked_at = clicks.position_bias().looked_at if how.position_bias is None else _numbers(how.position_bias)
    weights = clicks.relevance(looked_at, how.clip)
    if not np.any(weights):
        raise InvalidInput(f"{log} has no click, so there is nothing to learn from")
    held_out = np.random.default_rng(how.seed).permutation(len(clicks.offsets) - 1) % HELD_OUT == 0
    if held_out.all():
        raise InvalidInput(
            f"{log} has {len(held_out)} list(s); there must be at least two to choose the regularisation"
        )
    gains: dict[float, float] = {}
    with progress_bar("training", unit="fits") as progress:
        for done, regularisation in enumerate(how.path, start=1):
            model = _fitted(clicks.features, weights, clicks.offsets, ~held_out, regularisation, how)
            gains[regularisation] = _gain(model, clicks.features, weights, clicks.offsets, held_out)
            progress(done, len(how.path))
    best = max(gains, key=lambda regularisation: gains[regularisation])
    model = _fitted(clicks.features, weights, clicks.offsets, np.ones(len(held_out), bool), best, how)
    out.mkdir(parents=True, exist_ok=True)
    notes = {"loss": how.loss, "tight": how.tight, "regularisation": best, "looked_at": looked_at.tolist()}
    save(session_of(model, feature_names=clicks.feature_names), out / "model.rankloop", notes)
    _report(gains, best, looked_at, out / "model.rankloop", as_json)


def _numbers(text: str) -> Floats:
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InvalidInput(f"--position-bias {text!r} must be numbers with commas between, one per place") from None


def _rows(offsets: Ints, lists: Any) -> tuple[Ints, Ints]:
    """The rows of the chosen lists, and their own offsets."""
    chosen = [np.arange(offsets[q], offsets[q + 1]) for q in np.flatnonzero(lists)]
    return np.concatenate(chosen), np.concatenate([[0], np.cumsum([len(rows) for rows in chosen])])


def _fitted(
    features: Floats, weights: Floats, offsets: Ints, lists: Any, regularisation: float, how: LogTraining
) -> Any:
    from rankloop.ads.click_weights import clicked_pairs, exponential_grades
    from rankloop.batch import RankBundle

    rows, own = _rows(offsets, lists)
    if how.loss in ("ordinal", "preferences"):
        pairs = clicked_pairs(own, weights[rows])
        return RankBundle("preferences", regularisation).fit_pairs(features[rows], pairs.pairs, pairs.costs).coef_
    qid = np.repeat(np.arange(len(own) - 1), np.diff(own))
    ranker = RankBundle(how.loss, regularisation, tight=how.tight)
    return ranker.fit(features[rows], exponential_grades(weights[rows]), qid=qid).coef_


def _gain(model: Floats, features: Floats, weights: Floats, offsets: Ints, lists: Any) -> float:
    from rankloop.core.kernels import scores_of
    from rankloop.measures import mean_of, parse_measure

    rows, own = _rows(offsets, lists)
    return mean_of(parse_measure(GAIN).of_scores(scores_of(features[rows], model), weights[rows], own))


def _report(gains: dict[float, float], best: float, looked_at: Floats, model: Path, as_json: bool) -> None:
    if as_json:
        import msgspec

        curve = {f"{regularisation:g}": gain for regularisation, gain in gains.items()}
        answer = {"model": str(model), "regularisation": best, "held_out": curve, "looked_at": looked_at.tolist()}
        typer.echo(msgspec.json.encode(answer).decode())
        return
    from rankloop.cli.show import show_table
    from rankloop.experiments.findings import Table

    rows = [(f"{regularisation:g}", f"{gain:.4f}") for regularisation, gain in gains.items()]
    show_table(Table("Weighted clicks gained on held-out lists", ("regularisation", GAIN), rows))
    places = ", ".join(f"{chance:.2f}" for chance in looked_at[:10])
    typer.echo(f"chance to be looked at, first places: {places}")
    typer.echo(f"chosen: {best:g}\nmodel: {model}")
