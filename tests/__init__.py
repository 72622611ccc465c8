"""Tests stand where what they test does: `tests/service/http/test_endpoints.py` for `service/http/endpoints.py`."""
