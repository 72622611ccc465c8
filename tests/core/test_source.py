"""Compiled kernels and kept results belong to the source that made them."""

import shutil
import subprocess
import sys
from pathlib import Path

from rankloop.core import files as source

TRY = """
import numpy as np
from rankloop.core.rankings import best_ranking
print(best_ranking(np.array([[1.0], [2.0], [3.0]]), np.array([1.0])).tolist())
"""


def test_make_computes_the_same_key():
    command = "find src -name '*.py' | LC_ALL=C sort | xargs cat | sha1sum | cut -c1-12"
    root = Path(source.__file__).parents[3]
    makefile = root / "Makefile"
    assert command.replace("$", "$$") in makefile.read_text() if makefile.exists() else True
    if makefile.exists():
        found = subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == source.source_key()


def test_a_kernel_in_another_file_never_goes_stale(tmp_path):
    package = tmp_path / "src" / "rankloop"
    shutil.copytree(source.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pyproject.toml").touch()
    kernels = package / "core" / "kernels.py"
    seen = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", TRY],
            env={"PYTHONPATH": str(tmp_path / "src"), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        seen.append(done.stdout.strip())
        kernels.write_text(kernels.read_text().replace("scores[i] = total\n", "scores[i] = -total\n"))
    assert seen == ["[2, 1, 0]", "[0, 1, 2]"]
    assert len(list((tmp_path / ".cache").glob("numba-*"))) == 2
