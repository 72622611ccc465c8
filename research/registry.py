"""What can be reproduced: the experiments of the catalogue, and functions that compute a table or a figure."""

import importlib
import pkgutil
import time
import tomllib
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from rankloop.core.errors import Conflict, NotFound, RankloopError
from rankloop.core.files import atomic_write
from rankloop.core.registry.specs import nearest
from rankloop.engine import Engine
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.summary import finding_of
from rankloop.experiments.report.html import write_report
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.runner import Progress, run_experiment
from rankloop.experiments.run.tasks import PACKAGE_VERSION, quick_version
from rankloop.experiments.spec.load import parse_spec
from rankloop.experiments.spec.model import Experiment
from research import papers, search
from research.front_page import front_page
from research.options import Options, check_options
from research.record import (
    Record,
    finished_records,
    read_record,
    record_of,
    summary_json,
    write_record,
)

TITLE = "The papers, computed again"
AS_PUBLISHED = Options()


class Setting(NamedTuple):
    """Setting of a reproduction; `folder` is used by no other."""

    folder: Path
    engine: Engine
    progress: Progress
    quick: bool = False
    options: Options = AS_PUBLISHED


Work = Callable[[Setting], Finding]


class Reproduction(NamedTuple):
    """Something of a paper that can be computed again."""

    id: str
    title: str
    work: Work
    takes: frozenset[str] = frozenset()  # the options that it has


_written: dict[str, Reproduction] = {}


def reproduction(id: str, *, title: str, takes: Collection[str] = ()) -> Callable[[Work], Work]:
    """Make a function known by the figure's or table's own id, as in `@reproduction("table-3.1", title=…)`.

    Its finding gets the id and the title; `takes` names the options that it follows.
    """

    def register(work: Work) -> Work:
        previous = _written.get(id)
        if previous and previous.work.__qualname__ != work.__qualname__:
            raise Conflict(
                f"the reproduction {id!r} is already {previous.work.__module__}.{previous.work.__qualname__}"
            )

        @wraps(work)
        def named(setting: Setting) -> Finding:
            return work(setting)._replace(id=id, title=title)

        _written[id] = Reproduction(id, title, named, frozenset(takes))
        return named

    return register


def everything() -> dict[str, Reproduction]:
    """All reproductions by id, those of the catalogue and those that are functions."""
    for package in (papers, search):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    by_id = {item.id: item for item in map(_of_file, _catalogue())}
    twice = sorted(by_id.keys() & _written.keys())
    if twice:
        raise Conflict(f"{twice[0]!r} is both in the catalogue and a function")
    return dict(sorted((by_id | _written).items()))


def find(id: str) -> Reproduction:
    """The reproduction of an id, or `NotFound` with the nearest one."""
    reproductions = everything()
    if id not in reproductions:
        others = nearest(id, reproductions) or "; `python -m research list` shows all"
        raise NotFound(f"nothing to reproduce is called {id!r}{others}")
    return reproductions[id]


def reproduce(item: Reproduction, setting: Setting) -> Finding:
    """The finding with its small print; what it took is kept in the folder, also when it is interrupted."""
    check_options(item.id, setting.options, item.takes)
    previous, started = read_record(setting.folder), time.perf_counter()
    spent = previous.seconds if previous is not None else 0.0
    try:
        finding = item.work(setting)
    except KeyboardInterrupt:
        seconds = round(spent + time.perf_counter() - started, 1)
        write_record(setting.folder, Record(id=item.id, title=item.title, finished=False, seconds=seconds))
        raise
    now = time.perf_counter() - started
    again = previous is not None and previous.finished  # nothing but the summary was left to do
    finding = _with_small_print(finding, setting.options, max(spent, now) if again else spent + now)
    write_record(setting.folder, record_of(finding, setting.quick))
    return finding


def reproduce_into(
    folder: Path,
    items: Sequence[Reproduction],
    engine: Engine,
    progress: Callable[[str], AbstractContextManager[Progress]],
    *,
    quick: bool = False,
    skip_failing: bool = False,
    options: Options = AS_PUBLISHED,
) -> tuple[list[Finding], Path]:
    """One report over these reproductions, and `summary.json` over all that are finished in the folder.

    `progress` is given an id and opens what is told how far it has got. With `skip_failing`, one that cannot be done
    says why and the others go on.
    """
    findings = []
    for item in items:
        try:
            with progress(item.id) as advance:
                findings.append(reproduce(item, Setting(folder / item.id, engine, advance, quick, options)))
        except RankloopError as error:
            if not skip_failing:
                raise
            findings.append(Finding(item.id, item.title, text=f"Not reproduced: {error}", missing=(str(error),)))
    report = write_report(folder, TITLE, findings, front_page(findings) if len(findings) > 1 else "")
    atomic_write(folder / "summary.json", summary_json(finished_records(folder)))
    return findings, report


def _with_small_print(finding: Finding, options: Options, seconds: float) -> Finding:
    facts = dict(finding.facts)
    if options.asked:
        facts["options"] = str(options)
    facts["rankloop"] = PACKAGE_VERSION
    facts["time"] = f"{seconds:.1f} s"
    return finding._replace(seconds=seconds, facts=tuple(facts.items()))


def _catalogue() -> list[Traversable]:
    folder = resources.files(papers).joinpath("catalogue")
    return [file for file in folder.iterdir() if file.name.endswith(".toml")] if folder.is_dir() else []


def _of_file(file: Traversable) -> Reproduction:
    id = file.name.removesuffix(".toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))  # not checked: where it is only listed its data may be away
    return Reproduction(id, table.get("title", id), partial(_run, file))


def _run(file: Traversable, setting: Setting) -> Finding:
    id = file.name.removesuffix(".toml")
    experiment = parse_spec(file.read_text(encoding="utf-8"), f"catalogue/{file.name}", id)
    if setting.quick:
        experiment = quick_version(experiment)
    runs = run_experiment(experiment, setting.folder, setting.engine, setting.progress)
    finding = finding_of(Curves(experiment, runs))
    return finding._replace(id=id, facts=(*finding.facts, ("data", _data(experiment))))


def _data(experiment: Experiment) -> str:
    """The files that its streams read."""
    streams = (stream for stream in experiment.all_streams.values() if isinstance(stream, dict))
    return ", ".join(str(stream["path"]) for stream in streams if "path" in stream) or "simulated"
