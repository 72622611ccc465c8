"""Public data sets that only the studies read."""
