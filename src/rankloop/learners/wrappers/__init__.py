"""Learners around learners."""
