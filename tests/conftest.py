"""Shared by all tests: fast ones first."""

import os
import signal

import pytest
from hypothesis import settings

# The client and the command line are tested on the stores too; two pages share one browser.
pytest_plugins = ["tests.service.stores", "tests.service.page.browser"]
settings.register_profile("rankloop", deadline=None)  # the first call of a kernel loads or compiles it
settings.load_profile("rankloop")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored, by our children too


def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: one more than there are cores, since many tests wait for processes and sockets."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow ones last, and of these the services that are cut off and killed before the many short pages."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if not item.get_closest_marker("slow")] + slow[::-1]
