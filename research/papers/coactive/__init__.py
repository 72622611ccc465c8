"""Raman, Joachims, Shivaswamy and Schnabel (2013), "Stable coactive learning via perturbation"."""
