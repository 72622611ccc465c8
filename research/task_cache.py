"""Results of tasks on disk, written as they come, so that an interrupted reproduction goes on where it stopped."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from rankloop.experiments.run.tasks import PACKAGE_VERSION
from research.registry import Setting

T = TypeVar("T")
R = TypeVar("R")
TASKS_FILE = "tasks.jsonl"


class Entry(msgspec.Struct, frozen=True):
    """One finished task; those of another version are not used."""

    version: str
    task: str
    result: msgspec.Raw


def cached_map(setting: Setting, tasks: Sequence[T], function: Callable[[T], R]) -> list[R]:
    """`function` of every task on the setting's engine, in their order; results that the folder has are not repeated.

    Tasks are told apart by their `repr`; results are what JSON can hold, in the type that `function` is annotated with.
    """
    path, kind = setting.folder / TASKS_FILE, get_type_hints(function)["return"]
    finished: dict[str, R] = _finished(path, kind)
    missing = [task for task in tasks if _name(task, function) not in finished]
    setting.folder.mkdir(parents=True, exist_ok=True)
    setting.progress(len(tasks) - len(missing), len(tasks))
    torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
    with path.open("ab") as file:
        file.write(b"\n" if torn else b"")  # else the next result would be lost with the torn one

        def keep(index: int, result: R) -> None:
            name = _name(missing[index], function)
            finished[name] = result
            line = Entry(PACKAGE_VERSION, name, msgspec.Raw(msgspec.json.encode(result)))
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
            setting.progress(sum(_name(task, function) in finished for task in tasks), len(tasks))

        setting.engine.map(missing, function, keep)
    return [finished[_name(task, function)] for task in tasks]


def _name(task: Any, function: Callable[..., Any]) -> str:
    return f"{function.__name__} {task!r}"


def _finished(path: Path, kind: Any) -> dict[str, Any]:
    """Return the finished tasks of a folder; incomplete lines and lines of another version are left out."""
    finished = {}
    for text in path.read_bytes().splitlines() if path.exists() else ():
        try:
            line = msgspec.json.decode(text, type=Entry)
            if line.version == PACKAGE_VERSION:
                finished[line.task] = msgspec.json.decode(line.result, type=kind)
        except msgspec.DecodeError:
            continue
    return finished
