"""An experiment is data: a table that says what is played; here it is run, kept, compared, drawn and reported."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__)
