"""How much memory there is, and whether data sets fit into it."""

import os
from pathlib import Path

from rankloop.core.errors import InvalidInput
from rankloop.data.parts.source import Source
from rankloop.data.readers.letor.queries import PACKED_SUFFIXES

COPIES = 6  # bytes for one of text while folds are trained: the queries, and what each fold in turn makes of them
BY_NAME = {"batch": 30, "online": 15}  # the same of a log in values by name, for both solvers
PACKED = 6  # times smaller than the text, as a rule
PACKED_TABLES = (".parquet", ".pq")
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_memory() -> int:
    """Bytes that can be taken without harm: what the system says, and at most what a container may use."""
    return min([_free_memory(), *(int(text) for text in map(_content, LIMITS) if text.isdigit())])


def fit_memory(sources: list[Source]) -> bool:
    """Whether training on these files in memory, with folds, should work; text takes about as much as its numbers."""
    needed = sum(source.size * (PACKED if source.name.endswith(PACKED_SUFFIXES) else 1) for source in sources)
    return COPIES * needed <= available_memory()


def check_memory(log: Path, solver: str) -> None:
    """Refuse a log in values by name, all of whose lists are held in memory, before it is read."""
    n_bytes = log.stat().st_size * (PACKED if log.name.endswith((*PACKED_SUFFIXES, *PACKED_TABLES)) else 1)
    copies, available = BY_NAME[solver], available_memory()
    if copies * n_bytes > available:
        other = f", --solver online ({BY_NAME['online']} for one)" if solver == "batch" else ""
        raise InvalidInput(
            f"{log.name} is too large to train on with a schema: its {n_bytes:,} bytes of text need about "
            f"{copies * n_bytes:,} bytes of memory ({copies} for one), and there are {available:,}. At most "
            f"{available // copies:,} fit here: take fewer lists{other}, a machine with more memory, or numbers "
            "instead of a schema, which are streamed from a folder of parts"
        )


def _free_memory() -> int:
    for line in _content("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _content(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
