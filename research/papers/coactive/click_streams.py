"""Where learners from clicks are compared: streams with the people who use them, those that this machine has."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

import research.datasets.topics  # noqa: F401  (registers the stream of documents with topics)
from rankloop.core.errors import NotFound
from rankloop.core.registry import build
from rankloop.core.types import Floats
from rankloop.data.folder import data_path, missing_notice
from rankloop.experiments.analysis.curves import Curves, values_at
from rankloop.experiments.analysis.summary import summarise
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.tasks import measure_name, window_of
from rankloop.experiments.spec.model import Experiment, Thing
from research.comparison import experiment_of, finding_with, label_of, play_all, with_part
from research.datasets.corpora import rcv1_files
from research.options import ALL, Options, chosen_of
from research.registry import Setting

MEASURE = "nDCG(empty='skip')@5"  # random candidates without a relevant one say nothing about a ranker
PAPER = 'Raman, Joachims, Shivaswamy and Schnabel (2013), "Stable coactive learning via perturbation"'
TAKES = ("rounds", "seeds", "data", "topics", "items", "empty")

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ClickStream(NamedTuple):
    """A stream, people with noisy judgments, the same people without noise, and the highest grade."""

    name: str
    stream: Thing
    users: Thing
    clean: Thing
    max_grade: int
    file: str = ""  # what has to be there
    rounds: int | None = None  # where the paper has its own number
    share: float | None = None  # of a collection: every topic that at least so many of the documents have is a person

    @property
    def label(self) -> str:
        return label_of(self.name)


GRADER, CLEAN_GRADER = {"kind": "gaussian_grader", "sd": 1.0}, {"kind": "gaussian_grader", "sd": 0.0}
READER, CLEAN_READER = {"kind": "noisy_reader", "noise": 0.2}, {"kind": "noisy_reader", "noise": 0.0}


def _letor(name: str, path: str, max_grade: int, normalise: bool = False, rounds: int | None = None) -> ClickStream:
    stream: dict[str, Any] = {"kind": "letor", "path": path, "min_items": 20, "need_relevant": True, "candidates": 20}
    return ClickStream(name, stream | {"normalise": normalise}, GRADER, CLEAN_GRADER, max_grade, path, rounds)


def _topics(name: str, path: str, share: float, rounds: int | None = None, n_words: int = 1000) -> ClickStream:
    stream = {"kind": "topics", "path": path, "selection": "presence", "n_words": n_words}
    return ClickStream(name, stream, READER, CLEAN_READER, 1, path, rounds, share)


SIMULATED = ClickStream("web search, simulated", {"kind": "web_search"}, GRADER, CLEAN_GRADER, 4)
LETOR = (
    _letor("MQ2007", "letor/mq2007_partial", 2),
    _letor("MQ2008", "letor/mq2008", 2),
    _letor("MSLR sample", "letor/mslr_sample/mslr_sample.txt.gz", 4, normalise=True),
    _letor("ClueWeb09", "letor/clueweb09_webis", 4),
)
TEXT = (
    _topics("20 Newsgroups", "text/20news_bydate.jsonl.xz", share=0.0, rounds=10_000),
    _topics("Reuters", "text/reuters21578.sgm.xz", share=0.01),  # the others are too rare for 50 candidates
)
THEIRS = (  # the data of the paper that their owners may have
    _letor("Yahoo", "yahoo/set1.train.txt", 4, rounds=28_000),
    _topics("RCV1", "rcv1", share=0.0, rounds=50_000, n_words=3000),
)
STREAMS = (LETOR[0], *TEXT, *THEIRS)  # most like those of the paper, and those
QUICK_SHARE, QUICK_SEEDS, QUICK_TOPICS = 10, 2, 2


def available_streams(wanted: tuple[ClickStream, ...], optional: bool = True) -> tuple[list[ClickStream], str]:
    """The simulated stream and the wanted ones that are here; a notice about those that are not.

    Nobody is told that the paper's own data are away, unless they were asked for (`optional` is False).
    """
    found, missing = [SIMULATED], []
    for stream in wanted:
        try:
            data_path(stream.file)
        except NotFound:
            missing += [] if optional and stream in THEIRS else [stream.name]
        else:
            found.append(stream)
    return found, missing_notice(", ".join(missing)) + ". " if missing else ""


def asked_streams(options: Options) -> tuple[list[ClickStream], str]:
    """Those of the paper's figures, or the ones that are asked for: by name, or by the path of any labelled set."""
    if not options.data:
        found, notice = available_streams(STREAMS)
    else:
        known = {one.name: one for one in (SIMULATED, *LETOR, *TEXT, *THEIRS)}
        names = {name.lower(): name for name in known} | {"simulated": SIMULATED.name}
        wanted = [
            stream_of(name)
            if name.lower() not in names and _is_path(name)
            else known[chosen_of(names, (name,), "data set")[0]]
            for name in options.data
        ]
        found, notice = available_streams(tuple(one for one in wanted if one.file), optional=False)
        found = found if SIMULATED in wanted else found[1:]
        if not found:
            raise NotFound(notice.strip())
    return [_of_length(one, options.items) for one in found], notice


def stream_of(path: str) -> ClickStream:
    """A labelled set of one's own: documents with topics (.jsonl, .sgm, a folder of RCV1), or a LETOR file."""
    name = Path(path).name.partition(".")[0]
    if any(part in (".jsonl", ".sgm") for part in Path(path).suffixes) or rcv1_files(data_path(path), "tokens"):
        return _topics(name, path, share=0.0)
    grades = build({"kind": "letor", "path": path}, "stream").problem.max_grade
    return _letor(name, path, grades)


def _is_path(name: str) -> bool:
    try:
        return data_path(name).exists()
    except NotFound:
        return False


def _of_length(one: ClickStream, items: int | None) -> ClickStream:
    """With lists of so many candidates."""
    if items is None or not isinstance(one.stream, dict):
        return one
    kind = one.stream["kind"]
    length = {"n_items": items} if kind == "web_search" else {"candidates": items}
    longer = {"min_items": items} if kind == "letor" else {}
    return one._replace(stream=one.stream | length | longer)


def topics_of(one: ClickStream, options: Options, quick: bool) -> dict[str, Thing]:
    """For a collection, a stream for each topic; all of them, those asked for, or those that are not too rare."""
    if one.share is None or not isinstance(one.stream, dict):
        return {}
    stream = build(one.stream, "stream")
    frequencies = stream.frequencies()
    if options.topics and ALL not in options.topics:
        chosen = chosen_of({name.lower(): name for name in frequencies}, options.topics, "topic")
    else:
        least = 0.0 if options.topics else one.share
        chosen = [name for name, share in frequencies.items() if share >= least]
    chosen = chosen[:QUICK_TOPICS] if quick and not options.topics else chosen
    return {topic: one.stream | {"topic": topic} for topic in chosen}


class Plan(NamedTuple):
    """What is compared on every stream and what is claimed of it; `more` are further fields of the experiment."""

    id: str
    text: str
    arms: Callable[[ClickStream], list[dict[str, Any]]]
    claims: list[dict[str, Any]]
    horizon: int = 20_000
    seeds: int = 10
    more: Callable[[int], Mapping[str, Any]] = lambda horizon: NOTHING  # given the number of rounds


def size_of(plan: Plan, one: ClickStream, setting: Setting) -> tuple[int, int]:
    """How many rounds, and how many seeds; of a collection every topic is a person, with one seed."""
    rounds, seeds = one.rounds or plan.horizon, plan.seeds if one.share is None else 1
    if setting.quick:
        rounds, seeds = rounds // QUICK_SHARE, min(seeds, QUICK_SEEDS)
    return setting.options.rounds or rounds, setting.options.seeds or seeds


def compared(plan: Plan, setting: Setting) -> tuple[Finding, dict[str, Curves]]:
    """One experiment for each data set under one title, and the curves of each."""
    found, notice = asked_streams(setting.options)
    experiments = [_experiment(plan, one, setting) for one in found]
    whole, curves = finding_with(plan.text, notice), {}
    for stream, own in zip(found, play_all(experiments, setting)):
        curves[stream.name] = over_topics(own)
        whole = with_part(whole, stream.name, summarise(curves[stream.name]))
    sizes = "; ".join(f"{name}: {_size(own)}" for name, own in curves.items())
    facts = dict(whole.facts) | {"rounds": sizes}
    return whole._replace(facts=(*facts.items(), data_fact(found))), curves


def _experiment(plan: Plan, one: ClickStream, setting: Setting) -> Experiment:
    rounds, seeds = size_of(plan, one, setting)
    topics = topics_of(one, setting.options, setting.quick)
    empty = setting.options.empty
    measure = MEASURE if empty is None else measure_name(f"nDCG(empty='{empty}')@5")
    return click_experiment(
        f"{plan.id}-{one.label}",
        None if topics else one.stream,
        plan.arms(one),
        rounds,
        seeds,
        measure,
        streams=topics,
        claims=[claim | {"measure": measure} for claim in plan.claims],
        imports=() if one.share is None else ("research.datasets.topics",),
        **plan.more(rounds),
    )


def over_topics(curves: Curves) -> Curves:
    """The same with every topic as a seed of one stream, so that means and intervals are over people."""
    if len(curves.streams) == 1:
        return curves
    count, name = len(curves.seeds), curves.experiment.name
    runs = [
        msgspec.structs.replace(run, stream=name, seed=curves.streams.index(run.stream) * count + position)
        for run in curves.runs
        for position in [curves.seeds.index(run.seed)]
    ]
    return Curves(curves.experiment, runs)


def _size(curves: Curves) -> str:
    n_topics = len(curves.experiment.streams)
    runs = f"{n_topics} topics" if n_topics else f"{len(curves.seeds)} runs"
    return f"{runs} of {curves.experiment.horizon:,}"


def data_fact(streams: list[ClickStream]) -> tuple[str, str]:
    return "data", "; ".join(stream.name for stream in streams)


def click_experiment(
    name: str,
    stream: Thing | None,
    arms: list[dict[str, Any]],
    horizon: int,
    seeds: int | tuple[int, ...],
    measure: str = MEASURE,
    **more: Any,
) -> Experiment:
    """Judged by what is shown in the last tenth of the rounds."""
    return experiment_of(name, stream, arms, measure, horizon, seeds, figures={"quantities": ["recent"]}, **more)


def measure_of(curves: Curves) -> str:
    return measure_name(curves.experiment.measures[0])


def claim(check: str, text: str, left: str, **more: Any) -> dict[str, Any]:
    """A claim about the last tenth of the rounds."""
    return {"check": check, "text": text, "left": left, "measure": MEASURE, "quantity": "recent"} | more


def arm(name: str, learner: Thing, users: Thing) -> dict[str, Any]:
    """A learner with the people whom it meets."""
    return {"name": name, "learner": learner, "feedback": users}


def at_the_end(curves: Curves, name: str, quantity: str = "recent") -> Floats:
    """What an arm reached, one value per seed."""
    return values_at(curves, name, measure_of(curves), quantity)


def at_start(curves: Curves, name: str) -> Floats:
    """Its quality in the first tenth of the rounds."""
    return values_at(curves, name, measure_of(curves), "recent", column=curves.column_of(window_of(curves.experiment)))
