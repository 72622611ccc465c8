"""The specification of an experiment: its types, checks and error messages."""
