"""Results of tasks on disk: what is there is not computed again, and a torn line costs nothing but itself."""

from rankloop.engine import Here
from research.registry import Setting
from research.task_cache import TASKS_FILE, cached_map

done = []


def square(task: int) -> int:
    done.append(task)
    return task * task


def test_a_line_torn_by_an_interruption_costs_one_task_only(tmp_path):
    setting = Setting(tmp_path, Here(), lambda done, of: None)
    assert cached_map(setting, [1, 2, 3], square) == [1, 4, 9]
    file = tmp_path / TASKS_FILE
    file.write_bytes(file.read_bytes()[:-5])
    done.clear()
    assert cached_map(setting, [1, 2, 3], square) == [1, 4, 9]
    assert done == [3]
    assert cached_map(setting, [1, 2, 3], square) == [1, 4, 9]
    assert done == [3]
