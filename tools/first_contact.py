"""Measure the first minutes with rankloop: installed size, first ranking, imports, and `make run` on a fresh clone.

    python tools/first_contact.py                        builds the wheel, measures, prints and keeps the table
    python tools/first_contact.py --python python3.12 …  with other Pythons
    python tools/first_contact.py --page                 writes the page from the kept numbers

Every measurement starts with an empty environment and an empty home. The numbers are kept in
docs/results/first-contact.json and shown by docs/results/first-contact.md. Needs `pip install build wheel`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools import wheel as wheels

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "first-contact.json"
PAGE = RESULTS.with_suffix(".md")
REPEATS = 3  # of every measurement of time but that of a fresh clone; the least counts, since others use the machine
N_LARGEST_PACKAGES = 6
CLOCK_ROW = "`make run` on a fresh clone, by the clock"
SPACE_OF_TOOLS = ("pip", "setuptools", "_distutils_hack", "pkg_resources", "wheel")
INTRODUCTION = """# First contact

The first minutes with rankloop: an installed wheel in an empty environment with an empty home.
`make first-contact` measures and writes this page. Seconds are processor time unless a row says otherwise.
A load above the number of cores means that other work held the machine: then the clock says little.
"""
FIVE_LINES = """
from rankloop import Ranker
ranker = Ranker("click_regression", features={"price": "number", "brand": "category", "title": "words"})
products = {"a": {"price": 1999, "brand": "Acme", "title": "Red shoes"}, "b": {"price": 700, "title": "Wool socks"}}
shown = ranker.rank(products)
ranker.learn(shown, clicks=["b"])
ranker.save("shop.rankloop")
"""


class Measurement(NamedTuple):
    """One row of the table.

    Attributes:
      name: What was measured.
      value: The number.
      goal: The number that should not be exceeded.
      unit: The unit of both.
    """

    name: str
    value: float
    goal: float
    unit: str


class Installation:
    """A wheel in an empty environment with an empty home."""

    def __init__(self, python: str, wheel: Path, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.python = wheels.empty_environment(python, folder / "environment", wheel)
        self.folder = folder

    def megabytes_by_package(self) -> Counter[str]:
        """Return the size of every installed package, without pip and setuptools."""
        command = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(subprocess.run([self.python, "-c", command], capture_output=True, text=True).stdout.strip())
        sizes: Counter[str] = Counter()
        for path in packages.rglob("*"):
            name = path.relative_to(packages).parts[0]
            if path.is_file() and not path.is_symlink() and not name.startswith(SPACE_OF_TOOLS):
                sizes[name.removesuffix(".libs")] += path.stat().st_size / 1e6
        return sizes

    def first_seconds(self) -> float:
        """Return the processor time of the five lines in the first process of a user."""
        seconds = []
        for _ in range(REPEATS):
            shutil.rmtree(self.home)
            self.home.mkdir()
            seconds.append(self.processor_seconds(FIVE_LINES))
        return min(seconds)

    def processor_seconds(self, code: str) -> float:
        """Return the processor time of a Python that runs some code, children included."""
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([self.python, "-c", code], check=True, env=environment, cwd=self.home)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


def measure_installation(
    python: str, pure_wheel: Path, kernel_wheel: Path, scratch: Path
) -> tuple[list[Measurement], Counter[str]]:
    """Measure both wheels in environments of their own; also return the size of each installed package."""
    with_kernels = Installation(python, kernel_wheel, scratch / "with-kernels")
    sizes = with_kernels.megabytes_by_package()
    first = with_kernels.first_seconds()
    second = min(with_kernels.processor_seconds(FIVE_LINES) for _ in range(REPEATS))
    imports = {
        code: min(with_kernels.processor_seconds(code) for _ in range(REPEATS))
        for code in ("import rankloop", "from rankloop import Ranker")
    }
    without_kernels = Installation(python, pure_wheel, scratch / "without-kernels")
    compiled = without_kernels.first_seconds()
    rows = [
        Measurement("installed size of `pip install rankloop`", sum(sizes.values()), 330.0, "MB"),
        Measurement("five lines, first process, wheel with kernels", first, 2.0, "s"),
        Measurement("five lines, first process, kernels compiled", compiled, 8.0, "s"),
        Measurement("five lines, second process", second, 1.0, "s"),
        Measurement("`import rankloop`", imports["import rankloop"], 0.15, "s"),
        Measurement("`from rankloop import Ranker`", imports["from rankloop import Ranker"], 0.5, "s"),
    ]
    return rows, sizes


def measure_fresh_clone(scratch: Path) -> list[Measurement]:
    """Measure `make run` in a fresh clone with an empty home: processor time, and by the clock."""
    clone, home = scratch / "clone", scratch / "clone-home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["make", "run"], check=True, cwd=clone, env=environment, stdout=subprocess.DEVNULL)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = end.ru_utime + end.ru_stime - used.ru_utime - used.ru_stime
    return [
        Measurement("`make run` on a fresh clone, processor time", seconds, 90.0, "s"),
        Measurement(CLOCK_ROW, time.monotonic() - start, 90.0, "s"),
    ]


def table(measurements: list[Measurement]) -> str:
    """Return the measurements as a table."""
    width = max(len(row.name) for row in measurements)
    lines = [f"{'':{width}}  {'measured':>10}  {'goal':>10}"]
    for row in measurements:
        verdict = "" if row.value <= row.goal else "  missed"
        lines.append(f"{row.name:{width}}  {row.value:>7.2f} {row.unit:2}  {row.goal:>7.2f} {row.unit:2}{verdict}")
    return "\n".join(lines)


def page(kept: dict[str, Any]) -> str:
    """Return the page of the kept measurements: one column per Python, and the largest packages."""
    versions = sorted(kept, key=lambda version: int(version.split(".")[1]))
    rows: dict[str, dict[str, Any]] = {}
    for version in versions:
        for row in kept[version]["rows"]:
            rows.setdefault(row["name"], {"goal": f"{row['goal']:g} {row['unit']}"})[version] = f"{row['value']:.2f}"
    lines = [INTRODUCTION, f"| | goal | {' | '.join(versions)} |", f"|---|---|{'---|' * len(versions)}"]
    for name, cells in rows.items():
        lines.append(f"| {name} | ≤ {cells['goal']} | {' | '.join(cells.get(version, '–') for version in versions)} |")
    lines += ["", "| Python | machine | largest packages, in MB |", "|---|---|---|"]
    for version in versions:
        sizes = ", ".join(f"{name} {size:.0f}" for name, size in kept[version]["packages"].items())
        lines.append(f"| {version} | {kept[version]['machine']} | {sizes} |")
    return "\n".join(lines) + "\n"


def measure(python: str, pure_wheel: Path, with_clone: bool) -> None:
    """Measure with one Python, print the table and keep it."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    kernel_wheel = wheels.build_wheel(pure_wheel, python)
    with tempfile.TemporaryDirectory() as name:
        rows, sizes = measure_installation(python, pure_wheel, kernel_wheel, Path(name))
        if with_clone:
            rows += measure_fresh_clone(Path(name))
    print(f"Python {version}\n{table(rows)}")
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[version] = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[1]:.0f}",
        "packages": dict(sizes.most_common(N_LARGEST_PACKAGES)),
        "rows": [row._asdict() for row in rows],
    }
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(page(kept), encoding="utf-8")


def main() -> None:
    """Build, measure, print and keep the table for each Python."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="the Pythons to measure with")
    parser.add_argument("--without-clone", action="store_true", help="leave `make run` out")
    parser.add_argument("--page", action="store_true", help="only write the page from the kept numbers")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(page(json.loads(RESULTS.read_text())), encoding="utf-8")
        return
    pure_wheel = wheels.build_pure_files()
    for python in arguments.python:
        executable = shutil.which(python)
        if executable is None:
            print(f"{python} is not installed: not measured")
        else:
            measure(executable, pure_wheel, with_clone=not arguments.without_clone)


if __name__ == "__main__":
    main()
