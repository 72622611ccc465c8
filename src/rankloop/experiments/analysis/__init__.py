"""Curves, tests of significance and verdicts on claims."""
