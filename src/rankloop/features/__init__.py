"""Features as people have them: fields of several kinds, hashed into columns that a learner can keep millions of."""

from rankloop.features.encoder import Encoder as Encoder
from rankloop.features.schema import Schema as Schema
