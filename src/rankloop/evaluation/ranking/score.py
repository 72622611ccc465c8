"""Judge rankings with any measures: those of a saved ranker or a session on a data set, or rankings in arrays."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput
from rankloop.core.saved_session import load_with_notes
from rankloop.core.session import Session
from rankloop.core.types import Floats, rows_in
from rankloop.data import read_letor, stream_letor
from rankloop.data.dataset import Dataset, normalise_queries
from rankloop.data.public_sets import is_archive, public_path, published_folds
from rankloop.features.schema import Schema
from rankloop.measures.base import RankedMeasure, mean_of, parse_measure

MIN_STREAMED_BYTES = 256 << 20  # bytes of text from which on a file is read a few megabytes at a time
NORMALISED_NOTE = "normalised inside queries"  # the note of a saved model that ranks features scaled from 0 to 1
HELD_OUT_GAIN = "held_out_gain"  # the note of a ranker trained on clicks: its gain over the logged order
Measures = Sequence[str | RankedMeasure]


class Scores(NamedTuple):
    """The value of each measure for each query; nan where its rule skips the query."""

    measures: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: Floats  # (n_queries, n_measures)

    @property
    def overall(self) -> dict[str, float]:
        """The mean of each measure over the queries that it counts."""
        return {name: mean_of(self.values[:, column]) for column, name in enumerate(self.measures)}

    @property
    def counted(self) -> dict[str, int]:
        """The number of queries behind each mean."""
        return dict(zip(self.measures, np.sum(~np.isnan(self.values), axis=0).tolist()))

    def of_query(self, query_id: str) -> dict[str, float]:
        """Return the values of one query by measure."""
        return dict(zip(self.measures, self.values[self.query_ids.index(query_id)].tolist()))

    def __str__(self) -> str:
        return self.text()

    def text(self, per_query: bool = False) -> str:
        """Return a table of the means, with a line for each query where asked, and how many queries were counted."""
        width = max(map(len, ("all", *self.query_ids)))
        columns = [max(len(name), 6) for name in self.measures]

        def line(head: str, cells: Iterable[str]) -> str:
            return head.ljust(width) + "".join("  " + cell.rjust(size) for cell, size in zip(cells, columns))

        rows = zip(self.query_ids, self.values.tolist()) if per_query else ()
        lines = [line("", self.measures)]
        lines += [line(query, (f"{value:.4f}" for value in values)) for query, values in rows]
        lines.append(line("all", (f"{mean:.4f}" for mean in self.overall.values())))
        total = len(self.query_ids)
        fewer = {name: n for name, n in self.counted.items() if n < total}
        skipped = "".join(f"; {name}: {n} counted, the others have no relevant item" for name, n in fewer.items())
        return "\n".join([*lines, f"{total} {'query' if total == 1 else 'queries'}{skipped}"])

    def to_json(self, per_query: bool = False) -> dict[str, Any]:
        """Return the means for programs, and those of each query where asked; None where nothing was counted."""

        def plain(values: Iterable[float]) -> dict[str, float | None]:
            return {name: None if math.isnan(value) else value for name, value in zip(self.measures, values)}

        answer = {"n_queries": len(self.query_ids), "counted": self.counted, "overall": plain(self.overall.values())}
        queries = {query: plain(values) for query, values in zip(self.query_ids, self.values.tolist())}
        return answer | ({"per_query": queries} if per_query else {})


def score_session(
    session: Session, dataset: Dataset, measures: Measures, *, watch: Callable[[range], Iterable[int]] = iter
) -> Scores:
    """Evaluate the rankings of a session without exploration, query by query.

    Args:
      session: The session of the ranker.
      dataset: Queries with grades.
      measures: Names of measures.
      watch: Called with the progress.
    """
    if dataset.n_queries == 0:
        raise InvalidInput("the data set has no query to judge")
    rankings = [session.predict(dataset.query(index)[0]) for index in watch(range(dataset.n_queries))]
    return score_rankings(np.concatenate(rankings), dataset.relevance, dataset.offsets, dataset.query_ids, measures)


def score_rankings(
    rankings: ArrayLike,
    relevance: ArrayLike,
    offsets: ArrayLike,
    query_ids: Sequence[str],
    measures: Measures,
    shown: ArrayLike | None = None,
) -> Scores:
    """Evaluate rankings query by query; each counts its own items from 0.

    Args:
      rankings: All rankings, one after another.
      relevance: The grades of all items.
      offsets: Where each query begins, and the number of items at the end.
      query_ids: The ids of the queries.
      measures: Names of measures.
      shown: How many items of each query were shown; None: all.
    """
    parsed = measures_of(measures)
    columns = [measure.of_rankings(rankings, relevance, offsets, shown) for measure in parsed]
    if len(rows_in(query_ids, "query_ids")) != len(columns[0]):
        raise InvalidInput(f"{len(query_ids)} query ids for {len(columns[0])} queries")
    return Scores(tuple(map(str, parsed)), tuple(query_ids), np.column_stack(columns))


def measures_of(measures: Measures) -> list[RankedMeasure]:
    """Return the measures of these names, each once."""
    parsed = list(dict.fromkeys(parse_measure(measure) for measure in rows_in(measures, "measures")))
    if not parsed:
        raise InvalidInput("name at least one measure, such as nDCG@10")
    for measure in parsed:
        if not hasattr(measure, "of_rankings"):
            raise InvalidInput(f"{measure} cannot score a file: give it the method of_rankings of `RankedMeasure`")
    return parsed  # type: ignore[return-value]


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
        fault = f"{Path(path).name} was trained on features scaled from 0 to 1 inside each query (--normalise)"
        raise InvalidInput(f"{fault}, and a log has them as they are: train it without")
    schemas = [Schema.from_plain(plain) for plain in notes.get("schemas") or ()]
    return session, max(schemas, key=lambda schema: schema.version, default=None)
