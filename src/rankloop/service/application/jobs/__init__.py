"""What a service does without being asked, beside its requests."""
