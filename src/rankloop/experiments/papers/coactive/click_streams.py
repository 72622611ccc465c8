"""Where learners from clicks are compared: streams with the people who use them, those that this machine has."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from rankloop.core.errors import NotFound
from rankloop.core.types import Floats
from rankloop.data.folder import absence_notice, data_path
from rankloop.experiments.analysis.curves import Curves, values_at
from rankloop.experiments.analysis.summary import summarise
from rankloop.experiments.papers.comparison import experiment_of, finding_with, label_of, play_all
from rankloop.experiments.papers.registry import Setting
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.tasks import window_of
from rankloop.experiments.spec.model import Experiment, Thing

MEASURE = "nDCG(empty='skip')@5"  # random candidates without a relevant one say nothing about a ranker
PAPER = 'Raman, Joachims, Shivaswamy and Schnabel (2013), "Stable coactive learning via perturbation"'

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ClickStream(NamedTuple):
    """A stream, people with noisy judgments, the same people without noise, and the highest grade."""

    name: str
    stream: Thing
    people: Thing
    clean: Thing
    max_grade: int
    file: str = ""  # what has to be there

    @property
    def label(self) -> str:
        return label_of(self.name)


GRADER, CLEAN_GRADER = {"kind": "gaussian_grader", "sd": 1.0}, {"kind": "gaussian_grader", "sd": 0.0}
READER, CLEAN_READER = {"kind": "noisy_reader", "noise": 0.2}, {"kind": "noisy_reader", "noise": 0.0}


def _letor(name: str, path: str, max_grade: int, normalise: bool = False) -> ClickStream:
    stream: dict[str, Any] = {"kind": "letor", "path": path, "min_items": 20, "need_relevant": True, "candidates": 20}
    return ClickStream(name, stream | {"normalise": normalise}, GRADER, CLEAN_GRADER, max_grade, path)


def _topics(name: str, path: str, **more: str) -> ClickStream:
    return ClickStream(name, {"kind": "topics", "path": path} | more, READER, CLEAN_READER, 1, path)


SIMULATED = ClickStream("web search, simulated", {"kind": "web_search"}, GRADER, CLEAN_GRADER, 4)
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
PAPER_DATA = (  # on which the paper was made, for those who have them; nobody may hand them on
    _letor("Yahoo", "yahoo/set1.train.txt", 4),
    _topics("RCV1", "rcv1"),
)
STREAMS = (LETOR[0], *TEXT)  # most like those of the paper
QUICK_SHARE, QUICK_SEEDS = 10, 2


def available_streams(wanted: tuple[ClickStream, ...]) -> tuple[list[ClickStream], str]:
    """The simulated stream and the wanted ones that are here; a notice about those that are not."""
    found, missing = [SIMULATED], []
    for stream in wanted:
        try:
            data_path(stream.file)
        except NotFound:
            missing.append(stream.name)
        else:
            found.append(stream)
    return found, absence_notice(", ".join(missing)) + ". " if missing else ""


def owned_streams() -> list[ClickStream]:
    """Those of the paper's own data that this machine has; an absent one is not missed."""
    return available_streams(PAPER_DATA)[0][1:]


class Plan(NamedTuple):
    """What is compared on every stream and what is claimed of it; `more` are further fields of the experiment."""

    id: str
    text: str
    arms: Callable[[ClickStream], list[dict[str, Any]]]
    claims: list[dict[str, Any]]
    horizon: int = 20_000
    seeds: int = 10
    more: Mapping[str, Any] = NOTHING


def size_of(plan: Plan, setting: Setting) -> tuple[int, int]:
    """How many rounds and seeds."""
    return (plan.horizon // QUICK_SHARE, QUICK_SEEDS) if setting.quick else (plan.horizon, plan.seeds)


def compared(plan: Plan, setting: Setting) -> tuple[Finding, dict[str, Curves]]:
    """One experiment for each of STREAMS under one title, and the curves of each."""
    found, notice = available_streams(STREAMS)
    horizon, seeds = size_of(plan, setting)
    experiments = [
        click_experiment(
            f"{plan.id}-{one.label}", one.stream, plan.arms(one), horizon, seeds, claims=plan.claims, **plan.more
        )
        for one in found
    ]
    whole, curves = finding_with(plan.text, notice), {}
    for stream, own in zip(found, play_all(experiments, setting)):
        whole, curves[stream.name] = whole.joined(stream.name, summarise(own)), own
    return whole._replace(facts=(*whole.facts, data_fact(found))), curves


def data_fact(streams: list[ClickStream]) -> tuple[str, str]:
    return "data", "; ".join(stream.name for stream in streams)


def click_experiment(
    name: str, stream: Thing, arms: list[dict[str, Any]], horizon: int, seeds: int | tuple[int, ...], **more: Any
) -> Experiment:
    """Judged by what is shown in the last tenth of the rounds."""
    return experiment_of(name, stream, arms, MEASURE, horizon, seeds, figures={"quantities": ["recent"]}, **more)


def claim(check: str, text: str, left: str, **more: Any) -> dict[str, Any]:
    """A claim about the last tenth of the rounds."""
    return {"check": check, "text": text, "left": left, "measure": MEASURE, "quantity": "recent"} | more


def arm(name: str, learner: Thing, people: Thing) -> dict[str, Any]:
    """A learner with the people whom it meets."""
    return {"name": name, "learner": learner, "feedback": people}


def at_the_end(curves: Curves, name: str, quantity: str = "recent") -> Floats:
    """What an arm reached, one value per seed."""
    return values_at(curves, name, MEASURE, quantity)


def at_start(curves: Curves, name: str) -> Floats:
    """Its quality in the first tenth of the rounds."""
    return values_at(curves, name, MEASURE, "recent", column=curves.column_of(window_of(curves.experiment)))


def after_a_quarter(curves: Curves, name: str) -> Floats:
    """Its quality in the tenth of the rounds that ends with the first quarter."""
    return values_at(curves, name, MEASURE, "recent", column=curves.column_of(curves.experiment.horizon // 4))
