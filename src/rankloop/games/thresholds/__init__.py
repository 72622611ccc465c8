"""From which depth of feedback on a measure can be learned, and from which fast."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__, "base")
