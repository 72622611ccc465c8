"""What the theory promises each learner, as functions that compute the numbers."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__)
