"""What a release needs: build, check and try the wheel in empty environments.

    python tools/release.py                       builds into dist/ and checks what is in the files
    python tools/release.py --try python3.12 …    also installs the wheel with each Python and extra

Needs `pip install build twine`. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("", "[serve]", "[search]", "[cluster]", "[serve,search,cluster]")
FIVE_LINES = """
from rankloop import Ranker
ranker = Ranker("click_regression", features={"price": "number", "brand": "category", "title": "words"})
products = {"a": {"price": 1999, "brand": "Acme", "title": "Red shoes"}, "b": {"price": 700, "title": "Wool socks"}}
shown = ranker.rank(products)
ranker.learn(shown, clicks=["b"])
ranker.save("shop.rankloop")
assert Ranker.load("shop.rankloop").rank(products).ids
"""
STEPS = {
    "": [["-c", FIVE_LINES], ["-m", "rankloop", "list", "learners"], ["-m", "rankloop", "demo", "--rounds", "100"]],
    "[serve]": [["-c", "import rankloop.client, rankloop.service.http.server"], ["-m", "rankloop", "serve", "--help"]],
    "[search]": [["-c", "import rankloop.search, tantivy"], ["-m", "rankloop", "search", "--help"]],
    "[cluster]": [["-c", "import ray, rankloop.engine"], ["-m", "rankloop", "run", "--help"]],
}


def built() -> tuple[Path, Path]:
    """A wheel and a source distribution, newly made."""
    dist = ROOT / "dist"
    for old in dist.glob("rankloop-*"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)], check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.glob("rankloop-*"))], check=True)
    return next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))


def check_contents(wheel: Path, source: Path) -> None:
    """The package and nothing else in the wheel; no data, no results of runs in either."""
    names = zipfile.ZipFile(wheel).namelist()
    strange = [name for name in names if not name.startswith(("rankloop/", f"rankloop-{version_of(wheel)}.dist-info/"))]
    assert not strange, f"the wheel holds {strange[:5]}"
    assert not [name for name in names if "test" in name.split("/")[-1].split("_")], "tests are in the wheel"
    with tarfile.open(source) as archive:
        large = [member.name for member in archive if member.size > 2_000_000]
    assert not large, f"the source distribution holds {large}"
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB; {source.name}")


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def try_out(python: str, wheel: Path) -> None:
    """Install into an empty environment for each extra, and run the documented first steps."""
    for extras in EXTRAS:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([python, "-m", "venv", folder], check=True)
            own = str(Path(folder) / "bin" / "python")
            subprocess.run([own, "-m", "pip", "install", "--quiet", f"{wheel}{extras}"], check=True)
            parts = ["", *(f"[{part}]" for part in extras.strip("[]").split(",") if part)]
            for step in [step for part in parts for step in STEPS[part]]:
                environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
                subprocess.run([own, *step], check=True, cwd=folder, capture_output=True, env=environment)
        print(f"{python}: rankloop{extras} runs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--try", nargs="*", default=[], dest="pythons", metavar="PYTHON")
    options = parser.parse_args()
    wheel, source = built()
    check_contents(wheel, source)
    for python in options.pythons:
        try_out(python, wheel)


if __name__ == "__main__":
    main()
