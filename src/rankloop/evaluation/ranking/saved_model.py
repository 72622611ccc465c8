"""Saved rankers, scored on features as they learned them: as they are, or scaled inside each query."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import load_with_notes
from rankloop.core.session import Session
from rankloop.data import read_letor, stream_letor
from rankloop.data.dataset import normalise_queries
from rankloop.data.public_sets import is_archive, public_path, published_folds
from rankloop.evaluation.ranking.score import Measures, Scores, measures_of, score_session
from rankloop.features.schema import Schema

MIN_STREAMED_BYTES = 256 << 20  # bytes of text from which on a file is read a few megabytes at a time
NORMALISED_NOTE = "normalised inside queries"  # the note of a saved model that ranks features scaled from 0 to 1
HELD_OUT_GAIN = "held_out_gain"  # the note of a ranker trained on clicks: its gain over the logged order


def is_model(path: Path) -> bool:
    """Return true where a file is a saved ranker."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"  # a saved session is a zip


def was_normalised(path: str | os.PathLike[str]) -> bool:
    """Return true where a saved ranker was trained on features scaled from 0 to 1 inside each query."""
    return bool(load_with_notes(path)[1].get(NORMALISED_NOTE))


def score_model(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    measures: Measures,
    *,
    normalise: bool = False,
    watch: Callable[[range], Iterable[int]] = iter,
) -> Scores:
    """Return how a saved ranker ranks the queries of a LETOR file.

    Args:
      model: The file of the ranker.
      data: The LETOR file.
      measures: Names of measures.
      normalise: True to scale features within each query; also done if it was trained so.
      watch: Called with the progress.
    """
    parsed = measures_of(measures)
    session, notes = load_with_notes(model)
    if session.problem.n_hashed:
        raise InvalidInput(f"{model} ranks values by a schema, but {data} holds plain numbers; judge it by --log")
    if session.problem.n_features == 0:
        raise InvalidInput(f"{model} ranks without features of items; it is judged by a log, with --log")
    file, scale = Path(data), normalise or bool(notes.get(NORMALISED_NOTE))
    if not file.is_file() or is_archive(file):  # the test part of a published set
        file = Path(published_folds(public_path(str(data)))[0].test[0].address)
    if file.stat().st_size > MIN_STREAMED_BYTES:
        parts = stream_letor(file, n_features=session.problem.n_features)
    else:
        parts = iter([read_letor(file, n_features=session.problem.n_features)])
    scores = [score_session(session, normalise_queries(part) if scale else part, parsed, watch=watch) for part in parts]
    if not scores:
        raise InvalidInput(f"{file.name} has no query to judge")
    names = tuple(name for part in scores for name in part.query_ids)
    return Scores(scores[0].measures, names, np.concatenate([part.values for part in scores]))


def load_with_schema(path: str | os.PathLike[str]) -> tuple[Session, Schema | None]:
    """Load a ranker of features as a log has them, not scaled inside queries, and its newest schema, if it has one."""
    session, notes = load_with_notes(path)
    if notes.get(NORMALISED_NOTE):
        raise InvalidInput(
            f"{Path(path).name} was trained on features scaled from 0 to 1 inside each query (--normalise), and a log "
            "has them as they are: train it without"
        )
    schemas = [Schema.from_plain(plain) for plain in notes.get("schemas") or ()]
    return session, max(schemas, key=lambda schema: schema.version, default=None)
