"""Kernels are the matrix products that they stand for, and compiled ones belong to the source that made them."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.core import files as source
from rankloop.core.errors import UnstableUpdate
from rankloop.core.kernels import scores_of, weighted_rows
from rankloop.core.learner import all_finite, require_finite

TRY = """
import numpy as np
from rankloop.core.learner import best_ranking
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


matrices = arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(0, 9)), elements=st.floats(-5, 5))


@given(matrices, st.data())
def test_scores_and_weighted_rows_are_the_matrix_products(features, data):
    weights = data.draw(arrays(np.float64, features.shape[1], elements=st.floats(-5, 5)))
    rows = data.draw(arrays(np.float64, features.shape[0], elements=st.floats(-5, 5)))
    np.testing.assert_allclose(scores_of(features, weights), features @ weights, atol=1e-9)
    np.testing.assert_allclose(weighted_rows(features, rows), rows @ features, atol=1e-9)


@pytest.mark.parametrize("n_features", [1, 7, 46, 136, 700])
def test_equal_rows_get_equal_scores_wherever_they_stand(n_features):
    rng = np.random.default_rng(0)
    row, weights = rng.standard_normal(n_features), rng.standard_normal(n_features)
    for n_items in range(1, 40):
        assert len(set(scores_of(np.tile(row, (n_items, 1)), weights))) == 1


def test_a_step_with_a_non_finite_number_is_refused():
    assert all_finite(np.array([[1.0, 2.0]]))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(UnstableUpdate):
            require_finite(np.array([1.0, bad]))
