"""What the theory promises each learner, as functions that compute the numbers."""
