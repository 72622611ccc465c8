"""What an experiment is: the TOML table as types, its checks and its error messages."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__, "model")
