"""Shared by the tests of the service."""

import pytest


@pytest.fixture(autouse=True)
def _connections(broken_connections_end_here: None) -> None:
    """Every test of the service closes what it broke."""
