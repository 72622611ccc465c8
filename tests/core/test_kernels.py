"""Kernels are the matrix products that they stand for, and compiled ones belong to the source that made them."""

import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.core import compilation
from rankloop.core import files as source
from rankloop.core.errors import UnstableUpdate
from rankloop.core.kernels import (
    all_finite,
    discount,
    discounts,
    exponential_gain,
    is_permutation,
    kernel,
    positions_of,
    ranking_of,
    scores_of,
    sorted_order,
    weighted_rows,
)
from rankloop.core.learner import require_finite

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
    shutil.copytree(source.PACKAGE_FOLDER, package)
    (tmp_path / "pyproject.toml").touch()
    kernels = package / "core" / "kernels.py"
    seen = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", TRY],
            env={"PYTHONPATH": str(tmp_path / "src"), "HOME": str(tmp_path)},
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


# few distinct values, so that ties are common; lengths on both sides of the switch between the two sorts
scores = arrays(
    np.float64, st.integers(1, 60) | st.integers(395, 405), elements=st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0])
)


@given(scores)
def test_best_first_and_ties_by_item_number(scores):
    expected = sorted(range(len(scores)), key=lambda item: (-scores[item], item))
    assert ranking_of(scores).tolist() == expected


@given(scores)
def test_positions_invert_a_ranking(scores):
    ranking = ranking_of(scores)
    assert positions_of(ranking)[ranking].tolist() == list(range(len(scores)))
    assert is_permutation(ranking, len(scores))


def test_scores_that_are_not_numbers_still_give_a_permutation():
    for n_items in (5, 80, 500):
        scores = np.where(np.arange(n_items) % 2 == 0, np.nan, 1.0)
        assert is_permutation(ranking_of(scores), n_items)


@pytest.mark.parametrize("ranking", [[0, 0], [0, 2], [-1, 0], [0], [0, 1, 2]])
def test_what_is_no_permutation_of_two(ranking):
    assert not is_permutation(np.array(ranking, dtype=np.int64), 2)


def test_gains_and_discounts():
    assert discount(0) == 1.0
    assert discount(2) == 0.5
    assert exponential_gain(3.0) == 7.0
    assert discounts(4, cutoff=3).tolist() == [1.0, 1 / np.log2(3), 0.5, 0.0]


@pytest.mark.parametrize("n_keys", [0, 1, 2, 15, 16, 17, 33, 100, 1000])
def test_keys_are_sorted_as_by_numpy(n_keys):
    rng = np.random.default_rng(n_keys)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    keys = np.where(rng.random(n_keys) < 0.3, rng.choice(special, n_keys), np.round(rng.normal(size=n_keys), 1))
    np.testing.assert_array_equal(sorted_order(keys), np.argsort(keys, kind="stable"))


def test_compressed_code_of_the_package_is_used(tmp_path, monkeypatch):
    def doubled(x):
        return 2.0 * x

    monkeypatch.setattr(compilation, "PACKAGED_KERNELS", tmp_path)
    assert kernel(doubled)(1.5) == 3.0  # compiled, or from the cache folder
    locator = kernel(doubled)._cache._impl.locator
    (tmp_path / locator.subfolder).mkdir()
    for path in Path(locator.get_cache_path()).glob("*doubled*"):
        content = path.read_bytes()
        packed = zlib.compress(content) if path.suffix == ".nbc" else content
        (tmp_path / locator.subfolder / path.name).write_bytes(packed)
    n_packaged = compilation.progress.origins["wheel"]
    assert kernel(doubled)(1.5) == 3.0
    assert compilation.progress.origins["wheel"] == n_packaged + 1


def test_machine_code_that_another_process_saved_under_the_same_name_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compilation.kernel_folder.cache_clear()
    try:
        saved, fresh = compilation.kernel(twice), compilation.kernel(twice)
        assert (saved(2), saved(0.5)) == (4, 1.0)
        whole, fraction = sorted(tmp_path.rglob("*.nbc"))
        fraction.write_bytes(whole.read_bytes())
        assert (fresh(2), fresh(0.5)) == (4, 1.0)
    finally:
        compilation.kernel_folder.cache_clear()


def test_the_processor_stays_when_settings_of_numba_change(tmp_path, monkeypatch):
    before = compilation.processor()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compilation.kernel_folder.cache_clear()
    try:
        assert compilation.kernel(twice)(2) == 4  # compiling makes numba read its settings again
        assert compilation.processor() == before
    finally:
        monkeypatch.undo()
        compilation.kernel_folder.cache_clear()
    assert compilation.kernel(abs_difference)(2, 5) == 3  # settings are read once more
    assert compilation.processor() == before


def test_a_kernel_without_a_source_file_is_compiled_but_not_kept():
    assert compilation.kernel(eval("lambda number: number + 1"))(1) == 2  # noqa: S307


def abs_difference(number, other):
    return abs(number - other)


def twice(number):
    return number + number


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what is in memory")
def test_the_compiler_works_after_its_memory_was_released(tmp_path):
    def mapped():
        maps = Path("/proc/self/smaps").read_text().split("VmFlags")
        code = [each for each in maps if "llvmlite" in each and " r-xp " in each]
        return sum(int(re.search(r"Rss: +(\d+) kB", each)[1]) for each in code)

    assert compilation.kernel(abs_difference)(2, 5) == 3
    before = mapped()
    compilation.release_compiler_memory()
    assert mapped() < before / 10
    assert numba.njit(lambda a: a + 1)(2) == 3
