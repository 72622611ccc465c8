"""What the runs say: curves, tests of significance, verdicts on claims."""
