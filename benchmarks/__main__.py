"""Runs every `bench_*.py` here, each in a process of its own, and compares the ratios with those of the last run.

python -m benchmarks                                       everything
python -m benchmarks letor measures                        some of it
python -m benchmarks --against docs/results/bench.json     compared with the published results
python -m benchmarks --save docs/results/bench.json        published anew
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
from pathlib import Path
from time import perf_counter

from rich.console import Console

import benchmarks
from benchmarks import results
from benchmarks.environment import machine, versions
from benchmarks.measurement import Row, measured
from rankloop.data import data_folder

WIDE = 160  # columns of a log file


def main() -> None:
    modules = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    names = [name.removeprefix("bench_") for name in modules if name.startswith("bench_")]
    options = parsed(names)
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    start, rows = perf_counter(), dict[str, Row]()
    before = results.read(options.against)
    introduce(console, before.get("machine"))
    for name in options.names or names:
        with console.status(f"measuring {name}"):
            rows_of_module = measured(name)
        console.print(results.benchmark_table(name, rows_of_module, before["rows"]))
        rows |= {row["name"]: row for row in rows_of_module}
    for path in filter(None, (results.LAST_RUN, options.save)):
        results.write(path, rows, whole=not options.names)
    console.print(results.peer_table(rows, before["rows"]))
    n_fallen = sum(bool(results.regressions(row, before["rows"].get(name))) for name, row in rows.items())
    console.print(f"{len(rows)} rows in {perf_counter() - start:.0f} s; {n_fallen} fell by more than their spread.")


def introduce(console: Console, last_machine: dict[str, str] | None) -> None:
    for facts in (machine(), versions()):
        console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
    if data_folder() is None:
        console.print("No data folder (RANKLOOP_DATA): everything runs on synthetic data, and the rows say so.")
    if last_machine not in (None, machine()):
        console.print("The last results are of another machine: a ratio may differ for that reason alone.")


def parsed(known: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks", epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"all unless given: {', '.join(known)}")
    parser.add_argument("--against", type=Path, help="results to compare with; the last ones unless given")
    parser.add_argument("--save", type=Path, help="keep the results here as well")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    if options.against and not options.against.exists():
        parser.error(f"there are no results at {options.against}")
    return options


if __name__ == "__main__":
    main()
