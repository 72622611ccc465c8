"""Features from raw values: fields of several kinds, hashed into columns of a large weight table."""

from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema

__all__ = ["Encoder", "Schema"]
