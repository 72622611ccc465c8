"""Whether a saved ranker fits a log at all: it must have learned from the features that the log has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Query

Entry = TypeVar("Entry")


def checked_first(
    log: Iterable[Entry],
    query_of: Callable[[Entry], Query],
    session: Session,
    model: str,
    names_in_log: Callable[[], Sequence[str]] = tuple,
) -> Iterator[Entry]:
    """The log, refused if its first query has other features, items or context than the session of `model` knows.

    One ranker made all of the log, so its first query stands for the others.
    """
    entries = iter(log)
    for first in entries:
        query, problem = query_of(first), session.problem
        n_items, n_features = query.features.shape
        if n_features != problem.n_features:
            learned, given = _told(problem.feature_names, problem.n_features), _told(names_in_log(), n_features)
            raise InvalidInput(f"{model} learned from {learned}; the log has {given}")
        session.log_prob(query, np.arange(n_items))  # checks items and context, as the learner itself does not
        return chain((first,), entries)
    return entries


def _told(names: Sequence[str], n_features: int) -> str:
    return ", ".join(names) or f"{n_features} feature{'s' * (n_features != 1)} per item"
