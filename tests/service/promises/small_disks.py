"""Disks that fill up: a few megabytes of memory, mounted as a disk of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BALLAST = "ballast"


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A disk of this size; where mounting is not permitted the test is skipped and says so."""
    folder = Path(tempfile.mkdtemp(prefix="rankloop-disk-"))
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True) if shutil.which("mount") else None
        if done is None or done.returncode:
            pytest.skip("a small disk cannot be mounted here; the limit of pages in test_stores.py stands in for it")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    finally:
        folder.rmdir()


def fill(disk: Path, leave: int) -> None:
    """Take all but so many bytes."""
    with open(disk / BALLAST, "wb") as file:
        free = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - leave)


def make_room(disk: Path) -> None:
    (disk / BALLAST).unlink()
