"""A fixed set of items: what the learners of one ask of the problem."""

from __future__ import annotations

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Problem


def size_of_fixed_set(problem: Problem) -> int:
    """The number of items; `InvalidInput` where it changes from query to query."""
    if problem.n_items is None:
        raise InvalidInput("this learner ranks a fixed set of items: the problem must say n_items")
    return problem.n_items


def require_all_grades(problem: Problem) -> None:
    """Refuse a problem in which only the first items are graded."""
    if problem.depth is not None and problem.depth < size_of_fixed_set(problem):
        raise InvalidInput(
            f"this learner needs the grades of all {problem.n_items} items every round, the problem reveals the first "
            f"{problem.depth}: put it inside rtopk"
        )


def graded_depth(problem: Problem) -> int:
    """How many of the first items are graded; `InvalidInput` where none is."""
    n_items = size_of_fixed_set(problem)
    depth = n_items if problem.depth is None else min(problem.depth, n_items)
    if depth < 1:
        raise InvalidInput(f"depth = {depth}: nothing can be learned unless at least the first item is graded")
    return depth
