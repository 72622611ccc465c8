"""Tests stand where what they test does: `tests/service/http/test_codec.py` for `service/http/codec.py`."""
