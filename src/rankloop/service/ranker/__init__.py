"""One ranker in service: its configuration, its rankings, its lessons."""
