"""Whole runs and many rounds at a time in compiled code, bit for bit as `play`."""
