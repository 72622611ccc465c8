"""Saved rankers, judged on features as they learned them: as they are, or scaled inside each query."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.core.session import Session
    from rankloop.evaluation.ranking.score import Scores


def is_model(path: Path) -> bool:
    """Whether a file is a saved ranker."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"  # a saved session is a zip


def score_model(model: Path, data: Path, measures: list[str], normalise: bool) -> Scores:
    """How a saved ranker ranks the queries of a LETOR file, scaled if asked for or if it learned from scaled ones."""
    from rankloop.batch.estimator import NORMALISED
    from rankloop.core.saved_session import load_with_notes
    from rankloop.data import read_letor
    from rankloop.data.dataset import normalise_queries
    from rankloop.evaluation.ranking.score import judges_of, score_session

    judges = judges_of(measures)
    session, notes = load_with_notes(model)
    if session.problem.n_features == 0:
        raise InvalidInput(f"{model} ranks without features of items; it is judged by a log, with --log")
    dataset = read_letor(data, n_features=session.problem.n_features)
    if notes.get(NORMALISED) and not normalise:
        normalise = True
        typer.echo(
            f"{model.name} was trained on features scaled from 0 to 1 inside each query, and is judged on such",
            err=True,
        )
    return score_session(session, normalise_queries(dataset) if normalise else dataset, judges, watch=_watched)


def raw_ranker(path: Path) -> Session:
    """A saved ranker that ranks features as a log has them."""
    from rankloop.batch.estimator import NORMALISED
    from rankloop.core.saved_session import load_with_notes

    session, notes = load_with_notes(path)
    if notes.get(NORMALISED):
        raise InvalidInput(
            f"{path.name} was trained on features scaled from 0 to 1 inside each query (--normalise), and a log has "
            "them as they are: train it without"
        )
    return session


def _watched(queries: range) -> Iterable[int]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(queries, "ranking", console=console, transient=True, disable=not console.is_terminal)
