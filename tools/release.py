"""What a release needs: build the wheels, check what is in them, and try every extra in an empty environment.

    python tools/release.py                       builds into dist/ for the running Python and checks the files
    python tools/release.py --try python3.12 …    builds for these Pythons and tries each extra alone and all together
    python tools/release.py --try python3.12 --extras serve search

Needs `pip install build wheel twine`. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools import wheel as wheels

ROOT = Path(__file__).parents[1]
MAX_SOURCE_FILE_BYTES = 2_000_000
FOR_DEVELOPERS = {"test", "bench", "docs"}  # extras that a user does not install
COMPILED = {
    "search-embedding"
}  # without a wheel for Python 3.14, where "all" leaves it out and pip needs a C++ compiler
FIRST_PAGES = """
from rankloop import Ranker
from rankloop.core.compilation import progress
for kind in ("click_regression", "3pr"):
    ranker = Ranker(kind, features={"price": "number", "brand": "category", "title": "words"})
    products = {"a": {"price": 1999, "brand": "Acme", "title": "Red shoes"}, "b": {"price": 700, "title": "Wool socks"}}
    shown = ranker.rank(products)
    ranker.learn(shown, clicks=["b"])
    ranker.save("shop.rankloop")
    assert Ranker.load("shop.rankloop").predict(products) == ranker.predict(products)
assert set(progress.origins) == {"wheel"}, f"kernels came from {progress.origins}"
"""
KERNELS = """
import os, subprocess, sys
from pathlib import Path
folder = Path("kernels").absolute()
warm_up = [sys.executable, "-m", "rankloop.warm_up"]
subprocess.run(warm_up, env=os.environ | {"NUMBA_CACHE_DIR": str(folder)}, check=True)
compiled = [path.name for path in folder.rglob("*.nbc")]
assert not compiled, f"the wheel lacks {compiled}"
"""
LOGS = """
import rankloop
from pathlib import Path
rows = [f"{page},shoes,{item},{position + 1},{int(item == 'b')}" for page in range(40)
        for position, item in enumerate("abc" if page % 2 else "bca")]
Path("log.csv").write_text("\\n".join(["page,query,item,position,clicked", *rows]))
log = rankloop.read_log("log.csv")
assert log.n_pages == 40
"""
PLOTS = """
import numpy as np
from rankloop.training.report import draw_curves
draw_curves("curve.png", (np.array([0.1, 1.0]), np.array([[0.3, 0.4]])), 1.0, xlabel="regularisation", ylabel="nDCG@10")
"""
BATCH = """
import numpy as np
from rankloop.training import RankBundle
rng = np.random.default_rng(0)
features = rng.random((60, 3))
model = RankBundle(loss="ordinal", regularisation=1e-3).fit(features, features[:, 0] > 0.5, qid=np.repeat(range(10), 6))
assert len(model.predict(features)) == 60
"""
GAMES = """
from rankloop.games import analyse
assert analyse(measure="nDCG", n_items=4, depth=2, max_grade=1).verdict
"""
DATA = """
import pooch, sklearn
from rankloop.data import read_letor
from pathlib import Path
Path("letor.txt").write_text("1 qid:1 1:0.5\\n0 qid:1 1:0.1\\n")
assert read_letor("letor.txt").n_queries == 1
"""
LETOR = """
from pathlib import Path
import numpy as np
rng = np.random.default_rng(0)
rows = [f"{int(x > 0.5)} qid:{q} 1:{x:.3f} 2:{rng.random():.3f}" for q in range(40) for x in rng.random(6)]
Path("letor.txt").write_text("\\n".join(rows))
"""
SERVE = """
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
SEARCH = """
from pathlib import Path
from rankloop.search import SearchBox
notes = Path("notes")
notes.mkdir()
(notes / "boats.md").write_text("# Boats\\n\\nA boat to sail, a boat to row, a boat to paint.")
(notes / "knots.md").write_text("# Knots\\n\\nThe bowline holds a boat to the pier.")
(notes / "tides.txt").write_text("High water is an hour later each day.")
with SearchBox(notes, data="learned") as box:
    shown = box.search("boat", visitor="ann")
    assert "boats.md" in shown.ids
    box.learn(shown, clicks=["knots.md"])
    assert "boats.md" in box.search("baot", visitor="ann").ids
"""
ENGINE = """
from rankloop.search.engines.adapter import EngineSettings
from rankloop.search.engines.server_engine import EngineUnavailable, ServerEngine
try:
    ServerEngine.connect("{name}=http://127.0.0.1:9/articles", EngineSettings("", ""))
except EngineUnavailable as error:
    print(error)
else:
    raise AssertionError("nothing listens there")
"""
# What each extra is for, as Python code or as arguments of Python. Every page that names an extra promises this much.
STEPS: dict[str, list[list[str]]] = {
    "": [
        ["-c", FIRST_PAGES],
        ["-c", KERNELS],
        ["-m", "rankloop", "--help"],
        ["-m", "rankloop", "list", "learners"],
        ["-m", "rankloop", "version", "--verbose"],
    ],
    "logs": [["-c", LOGS]],
    "plots": [["-c", PLOTS]],
    "batch": [["-c", BATCH]],
    "games": [["-c", GAMES]],
    "data": [["-c", DATA]],
    "trees": [["-c", LETOR], ["-m", "rankloop", "train", "letor.txt", "--trees", "lightgbm"]],
    "onnx": [["-c", FIRST_PAGES], ["-c", "import onnx"]],
    "cluster": [["-c", LETOR], ["-m", "rankloop", "train", "letor.txt", "--engine", "cluster"]],
    "serve": [["-c", SERVE]],
    "search": [["-c", SEARCH]],
    "search-embedding": [["-c", "import wordllama"]],
    "search-formats": [["-c", "import pypdf, docx, pptx, openpyxl, odf"]],
    "search-agents": [["-c", "from mcp.server import MCPServer"]],
    "search-watch": [["-c", "import watchfiles"]],
    "search-opensearch": [["-c", ENGINE.format(name="opensearch")]],
    "search-elasticsearch": [["-c", ENGINE.format(name="elasticsearch")]],
    "search-solr": [["-c", ENGINE.format(name="solr")]],
    "search-meilisearch": [["-c", ENGINE.format(name="meilisearch")]],
    "search-typesense": [["-c", ENGINE.format(name="typesense")]],
}


def build_files(pythons: list[str]) -> tuple[list[Path], Path]:
    """Build a wheel with kernels for each Python, and the source distribution; return all."""
    pure_wheel = wheels.build_pure_files()
    built = [wheels.build_wheel(pure_wheel, python) for python in pythons]
    pure_wheel.unlink()
    source = next(wheels.DIST.glob("*.tar.gz"))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, (*built, source))], check=True)
    return built, source


def check_contents(wheel: Path, source: Path) -> None:
    """Exit if a file holds more than the package: tests, data or results of runs."""
    names = zipfile.ZipFile(wheel).namelist()
    version = wheel.name.split("-")[1]
    strange = [name for name in names if not name.startswith(("rankloop/", f"rankloop-{version}.dist-info/"))]
    strange += [name for name in names if "test" in name.split("/")[-1].split("_")]
    with tarfile.open(source) as archive:
        strange += [member.name for member in archive if member.size > MAX_SOURCE_FILE_BYTES]
    if strange:
        sys.exit(f"files that do not belong into a release: {strange[:5]}")
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB; {source.name}")


def extras_of_users() -> list[str]:
    """Return the extras of pyproject.toml that users install, each of which has steps."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [extra for extra in project["optional-dependencies"] if extra not in FOR_DEVELOPERS]


def steps_of(extra: str, tag: str) -> list[list[str]]:
    """Return the steps of an extra for a wheel with this tag of Python."""
    left_out = COMPILED if tag == "cp314" else set()
    return STEPS[extra] if extra != "all" else [step for name in STEPS.keys() - left_out for step in STEPS[name]]


def try_out(python: str, wheel: Path, extra: str) -> None:
    """Install a wheel with one extra into an empty environment, and run the steps of that extra.

    Args:
      python: The Python to install with.
      wheel: The wheel.
      extra: The extra; "all" runs the steps of every extra, "" those of the plain package.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        requirement = f"{wheel}[{extra}]" if extra else str(wheel)
        installed = wheels.empty_environment(python, folder / "environment", requirement)
        for step in steps_of(extra, wheel.name.split("-")[2]):
            with tempfile.TemporaryDirectory() as home:
                (folder / "work").mkdir(exist_ok=True)
                steps_environment = environment | {"HOME": home}
                done = subprocess.run(
                    [installed, *step], cwd=folder / "work", capture_output=True, text=True, env=steps_environment
                )
            if done.returncode:
                sys.exit(f"{python}: rankloop[{extra}] fails in {step}\n{done.stdout}{done.stderr}")
    print(f"{python}: rankloop[{extra}] runs", flush=True)


def main() -> None:
    """Build the release and try it out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--try", nargs="*", default=[], dest="pythons", metavar="PYTHON")
    parser.add_argument("--extras", nargs="*", metavar="EXTRA", help="all of pyproject.toml unless given")
    options = parser.parse_args()
    built, source = build_files(options.pythons or [sys.executable])
    for wheel in built:
        check_contents(wheel, source)
    extras = ["", *extras_of_users()] if options.extras is None else options.extras
    for python, wheel in zip(options.pythons, built):
        for extra in extras:
            try_out(python, wheel, extra)


if __name__ == "__main__":
    main()
