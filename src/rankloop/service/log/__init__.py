"""The log: group-commit writer and archive of events."""
