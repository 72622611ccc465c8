"""One benchmark in a process of its own: some peers change settings of the whole process, and peaks of memory stay."""

from __future__ import annotations

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from benchmarks.rows import Row


def measured(name: str) -> list[Row]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, name).result()


def run(name: str) -> list[Row]:
    rows: list[Row] = importlib.import_module(f"benchmarks.bench_{name}").run()
    return rows
