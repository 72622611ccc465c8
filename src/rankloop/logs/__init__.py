"""Logs as tables: one reader, one guesser of columns, and a log's rows, impressions and visitors as arrays."""
