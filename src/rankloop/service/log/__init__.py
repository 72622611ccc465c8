"""The log: group-commit writer."""
