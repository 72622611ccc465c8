"""Learning a ranking from yesterday's clicks: read them, weigh them by position bias, train."""
