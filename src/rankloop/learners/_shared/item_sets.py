"""Random sets of n items: each item's probability to be in, and a draw with exactly these."""

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints


@kernel
def inclusion_probabilities(losses: Floats, best_first: Ints, rate: float, n: int) -> Floats:
    """x_i = min(1, c · exp(−rate · losses_i)) with c such that Σ x = n.

    In ascending order of losses, tail = Σ over the items from here on of exp(−rate · (their loss − this loss)), which
    neither overflows nor vanishes; an item that would get more than 1 is capped, and the others share what is left.
    """
    n_items = len(losses)
    tails = np.ones(n_items)
    for i in range(n_items - 2, -1, -1):
        tails[i] += tails[i + 1] * np.exp(-rate * (losses[best_first[i + 1]] - losses[best_first[i]]))
    capped = 0
    while capped < n and n - capped >= tails[capped]:
        capped += 1
    probabilities = np.ones(n_items)
    if capped < n_items:
        share = (n - capped) / tails[capped]
        for item in best_first[capped:]:
            probabilities[item] = share * np.exp(-rate * (losses[item] - losses[best_first[capped]]))
    return probabilities


@kernel
def shuffle(items: Ints, uniforms: Floats) -> None:
    """A uniformly random order, in place."""
    for position in range(len(items)):
        other = position + int(uniforms[position] * (len(items) - position))
        items[position], items[other] = items[other], items[position]


@kernel
def drawn_first(probabilities: Floats, best_first: Ints, n: int, uniforms: Floats) -> Ints:
    """A ranking whose first n positions hold item i with probability probabilities[i] (Σ = n), in random order.

    Systematic sampling along a random order of the items: those are in whose stretch of the line from 0 to n holds one
    of n points, which are 1 apart with a random start. The others follow, best first. Takes 1 + m + n uniforms.
    """
    n_items = len(probabilities)
    ranking, outside, line, inside = np.empty(n_items, np.int64), np.ones(n_items, np.bool_), 0.0, 0
    walk = best_first.copy()
    shuffle(walk, uniforms[1 : n_items + 1])
    for step in range(n_items):
        line += probabilities[walk[step]]
        due = n_items - step == n - inside  # rounding must not lose the last point
        if inside < n and (uniforms[0] + inside < line or due):
            ranking[inside] = walk[step]
            outside[walk[step]] = False
            inside += 1
    shuffle(ranking[:n], uniforms[n_items + 1 :])
    for item in best_first:
        if outside[item]:
            ranking[inside] = item
            inside += 1
    return ranking
