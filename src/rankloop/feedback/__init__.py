"""Simulated users: graders and click models, one per file."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__)
