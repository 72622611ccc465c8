"""What a release needs: build, check and try the wheel in empty environments.

    python tools/release.py                       builds into dist/ and checks what is in the files
    python tools/release.py --try python3.12 …    also installs the wheel with each Python and extra

Needs `pip install build twine uv`. Nothing is uploaded.
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
SERVE_STEPS = """
import subprocess, sys
from rankloop.client import Client
serving = [sys.executable, "-m", "rankloop", "serve", "--port", "0", "--data", "shop-data"]
with subprocess.Popen(serving, stderr=subprocess.PIPE, text=True) as server:
    try:
        address = next(word for line in server.stderr for word in line.split() if word.startswith("http://"))
        with Client(address.rstrip("/.,"), patience=120.0) as client:
            client.create("shop", learner="3pr", problem={"feature_names": ["price", "rating"]})
            shown = client.rank("shop", {"a": {"price": 0.3}, "b": {"rating": 4.5}})
            client.feedback("shop", shown, clicks=["b"], final=True)
            assert set(shown.ranking) == {"a", "b"}
    finally:
        server.terminate()
"""
SEARCH_STEPS = """
from pathlib import Path
from rankloop.search import SearchBox
notes = Path("notes")
notes.mkdir()
(notes / "boats.md").write_text("# Boats\\n\\nA boat to sail, a boat to row, a boat to paint.")
(notes / "knots.md").write_text("# Knots\\n\\nThe bowline holds a boat to the pier.")
(notes / "tides.txt").write_text("High water is an hour later each day.")
with SearchBox(notes, data="learned") as box:
    shown = box.search("boat", visitor="ann")
    for _ in range(4):
        box.learn(shown, clicks=["knots.md"])
        shown = box.search("boat", visitor="ann")
    assert list(box.predict("boat").ids) == ["knots.md", "boats.md"]
"""
CLUSTER_STEPS = """
from pathlib import Path
import numpy as np
rng = np.random.default_rng(0)
rows = [f"{int(x > 0.5)} qid:{q} 1:{x:.3f} 2:{rng.random():.3f}" for q in range(40) for x in rng.random(6)]
Path("letor.txt").write_text("\\n".join(rows))
"""
STEPS_BY_EXTRA = {
    "": [["-c", FIVE_LINES], ["-m", "rankloop", "list", "learners"], ["-m", "rankloop", "demo", "--rounds", "100"]],
    "[serve]": [["-c", SERVE_STEPS]],
    "[search]": [["-c", SEARCH_STEPS]],
    "[cluster]": [["-c", CLUSTER_STEPS], ["-m", "rankloop", "train", "letor.txt", "--engine", "cluster"]],
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
    """Return the version of a wheel."""
    return wheel.name.split("-")[1]


def try_out(python: str, wheel: Path) -> None:
    """Install into an empty environment for each extra, and run the documented first steps."""
    uv = [sys.executable, "-m", "uv"]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    for extras in EXTRAS:
        with tempfile.TemporaryDirectory() as folder:
            installed = str(Path(folder) / "environment" / "bin" / "python")
            subprocess.run([*uv, "venv", "--quiet", "--python", python, str(Path(installed).parents[1])], check=True)
            subprocess.run([*uv, "pip", "install", "--quiet", "--python", installed, f"{wheel}{extras}"], check=True)
            parts = [f"[{part}]" for part in extras.strip("[]").split(",") if part] or [""]
            for step in [step for part in parts for step in STEPS_BY_EXTRA[part]]:
                done = subprocess.run([installed, *step], cwd=folder, capture_output=True, text=True, env=environment)
                if done.returncode:
                    sys.exit(f"{python}: rankloop{extras} fails in {step}\n{done.stdout}{done.stderr}")
            version = subprocess.run(
                [installed, "--version"], check=True, capture_output=True, text=True
            ).stdout.strip()
        print(f"{version}: rankloop{extras} runs", flush=True)


def main() -> None:
    """Build the release and try it out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--try", nargs="*", default=[], dest="pythons", metavar="PYTHON")
    options = parser.parse_args()
    wheel, source = built()
    check_contents(wheel, source)
    for python in options.pythons:
        try_out(python, wheel)


if __name__ == "__main__":
    main()
