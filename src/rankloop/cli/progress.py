"""A progress bar for what takes longer than a second, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

PATIENCE = 1.0  # seconds


@contextmanager
def progress_bar(title: str, unit: str = "runs") -> Iterator[Callable[[int, int], None]]:
    """Hands out the function to call with (finished, of how many); the bar goes to standard error."""
    if not sys.stderr.isatty():
        yield lambda finished, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.fields[unit]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(title, total=1, unit=unit)
    timer = Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda finished, of: bar.update(task, completed=finished, total=of)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
