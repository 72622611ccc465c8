"""The guard against a ranker that harms: when the comparison with its base is lost, it goes back and stops learning."""

import math

from rankloop.interleaving import Comparison

LEVEL = 0.05  # the probability, over all tests, that a ranker as good as its base is stopped
FIRST_TEST = 16  # decided comparisons; every later test comes at twice as many
LOST = "the comparison with the base was lost with significance"


def is_lost(comparison: Comparison) -> bool:
    """Losses outweigh wins by more than chance explains.

    Tested at 16, 32, 64, … decided comparisons; the k-th test is at LEVEL / (k · (k + 1)), which sums to LEVEL.
    """
    decided = comparison.wins + comparison.losses
    test = math.log2(decided / FIRST_TEST) + 1 if decided >= FIRST_TEST else 0.0
    if test < 1 or test != int(test) or comparison.losses <= comparison.wins:
        return False
    return comparison.p_value < LEVEL / (test * (test + 1))
