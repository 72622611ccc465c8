"""The data sets of queries with features on which the figures are made again: those that this machine has."""

from typing import NamedTuple

from rankloop.core.errors import NotFound
from rankloop.data.folder import data_path, missing_notice
from rankloop.experiments.spec.model import Thing
from research.options import chosen_of


class Split(NamedTuple):
    """Files for the comparison, files on which step sizes are chosen, whether features need scaling, and a limit."""

    files: list[str]
    tuning: list[str]
    scale: bool = False
    enough: int | None = None  # rounds: few queries with long lists, of which more say little and take an hour


def _folds(pattern: str) -> Split:
    return Split([pattern.format(part) for part in (2, 3, 4, 5)], [pattern.format(1)])


def _whole(file: str, scale: bool = False) -> Split:
    """One file: step sizes are chosen on other draws of the same queries."""
    return Split([file], [file], scale)


MSLR_FOLD = "MSLR-WEB10K/Fold1"
SPLITS_BY_NAME = {  # the first three are the data of the thesis, which users fetch themselves
    "Yahoo": Split(["yahoo/set1.train.txt"], ["yahoo/set1.valid.txt"]),
    "Yandex": _whole("yandex/imat2009_learning.txt"),
    "MSLR-WEB10K": Split([f"{MSLR_FOLD}/train.txt", f"{MSLR_FOLD}/test.txt"], [f"{MSLR_FOLD}/vali.txt"], scale=True),
    "MSLR sample": _whole("letor/mslr_sample/mslr_sample.txt", scale=True)._replace(enough=50_000),
    "ClueWeb09": _folds("letor/clueweb09_webis/part{}.txt")._replace(enough=50_000),
    "MQ2008": _folds("letor/mq2008/S{}.txt"),
    "MQ2007": _folds("letor/mq2007_partial/S{}.txt"),
}


class QuerySet(NamedTuple):
    """A stream to compare learners on, and another part of it to choose step sizes on; `enough` rounds at most."""

    name: str
    stream: Thing
    tuning: Thing
    enough: int | None = None


SIMULATED_SET = QuerySet("simulated", {"kind": "linear_gaussian"}, {"kind": "linear_gaussian"})
SEPARABLE_SET = QuerySet("separable", {"kind": "separable"}, {"kind": "separable"})


def available_sets(names: tuple[str, ...], requested: tuple[str, ...] = ()) -> tuple[list[QuerySet], str]:
    """The simulated queries and those of the named data sets that are here; a notice about those that are not.

    Where somebody wants certain ones, those alone: data sets of any figure, or "simulated".
    """
    name_by_lower_case = {name.lower(): name for name in (SIMULATED_SET.name, *SPLITS_BY_NAME)}
    names = tuple(chosen_of(name_by_lower_case, requested, "data set")) or (SIMULATED_SET.name, *names)
    available, missing = [SIMULATED_SET] if SIMULATED_SET.name in names else [], []
    for name in (name for name in names if name != SIMULATED_SET.name):
        split = SPLITS_BY_NAME[name]
        try:
            streams = _letor(split.files, split.scale), _letor(split.tuning, split.scale)
            available.append(QuerySet(name, *streams, split.enough))
        except NotFound:
            missing.append(name)
    if not missing:
        return available, ""
    if not available:
        raise NotFound(missing_notice(", ".join(missing)))
    instead = "simulated queries only" if available == [SIMULATED_SET] else "the other data sets are used"
    return available, f"{missing_notice(', '.join(missing))}: {instead}. "


def _letor(files: list[str], scale: bool) -> Thing:
    return {"kind": "letor", "path": [_there(file) for file in files], "normalise": scale, "need_relevant": True}


def _there(file: str) -> str:
    """The name under which a file is in the data folder, plain or compressed."""
    for name in (f"{file}.gz", file):
        try:
            data_path(name)
        except NotFound:
            continue
        return name
    raise NotFound(f"{file} is not in the data folder")
