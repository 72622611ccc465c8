"""Learners, one file per algorithm."""
