"""Where learners from clicks are compared: streams with the users who use them, those that this machine has."""

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
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.summary import finding_of
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.tasks import measure_name, window_of
from rankloop.experiments.spec.model import Experiment, Thing
from research.comparison import experiment_of, finding_with, label_of, play_all, with_part
from research.datasets.corpora import rcv1_files
from research.options import ALL, Options, chosen_of
from research.registry import Setting

EMPTY_SKIPPED, EMPTY_ZERO = "skip", "zero"  # what a list without a relevant item counts
MEASURE = f"nDCG(empty='{EMPTY_SKIPPED}')@5"  # random candidates without a relevant one say nothing about a ranker
PAPER_LIST_LENGTH = 10  # with empty lists counted 0 the paper's .386 on News is near the ceiling of lists of ten, .401
PAPER = 'Raman, Joachims, Shivaswamy and Schnabel (2013), "Stable coactive learning via perturbation"'
ACCEPTED_OPTIONS = ("rounds", "seeds", "data", "topics", "items", "empty")

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ClickStream(NamedTuple):
    """A stream, users with noisy judgments, the same users without noise, and the highest grade."""

    name: str
    stream: Thing
    users: Thing
    clean: Thing
    max_grade: int
    file: str = ""  # what has to be there
    rounds: int | None = None  # where the paper has its own number
    share: float | None = None  # of a collection: every topic that at least so many of the documents have is a person
    empty: str = EMPTY_SKIPPED  # what a list without a relevant item counts

    @property
    def label(self) -> str:
        """Return the name of the stream as part of a file name."""
        return label_of(self.name)


GRADER, CLEAN_GRADER = {"kind": "gaussian_grader", "sd": 1.0}, {"kind": "gaussian_grader", "sd": 0.0}
READER, CLEAN_READER = {"kind": "noisy_reader", "noise": 0.2}, {"kind": "noisy_reader", "noise": 0.0}


def _letor(name: str, path: str, max_grade: int, normalise: bool = False) -> ClickStream:
    stream: dict[str, Any] = {"kind": "letor", "path": path, "min_items": 20, "need_relevant": True, "candidates": 20}
    return ClickStream(name, stream | {"normalise": normalise}, GRADER, CLEAN_GRADER, max_grade, path)


def _topics(name: str, path: str, share: float, rounds: int | None = None, n_words: int = 1000) -> ClickStream:
    stream = {"kind": "topics", "path": path, "selection": "presence", "n_words": n_words}
    return ClickStream(name, stream, READER, CLEAN_READER, 1, path, rounds, share)


SIMULATED_STREAM = ClickStream("web search, simulated", {"kind": "web_search"}, GRADER, CLEAN_GRADER, 4)
LETOR_STREAMS = (
    _letor("MQ2007", "letor/mq2007_partial", 2),
    _letor("MQ2008", "letor/mq2008", 2),
    _letor("MSLR sample", "letor/mslr_sample/mslr_sample.txt.gz", 4, normalise=True),
    _letor("ClueWeb09", "letor/clueweb09_webis", 4),
)
TEXT_STREAMS = (
    _topics("20 Newsgroups", "text/20news_bydate.jsonl.xz", share=0.0, rounds=10_000),
    _topics("Reuters", "text/reuters21578.sgm.xz", share=0.01),  # the others are too rare for 50 candidates
)
SHORT_TEXT_STREAMS = tuple(
    stream._replace(
        name=f"{stream.name}, lists of ten",
        stream=stream.stream | {"candidates": PAPER_LIST_LENGTH},  # type: ignore[operator]  # a table
        empty=EMPTY_ZERO,
    )
    for stream in TEXT_STREAMS
)
YAHOO = {"kind": "letor", "path": "yahoo/set1.train.txt"}
PAPER_STREAMS = (  # the data of the paper that their owners may have
    ClickStream(
        "Yahoo", YAHOO, GRADER, CLEAN_GRADER, 4, str(YAHOO["path"]), rounds=28_000
    ),  # every query, all its items
    _topics("RCV1", "rcv1", share=0.0, rounds=50_000, n_words=3000),
)
NAMED_STREAMS = (SIMULATED_STREAM, *LETOR_STREAMS, *TEXT_STREAMS, *SHORT_TEXT_STREAMS, *PAPER_STREAMS)
DEFAULT_STREAMS = (LETOR_STREAMS[0], *TEXT_STREAMS, *PAPER_STREAMS)  # most like those of the paper, and those
QUICK_SHARE, QUICK_SEEDS, QUICK_TOPICS = 10, 2, 2


def available_streams(requested: tuple[ClickStream, ...], optional: bool = True) -> tuple[list[ClickStream], str]:
    """The simulated stream and the wanted ones that are here; a notice about those that are not.

    Nobody is told that the paper's own data are away, unless they were asked for (`optional` is False).
    """
    available, missing = [SIMULATED_STREAM], []
    for stream in requested:
        try:
            data_path(stream.file)
        except NotFound:
            missing += [] if optional and stream in PAPER_STREAMS else [stream.name]
        else:
            available.append(stream)
    return available, missing_notice(", ".join(missing)) + ". " if missing else ""


def asked_streams(options: Options) -> tuple[list[ClickStream], str]:
    """Those of the paper's figures, or the ones that are asked for: by name, or by the path of any labelled set."""
    if not options.data:
        available, notice = available_streams(DEFAULT_STREAMS)
    else:
        streams = {stream.name: stream for stream in NAMED_STREAMS}
        names = {name.lower(): name for name in streams} | {"simulated": SIMULATED_STREAM.name}
        requested = [
            stream_of(name)
            if name.lower() not in names and _is_path(name)
            else streams[chosen_of(names, (name,), "data set")[0]]
            for name in options.data
        ]
        available, notice = available_streams(tuple(stream for stream in requested if stream.file), optional=False)
        available = available if SIMULATED_STREAM in requested else available[1:]
        if not available:
            raise NotFound(notice.strip())
    return [_of_length(stream, options.items) for stream in available], notice


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


def _of_length(stream: ClickStream, items: int | None) -> ClickStream:
    """With lists of so many candidates."""
    if items is None or not isinstance(stream.stream, dict):
        return stream
    kind = stream.stream["kind"]
    length = {"n_items": items} if kind == "web_search" else {"candidates": items}
    longer = {"min_items": items} if kind == "letor" else {}
    return stream._replace(stream=stream.stream | length | longer)


def topics_of(stream: ClickStream, options: Options, quick: bool) -> dict[str, Thing]:
    """For a collection, a stream for each topic; all of them, those asked for, or those that are not too rare."""
    if stream.share is None or not isinstance(stream.stream, dict):
        return {}
    frequencies = build(stream.stream, "stream").frequencies()
    if options.topics and ALL not in options.topics:
        chosen = chosen_of({name.lower(): name for name in frequencies}, options.topics, "topic")
    else:
        least = 0.0 if options.topics else stream.share
        chosen = [name for name, share in frequencies.items() if share >= least]
    chosen = chosen[:QUICK_TOPICS] if quick and not options.topics else chosen
    return {topic: stream.stream | {"topic": topic} for topic in chosen}


class Plan(NamedTuple):
    """Arms and claims on every stream; `more` are further fields of the experiment."""

    id: str
    text: str
    arms: Callable[[ClickStream], list[dict[str, Any]]]
    claims: list[dict[str, Any]]
    horizon: int = 20_000
    seeds: int = 10
    topic_seeds: int = 1  # runs of each topic, where the topics of a collection are the users
    more: Callable[[int], Mapping[str, Any]] = lambda horizon: NOTHING  # given the number of rounds


def size_of(plan: Plan, stream: ClickStream, setting: Setting) -> tuple[int, int]:
    """Return the numbers of rounds and seeds; in a collection every topic is a user.

    Args:
      plan: The plan.
      stream: The stream.
      setting: The setting of the reproduction.
    """
    rounds, seeds = stream.rounds or plan.horizon, plan.seeds if stream.share is None else plan.topic_seeds
    if setting.quick:
        rounds, seeds = rounds // QUICK_SHARE, min(seeds, QUICK_SEEDS)
    return setting.options.rounds or rounds, setting.options.seeds or seeds


def compared(plan: Plan, setting: Setting) -> tuple[Finding, dict[str, Curves]]:
    """One experiment for each data set under one title, and the curves of each."""
    streams, notice = asked_streams(setting.options)
    experiments = [_experiment(plan, click_stream, setting) for click_stream in streams]
    finding, curves = finding_with(plan.text, notice), {}
    for stream, stream_curves in zip(streams, play_all(experiments, setting)):
        curves[stream.name] = over_topics(stream_curves)
        finding = with_part(finding, stream.name, finding_of(curves[stream.name]))
    sizes = "; ".join(f"{name}: {_size(stream_curves)}" for name, stream_curves in curves.items())
    facts = dict(finding.facts) | {"rounds": sizes}
    return finding._replace(facts=(*facts.items(), data_fact(streams))), curves


def _experiment(plan: Plan, stream: ClickStream, setting: Setting) -> Experiment:
    rounds, seeds = size_of(plan, stream, setting)
    topics = topics_of(stream, setting.options, setting.quick)
    measure = measure_name(f"nDCG(empty='{setting.options.empty or stream.empty}')@5")
    return click_experiment(
        f"{plan.id}-{stream.label}",
        None if topics else stream.stream,
        plan.arms(stream),
        rounds,
        seeds,
        measure,
        streams=topics,
        claims=[claim | {"measure": measure} for claim in plan.claims],
        imports=() if stream.share is None else ("research.datasets.topics",),
        **plan.more(rounds),
    )


def over_topics(curves: Curves) -> Curves:
    """Return the curves with every topic as a seed of one stream, so that means and intervals are over users."""
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
    """Return the names of the data sets, for the report."""
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
    """Return the measure of the curves."""
    return measure_name(curves.experiment.measures[0])


def claim(check: str, text: str, left: str, **more: Any) -> dict[str, Any]:
    """A claim about the last tenth of the rounds."""
    return {"check": check, "text": text, "left": left, "measure": MEASURE, "quantity": "recent"} | more


def arm(name: str, learner: Thing, users: Thing) -> dict[str, Any]:
    """A learner with the users whom it meets."""
    return {"name": name, "learner": learner, "feedback": users}


def at_the_end(curves: Curves, name: str, quantity: str = "recent") -> Floats:
    """Return the last value of an arm, one per seed.

    Args:
      curves: The values of the experiment.
      name: The arm.
      quantity: The quantity.
    """
    return curves.at(name, measure_of(curves), quantity)


def at_start(curves: Curves, name: str) -> Floats:
    """Its quality in the first tenth of the rounds."""
    return curves.at(name, measure_of(curves), "recent", column=curves.column_of(window_of(curves.experiment)))
