"""What everything registered is tried with, whatever its category: what reads a file reads a sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankloop.contracts.cases import examples_of as built
from rankloop.core.registry import entry_of

SAMPLES = Path(__file__).parent / "samples"


def examples_of(cls: type) -> list[Any]:
    """Built from its `examples`, its sample file, or without parameters."""
    sample = SAMPLES / f"{entry_of(cls).kind}.txt"
    return built(cls) if not sample.exists() else [cls(path=str(sample))]
