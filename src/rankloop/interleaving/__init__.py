"""Which of two rankers do people prefer: mixing rankings and crediting clicks."""

from rankloop.interleaving.base import Interleaving, Mixed, credit, interleave, multileave
from rankloop.interleaving.comparison import Comparison, compare

__all__ = ["Comparison", "Interleaving", "Mixed", "compare", "credit", "interleave", "multileave"]
