"""Where data sets are looked for."""

import pytest

from rankloop.core.errors import NotFound
from rankloop.data import data_folder
from rankloop.data.folder import absence_notice, data_path, given_path


def test_the_variable_decides(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path / "absent"))
    assert data_folder() is None


def test_else_the_folder_beside_the_repository(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKLOOP_DATA", raising=False)
    inside = tmp_path / "repository" / "tests"
    inside.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    monkeypatch.chdir(inside)
    assert data_folder() is None
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert data_folder() == tmp_path / "shared" / "data"


def test_paths_are_looked_for_here_and_there(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    (tmp_path / "set.txt").write_text("")
    assert data_path("set.txt") == tmp_path / "set.txt"
    assert data_path(str(tmp_path / "set.txt")) == tmp_path / "set.txt"
    with pytest.raises(NotFound, match=r"'other\.txt' is not on this machine .* set RANKLOOP_DATA"):
        data_path("other.txt")
    absent = str(tmp_path / "other")
    with pytest.raises(NotFound, match=r"^there is no file or folder '.*other'$"):
        data_path(absent)


def test_a_missing_file_is_called_so(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    (tmp_path / "set.txt").write_text("")
    assert given_path("set.txt") == tmp_path / "set.txt"
    with pytest.raises(NotFound, match=r"^there is no file 'other\.txt'$"):
        given_path("other.txt")
    with pytest.raises(NotFound, match=r"'MQ2007' is not on this machine .* set RANKLOOP_DATA"):
        given_path("MQ2007")


def test_the_notice(monkeypatch):
    monkeypatch.delenv("RANKLOOP_DATA", raising=False)
    assert absence_notice("MQ2007") == (
        "MQ2007 is not on this machine (RANKLOOP_DATA is not set); set RANKLOOP_DATA to the folder that holds it"
    )
