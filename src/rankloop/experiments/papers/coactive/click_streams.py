"""Where learners from clicks are compared: streams with the people who use them, those that this machine has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import NotFound
from rankloop.core.types import Floats
from rankloop.data.folder import absence_notice, data_path
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.summary import finding_of
from rankloop.experiments.papers.registry import Setting
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.runner import run_experiments
from rankloop.experiments.run.tasks import window_of
from rankloop.experiments.run.worker import Run
from rankloop.experiments.spec.load import parse_spec
from rankloop.experiments.spec.model import Experiment, Thing

MEASURE = "nDCG(empty='skip')@5"  # random candidates without a relevant one say nothing about a ranker
PAPER = 'Raman, Joachims, Shivaswamy and Schnabel (2013), "Stable coactive learning via perturbation"'

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ClickWorld(NamedTuple):
    """A stream, people with noisy judgments, the same people without noise, and the highest grade."""

    name: str
    stream: Thing
    people: Thing
    clean: Thing
    max_grade: int
    file: str = ""  # what has to be there

    @property
    def label(self) -> str:
        """The name as part of a file name."""
        return self.name.lower().replace(",", "").replace(" ", "-")


GRADER, CLEAN_GRADER = {"kind": "gaussian_grader", "sd": 1.0}, {"kind": "gaussian_grader", "sd": 0.0}
READER, CLEAN_READER = {"kind": "noisy_reader", "noise": 0.2}, {"kind": "noisy_reader", "noise": 0.0}


def _letor(name: str, path: str, max_grade: int, normalise: bool = False) -> ClickWorld:
    stream: dict[str, Any] = {"kind": "letor", "path": path, "min_items": 20, "need_relevant": True, "candidates": 20}
    return ClickWorld(name, stream | {"normalise": normalise}, GRADER, CLEAN_GRADER, max_grade, path)


def _topics(name: str, path: str, **more: str) -> ClickWorld:
    return ClickWorld(name, {"kind": "topics", "path": path} | more, READER, CLEAN_READER, 1, path)


SIMULATED = ClickWorld("web search, simulated", {"kind": "web_search"}, GRADER, CLEAN_GRADER, 4)
LETOR = (
    _letor("MQ2007", "letor/mq2007_partial", 2),
    _letor("MQ2008", "letor/mq2008", 2),
    _letor("MSLR sample", "letor/mslr_sample/mslr_sample.txt.gz", 4, normalise=True),
    _letor("ClueWeb09", "letor/clueweb09_webis", 4),
)
TEXT = (
    _topics("20 Newsgroups", "text/20news_bydate.jsonl.xz"),
    _topics("Reuters", "text/reuters21578.sgm.xz", topic="acq"),  # most of its topics are too rare for 50 candidates
)
QUICK_SHARE, QUICK_SEEDS = 10, 2


def click_worlds(wanted: tuple[ClickWorld, ...]) -> tuple[list[ClickWorld], str]:
    """The simulated world and the wanted ones that are here; a notice about those that are not."""
    found, missing = [SIMULATED], []
    for world in wanted:
        try:
            data_path(world.file)
        except NotFound:
            missing.append(world.name)
        else:
            found.append(world)
    return found, absence_notice(", ".join(missing)) + ". " if missing else ""


class Plan(NamedTuple):
    """What is compared in every world and what is claimed of it; `more` are further fields of the experiment."""

    id: str
    title: str
    text: str
    arms: Callable[[ClickWorld], list[dict[str, Any]]]
    claims: list[dict[str, Any]]
    horizon: int = 20_000
    seeds: int = 10
    more: Mapping[str, Any] = NOTHING


def size_of(plan: Plan, setting: Setting) -> tuple[int, int]:
    """How many rounds and seeds."""
    return (plan.horizon // QUICK_SHARE, QUICK_SEEDS) if setting.quick else (plan.horizon, plan.seeds)


def compared(plan: Plan, wanted: tuple[ClickWorld, ...], setting: Setting) -> tuple[Finding, dict[str, Curves]]:
    """One experiment per world under one title, and the curves of each."""
    found, notice = click_worlds(wanted)
    lacking = (notice.strip(),) if notice else ()
    whole, curves = Finding(id=plan.id, title=plan.title, text=notice + plan.text, missing=lacking), {}
    data = "data", "; ".join(world.name for world in found)
    horizon, seeds = size_of(plan, setting)
    more = {"claims": plan.claims} | dict(plan.more)
    experiments = [
        _experiment(f"{plan.id}-{world.label}", world.stream, plan.arms(world), horizon, seeds, more) for world in found
    ]
    for world, experiment, runs in zip(found, experiments, _played(experiments, setting)):
        part, curves[world.name] = finding_of(experiment, runs), Curves(experiment, runs)
        whole = whole._replace(
            claims=whole.claims + tuple(v._replace(text=f"{world.name}: {v.text}") for v in part.claims),
            charts=whole.charts + tuple(c._replace(title=f"{world.name}: {c.title}") for c in part.charts),
            tables=whole.tables + tuple(t._replace(title=f"{world.name}: {t.title}") for t in part.tables),
            inside=whole.inside + tuple(c._replace(title=f"{world.name}: {c.title}") for c in part.inside),
            facts=(*part.facts, data),
        )
    return whole, curves


def curves_of(
    named: Mapping[str, tuple[Thing, list[dict[str, Any]]]], horizon: int, seeds: tuple[int, ...], setting: Setting
) -> list[Curves]:
    """The curves of several experiments, each a stream and its arms, played together so that no core waits for one."""
    experiments = [_experiment(name, stream, arms, horizon, seeds, {}) for name, (stream, arms) in named.items()]
    return [Curves(experiment, runs) for experiment, runs in zip(experiments, _played(experiments, setting))]


def _played(experiments: list[Experiment], setting: Setting) -> list[list[Run]]:
    folders = [(experiment, setting.folder / experiment.name) for experiment in experiments]
    return run_experiments(folders, setting.engine, setting.progress)


def _experiment(
    name: str,
    stream: Thing,
    arms: list[dict[str, Any]],
    horizon: int,
    seeds: int | tuple[int, ...],
    more: dict[str, Any],
) -> Experiment:
    table = {"stream": stream, "arms": arms, "measures": [MEASURE], "horizon": horizon, "seeds": seeds}
    return parse_spec(table | {"ceiling": False, "figures": {"quantities": ["recent"]}} | more, name, name)


def claim(check: str, text: str, left: str, **more: Any) -> dict[str, Any]:
    """A claim about the last tenth of the rounds."""
    return {"check": check, "text": text, "left": left, "measure": MEASURE, "quantity": "recent"} | more


def arm(name: str, learner: Thing, people: Thing) -> dict[str, Any]:
    """A learner with the people whom it meets."""
    return {"name": name, "learner": learner, "feedback": people}


def at_the_end(curves: Curves, name: str, quantity: str = "recent") -> Floats:
    """What an arm reached, one value per seed."""
    return _at(curves, name, quantity, -1)


def at_start(curves: Curves, name: str) -> Floats:
    """Its quality in the first tenth of the rounds."""
    return _at(curves, name, "recent", curves.path_of(window_of(curves.experiment)))


def after_a_quarter(curves: Curves, name: str) -> Floats:
    """Its quality in the tenth of the rounds that ends with the first quarter."""
    return _at(curves, name, "recent", curves.path_of(curves.experiment.horizon // 4))


def _at(curves: Curves, name: str, quantity: str, position: int) -> Floats:
    rows = curves.of(curves.streams[0], name, MEASURE, quantity)
    return np.full(len(curves.seeds), np.nan) if rows is None else rows[:, position]
