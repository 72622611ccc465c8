"""The runs of an experiment, its checkpoints, and what decides its results."""

from importlib import metadata
from typing import NamedTuple

import msgspec
import numpy as np

from rankloop.core.registry import build
from rankloop.core.types import Ints
from rankloop.experiments.run.regret import best_fixed
from rankloop.experiments.spec.model import CEILING, FIELDS_WITHOUT_EFFECT, Experiment, Thing
from rankloop.experiments.spec.plugins import Module, modules_of

QUICK_SHARE = 20
PACKAGE_VERSION = metadata.version("rankloop")


class Task(NamedTuple):
    """Run of an arm on a stream with a seed; `modules` are imported before anything is built."""

    experiment: Experiment
    stream: str
    arm: str
    seed: int
    modules: tuple[Module, ...] = ()

    @property
    def key(self) -> tuple[str, str, int]:
        """Return the stream, the arm and the seed, which identify a run."""
        return self.stream, self.arm, self.seed


def tasks_of(experiment: Experiment) -> list[Task]:
    """Return every run, seed by seed, so that an interrupted experiment has all arms for its finished seeds."""
    arms = [arm.name for arm in experiment.all_arms] + ([CEILING] if experiment.ceiling else [])
    modules = modules_of(experiment.imports)
    return [
        Task(experiment, stream, arm, seed, modules)
        for seed in seeds_of(experiment)
        for stream in experiment.all_streams
        for arm in arms
    ]


def seeds_of(experiment: Experiment) -> tuple[int, ...]:
    """Return the seeds of an experiment."""
    return tuple(range(experiment.seeds)) if isinstance(experiment.seeds, int) else experiment.seeds


def window_of(experiment: Experiment) -> int:
    """Return the number of rounds that `recent` averages."""
    return max(1, round(experiment.window * experiment.horizon))


def checkpoint_rounds(experiment: Experiment) -> Ints:
    """Return the rounds after which values are recorded, with the end of the first window and the last round."""
    rounds, horizon = experiment.checkpoints, experiment.horizon
    if isinstance(rounds, int):
        spaced = np.geomspace(1, horizon, rounds) if experiment.spacing == "log" else np.linspace(1, horizon, rounds)
        rounds = tuple(np.rint(spaced).astype(int).tolist())
    return np.unique([*rounds, *experiment.new_queries, window_of(experiment), horizon])


def quick_version(experiment: Experiment) -> Experiment:
    """Return a smaller version of an experiment; claims about a round that it lacks refer to the last round."""
    quick = experiment.quick
    horizon = quick.horizon or max(1, experiment.horizon // QUICK_SHARE)
    beyond = isinstance(experiment.checkpoints, tuple) and max(experiment.checkpoints) > horizon
    smaller = msgspec.structs.replace(
        experiment,
        name=f"{experiment.name}-quick",
        horizon=horizon,
        seeds=quick.seeds,
        checkpoints=quick.checkpoints or (40 if beyond else experiment.checkpoints),
        new_queries=tuple(round for round in experiment.new_queries if round <= horizon),
    )
    rounds = set(checkpoint_rounds(smaller).tolist())
    claims = (claim if claim.at in rounds else msgspec.structs.replace(claim, at=None) for claim in experiment.claims)
    return msgspec.structs.replace(smaller, claims=tuple(claims))


def deciding_fields(experiment: Experiment) -> dict[str, bytes]:
    """Return the fields that determine the numbers as JSON: not the seeds, texts, figures or claims."""
    names = [name for name in experiment.__struct_fields__ if name not in FIELDS_WITHOUT_EFFECT]
    return {name: msgspec.json.encode(getattr(experiment, name), order="sorted") for name in names}


def measure_name(measure: Thing) -> str:
    """Return the name of a measure, which parses back."""
    return str(build(measure, "measure"))


def ceiling_note(measure: Thing) -> str:
    """Return a note on the best possible value, and on why its mean may stay below 1."""
    judge = build(measure, "measure")
    best_is_one = all(judge.best(np.array(grades)) == 1.0 for grades in ([1.0, 0.0], [1.0, 1.0]))
    below = best_is_one and judge.best(np.zeros(2)) == 0.0
    explanation = "; queries without relevant items count 0, so the mean can stay below 1" if below else ""
    return f"{CEILING.capitalize()}: every single query in its ideal order{explanation}."


def without_regret(experiment: Experiment) -> list[str]:
    """Return the measures whose best fixed ranking cannot be computed on some stream."""
    problems = [experiment.build(stream, "stream").problem for stream in experiment.all_streams.values()]
    measures = [build(measure, "measure") for measure in experiment.measures]
    return [str(measure) for measure in measures if any(best_fixed(measure, problem) is None for problem in problems)]
