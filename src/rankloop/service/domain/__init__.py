"""The domain: impressions, counts, training, comparisons and configuration; it knows records and no log."""
