"""Interleaving: mix two or more rankings into one list, and credit the clicks to find which ranker users prefer."""

from rankloop.interleaving.base import Interleaving, Mixed, credit, interleave, multileave
from rankloop.interleaving.comparison import Comparison, compare

__all__ = ["Comparison", "Interleaving", "Mixed", "compare", "credit", "interleave", "multileave"]
