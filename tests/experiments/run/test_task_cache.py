"""Tasks that are finished are kept, and not repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from rankloop.engine import Here
from rankloop.experiments.papers.registry import Setting
from rankloop.experiments.run.task_cache import FILE as KEPT
from rankloop.experiments.run.task_cache import kept_map


def doubled(task: int) -> float:
    return 2.0 * task


def test_tasks_are_kept_and_not_repeated(tmp_path: Path) -> None:
    class Counting:
        seen: ClassVar[list[int]] = []

        def map(self, tasks: Any, function: Any, done: Any = None) -> Any:
            self.seen += tasks
            return Here().map(tasks, function, done)

    shown: list[tuple[int, int]] = []
    setting = Setting(tmp_path / "new", Counting(), lambda finished, of: shown.append((finished, of)))
    assert kept_map(setting, [1, 2], doubled) == [2.0, 4.0]
    lines = (tmp_path / "new" / KEPT).read_bytes()
    (tmp_path / "new" / KEPT).write_bytes(lines + b'{"version":"0","task":"doubled 3","result":9.0}\n{"torn')
    assert kept_map(setting, [3, 2, 1], doubled) == [6.0, 4.0, 2.0]
    assert Counting.seen == [1, 2, 3]
    assert shown == [(0, 2), (1, 2), (2, 2), (2, 3), (3, 3)]
