"""When is a comparison lost, although someone looks at it again and again?"""

from __future__ import annotations

import math

from rankloop.interleaving import Comparison

LEVEL = 0.05  # the chance, over all looks, that a ranker as good as its base is stopped
FIRST_LOOK = 16  # decided comparisons; every later look comes at twice as many


def is_lost(comparison: Comparison) -> bool:
    """Losses outweigh wins by more than chance explains.

    Looks at 16, 32, 64, … decided comparisons; the k-th look tests at LEVEL / (k · (k + 1)), which sums to LEVEL.
    """
    decided = comparison.wins + comparison.losses
    look = math.log2(decided / FIRST_LOOK) + 1 if decided >= FIRST_LOOK else 0.0
    if look < 1 or look != int(look) or comparison.losses <= comparison.wins:
        return False
    return comparison.p_value < LEVEL / (look * (look + 1))
