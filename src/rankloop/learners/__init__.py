"""Learners, one file per algorithm."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__)
