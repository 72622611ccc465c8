"""Files are either whole or not there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rankloop.core.files import atomic_write


def test_it_writes_text_and_bytes_and_makes_the_folder(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a" / "b.txt", "ü")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "ü".encode()
    atomic_write(tmp_path / "a" / "b.txt", b"new")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"new"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic_write(tmp_path / "f", "old")

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        atomic_write(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_permissions_are_those_of_a_plain_file_and_are_kept(tmp_path: Path) -> None:
    atomic_write(tmp_path / "f", "1")
    (tmp_path / "plain").touch()
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "f").chmod(0o600)
    atomic_write(tmp_path / "f", "2")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_through_a_link_the_file_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    atomic_write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
