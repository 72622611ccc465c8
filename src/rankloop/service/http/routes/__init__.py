"""The calls, by who makes them: page views, operators, comparisons, monitoring."""
