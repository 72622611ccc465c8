"""Measures for games: everything registered, with cutoffs, and some that nobody has seen before."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from rankloop import games
from rankloop.core.registry import entries, register
from rankloop.games import Analysis, analysis
from rankloop.games.certificate import Thresholds
from rankloop.games.enumeration import thresholds_of
from tests.registry_entries import unregister

CUTOFFS = ("", "@1", "@2")


def registered_measures() -> list[str]:
    """Every registered measure, and its cutoffs where it has some."""
    names = []
    for entry in entries("measure"):
        if entry.cls.__module__.startswith("rankloop."):
            fields = entry.cls.__dataclass_fields__
            names += [entry.kind + cutoff for cutoff in (CUTOFFS if "cutoff" in fields else ("",))]
    return names


@dataclass(frozen=True, kw_only=True)
class Invented:
    """A measure out of random numbers: weights of positions, of pairs of positions, or of whole lists of grades."""

    seed: int = 0
    form: Literal["weights", "pairs", "anything"] = "weights"
    shuffled_names: bool = False

    higher_is_better: ClassVar[bool] = False

    def __call__(self, ranking: Any, relevance: Any) -> float:
        grades = np.asarray(relevance)[np.asarray(ranking)]
        if self.shuffled_names:
            return float(np.arange(len(ranking)) @ ranking)
        return _invented(self.seed, self.form, tuple(map(int, grades)))

    def of_scores(self, scores: Any, relevance: Any, offsets: Any) -> Any:
        raise NotImplementedError

    def best(self, relevance: Any) -> float:
        raise NotImplementedError


@functools.cache
def _invented(seed: int, form: str, grades: tuple[int, ...]) -> float:
    m = len(grades)
    if form == "weights":
        return float(np.random.default_rng([seed, m]).random(m) @ grades)
    if form == "pairs":
        return float(grades @ np.random.default_rng([seed, m]).random((m, m)) @ grades)
    return float(np.random.default_rng([seed, *grades]).random())


def registering() -> Iterator[type[Invented]]:
    """Register `Invented` for a while, as a user would."""
    yield register("Invented", category="measure")(Invented)
    unregister("Invented", "measure")


def analyse(
    measure: Any, n_items: int, depth: int | None = 1, max_grade: int = 1, closed_forms: bool = True
) -> Analysis:
    """Analyse a depth, without formulas if they are to be compared with the enumeration."""
    with _formulas(closed_forms):
        return games.analyse(measure, n_items, depth, max_grade)


def analyse_depths(measure: Any, n_items: int, max_grade: int = 1, closed_forms: bool = True) -> list[Analysis]:
    """Analyse every depth, without formulas if they are to be compared with the enumeration."""
    with _formulas(closed_forms):
        return games.analyse_depths(measure, n_items, max_grade)


@contextmanager
def _formulas(used: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not used:
            patch.setattr(analysis, "_thresholds", _enumerated)
        yield


@functools.cache
def _enumerated(measure: Any, n_items: int, max_grade: int) -> Thresholds:
    return thresholds_of(games.Game(measure=measure, n_items=n_items, max_grade=max_grade))
