"""Labelled sets of vectors."""

import gzip

import numpy as np
import pytest
from sklearn.datasets import load_digits

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data import data_folder
from rankloop.data.folder import absence_notice
from research.datasets.labelled import read_csv, read_labelled

REAL = {
    "letter": (20_000, 16, 26, 734),
    "optdigits": (5620, 64, 10, 554),
    "pendigits": (10_992, 16, 10, 1055),
    "isolet": (7797, 617, 26, 298),
    "movement_libras": (360, 90, 15, 24),
}


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the folder of UCI sets"))
@pytest.mark.parametrize("name", REAL)
def test_real_sets(name):
    n_rows, n_features, n_classes, rarest = REAL[name]
    data = read_labelled(name)
    assert data.features.shape == (n_rows, n_features)
    assert len(data.class_names) == n_classes
    assert np.bincount(data.labels, minlength=n_classes).min() == rarest


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the folder of UCI sets"))
def test_optdigits_ends_with_the_digits_of_scikit_learn():
    data, digits = read_labelled("optdigits"), load_digits()
    np.testing.assert_array_equal(data.features[-1797:], digits.data)
    np.testing.assert_array_equal(data.labels[-1797:], digits.target)


def test_labels_are_numbered_in_their_order(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,2,10\n3, 4,9\n\n5,6,10\n"))
    data = read_csv([tmp_path / "a.csv.gz"])
    assert data.class_names == ("9", "10")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.features.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("content", [b"1,2\n1,2,3\n", b"x,1\n", b"nan,1\n"])
def test_broken_files(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"a\.csv"):
        read_csv([tmp_path / "a.csv"])


def test_damaged_archives(tmp_path):
    (tmp_path / "letter.csv.gz").write_bytes(gzip.compress(b"A,1,2\nB,3,4\n")[:-9])
    with pytest.raises(InvalidInput, match=r"letter\.csv\.gz is cut short or damaged"):
        read_labelled("letter", tmp_path)
    np.savez(tmp_path / "isolet.npz", y=np.arange(3))
    whole = (tmp_path / "isolet.npz").read_bytes()
    for content in (whole, whole[:-9], b"no archive"):
        (tmp_path / "isolet.npz").write_bytes(content)
        with pytest.raises(InvalidInput, match=r"isolet\.npz is cut short or damaged"):
            read_labelled("isolet", tmp_path)


def test_unknown_names_and_missing_files(tmp_path):
    with pytest.raises(InvalidInput, match="did you mean 'letter'"):
        read_labelled("leter")
    with pytest.raises(NotFound):
        read_labelled("letter", tmp_path)
