"""Figures and tables of papers, computed again: plain experiments in `catalogue/`, others as functions of a module."""
