"""Simulated users: graders and click models, one per file."""
