"""Stores of the log: one interface, an adapter for each database."""
