"""Interleaving: mix two or more rankings into one list, and credit the clicks to find which ranker users prefer."""

from rankloop.interleaving.base import Comparison, Interleaving, Mixed, compare, credit, interleave, multileave

__all__ = ["Comparison", "Interleaving", "Mixed", "compare", "credit", "interleave", "multileave"]
