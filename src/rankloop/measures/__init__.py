"""Measures: judge a ranking against the relevance. Names parse back: `parse_measure("nDCG@10")`."""

from rankloop.measures.base import mean_of, parse_measure

__all__ = ["mean_of", "parse_measure"]
