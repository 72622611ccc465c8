"""How much memory there is, and whether data sets fit into it."""

import os
from pathlib import Path

from rankloop.data.parts.source import Source
from rankloop.data.readers.letor.queries import PACKED_SUFFIXES

COPIES = (
    6  # of the data while folds are trained in memory: the queries, and what one fold after the other makes of them
)
PACKED = 6  # times smaller than the text, as a rule
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_memory() -> int:
    """Bytes that can be taken without harm: what the system says, and at most what a container may use."""
    return min([_free_memory(), *(int(text) for text in map(_content, LIMITS) if text.isdigit())])


def fit_memory(sources: list[Source]) -> bool:
    """Whether training on these files in memory, with folds, should work; text takes about as much as its numbers."""
    needed = sum(source.size * (PACKED if source.name.endswith(PACKED_SUFFIXES) else 1) for source in sources)
    return COPIES * needed <= available_memory()


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
