"""Speed, beside the peers in the same run: `make bench`, or `python -m benchmarks letor measures`."""
