"""Features as people have them: fields of several kinds, hashed into columns that a learner can keep millions of."""

from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema

__all__ = ["Encoder", "Schema"]
