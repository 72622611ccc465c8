"""Measure the first minutes with rankloop: installed size, first ranking, imports, and `make run` on a fresh clone.

    python tools/first_contact.py                        builds the wheel, measures, prints and keeps the table
    python tools/first_contact.py --python python3.12    with another Python

Every measurement starts with an empty environment and an empty home. The table is written to
docs/results/first-contact.json. Needs `pip install build wheel`.
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
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools import wheel as wheels

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "first-contact.json"
IMPORT_REPEATS = 5
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

    def megabytes(self) -> float:
        """Return the size of all installed packages, without pip and setuptools."""
        command = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(subprocess.run([self.python, "-c", command], capture_output=True, text=True).stdout.strip())
        tools = ("pip", "setuptools", "_distutils_hack", "pkg_resources", "wheel")
        files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
        return (
            sum(path.stat().st_size for path in files if not path.relative_to(packages).parts[0].startswith(tools))
            / 1e6
        )

    def processor_seconds(self, code: str) -> float:
        """Return the processor time of a Python that runs some code, children included."""
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([self.python, "-c", code], check=True, env=environment, cwd=self.home)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


def measure_installation(python: str, pure_wheel: Path, kernel_wheel: Path, scratch: Path) -> list[Measurement]:
    """Measure both wheels in environments of their own."""
    with_kernels = Installation(python, kernel_wheel, scratch / "with-kernels")
    size = with_kernels.megabytes()
    first = with_kernels.processor_seconds(FIVE_LINES)
    second = with_kernels.processor_seconds(FIVE_LINES)
    imports = {
        code: min(with_kernels.processor_seconds(code) for _ in range(IMPORT_REPEATS))
        for code in ("import rankloop", "from rankloop import Ranker")
    }
    without_kernels = Installation(python, pure_wheel, scratch / "without-kernels")
    compiled = without_kernels.processor_seconds(FIVE_LINES)
    return [
        Measurement("installed size of `pip install rankloop`", size, 330.0, "MB"),
        Measurement("five lines, first process, wheel with kernels", first, 2.0, "s"),
        Measurement("five lines, first process, kernels compiled", compiled, 8.0, "s"),
        Measurement("five lines, second process", second, 1.0, "s"),
        Measurement("`import rankloop`", imports["import rankloop"], 0.15, "s"),
        Measurement("`from rankloop import Ranker`", imports["from rankloop import Ranker"], 0.5, "s"),
    ]


def measure_fresh_clone(scratch: Path) -> Measurement:
    """Measure `make run` in a fresh clone with an empty home, by the clock."""
    clone, home = scratch / "clone", scratch / "clone-home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    start = time.monotonic()
    subprocess.run(["make", "run"], check=True, cwd=clone, env=environment, stdout=subprocess.DEVNULL)
    return Measurement("`make run` on a fresh clone, by the clock", time.monotonic() - start, 90.0, "s")


def table(measurements: list[Measurement]) -> str:
    """Return the measurements as a table."""
    width = max(len(row.name) for row in measurements)
    lines = [f"{'':{width}}  {'measured':>10}  {'goal':>10}"]
    for row in measurements:
        verdict = "" if row.value <= row.goal else "  missed"
        lines.append(f"{row.name:{width}}  {row.value:>7.2f} {row.unit:2}  {row.goal:>7.2f} {row.unit:2}{verdict}")
    return "\n".join(lines)


def main() -> None:
    """Build, measure, print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python to measure with")
    parser.add_argument("--without-clone", action="store_true", help="leave `make run` out")
    arguments = parser.parse_args()
    python = shutil.which(arguments.python)
    if python is None:
        parser.error(f"{arguments.python} is not installed")
    version = subprocess.run(
        [python, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True
    )
    pure_wheel = wheels.build_pure_files()
    kernel_wheel = wheels.build_wheel(pure_wheel, python)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        measurements = measure_installation(python, pure_wheel, kernel_wheel, scratch)
        if not arguments.without_clone:
            measurements.append(measure_fresh_clone(scratch))
    print(table(measurements))
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[".".join(version.stdout.strip().split(".")[:2])] = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "rows": [row._asdict() for row in measurements],
    }
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
