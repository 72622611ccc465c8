"""The loop against simulated users."""
