"""The experiment of `rankloop demo`: learners that get all grades, some grades, or only clicks."""

from pathlib import Path

import msgspec

from rankloop.experiments.run.tasks import seeds_of
from rankloop.experiments.spec.load import parse_spec
from rankloop.experiments.spec.model import Experiment


def demo_experiment(seed: int = 0, rounds: int | None = None) -> Experiment:
    """Return the experiment of `demo.toml`.

    Args:
      seed: The first seed.
      rounds: The number of rounds; by default that of the file.
    """
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    experiment = parse_spec(text, "demo.toml", "demo")
    seeds = tuple(seed + number for number in seeds_of(experiment))
    return msgspec.structs.replace(experiment, seeds=seeds, horizon=rounds or experiment.horizon)
