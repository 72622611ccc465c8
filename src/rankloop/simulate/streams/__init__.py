"""Streams of queries: simulated ones, and those over data sets."""
