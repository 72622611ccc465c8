"""`rankloop train --trees`: cross-fitted trees as a base score, from grades or from clicks."""

from pathlib import Path
from typing import Any

import numpy as np
import typer

from rankloop.cli.logs.train_schema import LogTraining, bias_of
from rankloop.cli.output import print_json
from rankloop.core.errors import InvalidInput
from rankloop.data import Dataset, read_letor
from rankloop.data.folder import given_path
from rankloop.evaluation.ranking.score import score_scores
from rankloop.logs.columns import LIST_ROLES, named_columns
from rankloop.training.clicks.reader import read_click_log
from rankloop.training.clicks.trees import trees_from_clicks
from rankloop.training.trees import TreeRanker, TreeSettings, fit_trees

FILE = "trees.json"
REPORT = ["nDCG@5", "nDCG@10", "AP"]


def train_trees(data: str | None, log: str | None, kind: str, how: LogTraining, out: Path, as_json: bool) -> None:
    """Fit, judge on queries that a booster has not seen, and write the file that a base score is computed with."""
    settings, answer = TreeSettings(kind=kind), dict[str, Any]()
    if data is not None:
        path = given_path(data)
        if path.is_dir():
            raise InvalidInput(f"{data} is a folder: --trees takes one LETOR file, which it cuts into folds itself")
        dataset = read_letor(path)
        trees = fit_trees(dataset, settings=settings)
        answer["unseen queries"] = _judged(trees, dataset)
    else:
        found = read_click_log(given_path(str(log)), how.without, named_columns(how.column, LIST_ROLES))
        bias = None if how.position_bias is None else bias_of(how.position_bias)
        trees = trees_from_clicks(found, position_bias=bias, clip=how.clip, settings=settings)
        answer["features"] = list(found.feature_names)
    out.mkdir(parents=True, exist_ok=True)
    trees.save(out / FILE)
    answer |= {"trees": str(out / FILE), "hash": trees.hash, "kind": kind, "boosters": len(trees.boosters)}
    if as_json:
        print_json(answer)
        return
    typer.echo(f"{out / FILE}: {len(trees.boosters)} boosters of {kind}, hash {trees.hash[:12]}…")
    for name, value in answer.get("unseen queries", {}).items():
        typer.echo(f"{name:<8} {value:.4f}  (each query by the booster that has not seen it)")
    typer.echo("Its score is a feature: TreeRanker.load(FILE).scores(rows, query_id), named as `base` of a ranker.")


def _judged(trees: TreeRanker, dataset: Dataset) -> dict[str, float]:
    own = np.asarray(trees.scores_of(dataset))
    scores = score_scores(own, dataset.relevance, dataset.offsets, dataset.query_ids, REPORT)
    return {name: float(value) for name, value in scores.overall.items()}
