"""Tests stand where what they test does: `tests/service/http/test_openapi.py` for `service/http/openapi.py`."""
