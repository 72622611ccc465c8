"""Chaudhuri (2016), "Learning to rank": queries with features, and generalisation."""
