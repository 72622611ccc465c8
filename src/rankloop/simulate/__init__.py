"""Playing the loop against simulated people."""
