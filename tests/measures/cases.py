"""Measures drawn from the registry with all their options, so that none can be forgotten."""

import dataclasses
from typing import Any

from hypothesis import strategies as st

from rankloop.core.registry import entries
from rankloop.measures.base import RankedMeasure

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "empty": st.sampled_from(["zero", "one", "skip"]),
    "cutoff": st.none() | st.integers(1, 12),
    "gain": st.sampled_from(["exponential", "linear"]),
    "relevant_from": st.sampled_from([0.5, 1.0, 2.0]),
    "max_grade": st.integers(4, 6),
    "half_life": st.sampled_from([1.5, 2.0, 5.0]),
    "neutral": st.sampled_from([0.0, 1.0]),
}
CLASSES = [entry.cls for entry in entries("measure") if issubclass(entry.cls, RankedMeasure)]


@st.composite
def measures(draw: st.DrawFn) -> RankedMeasure:
    cls = draw(st.sampled_from(CLASSES))
    return cls(**{field.name: draw(OPTIONS[field.name]) for field in dataclasses.fields(cls)})
