"""Functions of scores and relevance that learners minimise, one per file."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__)
