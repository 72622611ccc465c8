"""Experiments as data: TOML tables that are run, saved, compared, drawn and reported."""
