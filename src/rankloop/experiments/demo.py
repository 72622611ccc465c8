"""The experiment of `rankloop demo`: searches, and learners that see all grades, a few, or only clicks."""

from pathlib import Path

import msgspec

from rankloop.experiments.run.tasks import seeds_of
from rankloop.experiments.spec.load import read_spec_text
from rankloop.experiments.spec.model import Experiment


def demo_experiment(seed: int = 0, rounds: int | None = None) -> Experiment:
    """As `demo.toml` has it, its seeds counted from this one; `rounds` replaces its horizon."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    experiment = read_spec_text(text, "demo.toml", "demo")
    seeds = tuple(seed + number for number in seeds_of(experiment))
    return msgspec.structs.replace(experiment, seeds=seeds, horizon=rounds or experiment.horizon)
