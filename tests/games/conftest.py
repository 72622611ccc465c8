import pytest
from game_cases import registering

invented = pytest.fixture(registering, name="invented")
