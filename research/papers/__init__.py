"""Figures and tables of the papers, one folder for each paper; plain experiments are TOML files in `catalogue`."""
