"""A small experiment, as a table, for tests to change."""

from __future__ import annotations

from typing import Any

from rankloop.experiments.spec.load import parse_spec
from rankloop.experiments.spec.model import Experiment


def table(**changes: Any) -> dict[str, Any]:
    """Two arms on four items without features; keywords replace or add fields."""
    return {
        "name": "small",
        "stream": {"kind": "flipped_relevance", "n_items": 4, "n_relevant": 2, "flip": 0.1},
        "measures": ["DCG", "nDCG@2"],
        "horizon": 200,
        "seeds": 2,
        "checkpoints": [1, 10, 50],
        "regret": True,
        "arms": [
            {"name": "leader", "learner": {"kind": "ftpl", "measure": "DCG", "horizon": "$horizon"}},
            {"name": "still", "learner": {"kind": "fixed_weights", "weights": []}, "feedback": "full"},
        ],
    } | changes


def small(**changes: Any) -> Experiment:
    return parse_spec(table(**changes), "small.toml")
