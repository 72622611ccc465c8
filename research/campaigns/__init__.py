"""Simulated campaigns and logs of labelled sets, and the classifiers that the rankers are compared with."""
