"""Shared by the tests of data sets."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test touches the user's cache folder."""
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path_factory.mktemp("cache")))
