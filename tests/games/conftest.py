"""Fixtures of the tests of games."""

import pytest

from tests.games.cases import registering

invented = pytest.fixture(registering, name="invented")
