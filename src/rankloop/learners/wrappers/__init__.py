"""Learners around learners."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__)
