"""Shared by all tests: fast ones first."""

import pytest
from hypothesis import settings

settings.register_profile("rankloop", deadline=None)  # the first call of a kernel loads or compiles it
settings.load_profile("rankloop")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
