"""Reproductions of papers, their bounds, a simulated shop and search studies; `python -m research` runs them."""
