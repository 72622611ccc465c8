"""The permutahedron: all means of random orders of a list of numbers. Nearest points, and orders with a given mean."""

import numpy as np

from rankloop.core.kernels import kernel, positions_of
from rankloop.core.types import Floats, Ints


@kernel
def nearest_mean(pulls: Floats, worth: Floats) -> Floats:
    """The point nearest to `pulls` (descending) among the means of random orders of `worth` (descending).

    pulls − v, with v the best non-increasing fit to pulls − worth (pool adjacent violators): Lim and Wright (2016).
    """
    n_items = len(pulls)
    pulled, worths, sizes, n_pools = np.empty(n_items), np.empty(n_items), np.empty(n_items, np.int64), 0
    for i in range(n_items):
        pulled[n_pools], worths[n_pools], sizes[n_pools] = pulls[i], worth[i], 1  # means of a pool, and its size
        n_pools += 1
        while n_pools > 1:
            a, b = n_pools - 2, n_pools - 1
            if pulled[a] - worths[a] > pulled[b] - worths[b]:
                break
            both = sizes[a] + sizes[b]
            pulled[a] = (sizes[a] * pulled[a] + sizes[b] * pulled[b]) / both
            worths[a] = (sizes[a] * worths[a] + sizes[b] * worths[b]) / both
            sizes[a], n_pools = both, n_pools - 1
    point, i = np.empty(n_items), 0
    for pool in range(n_pools):
        for _ in range(sizes[pool]):
            point[i] = worths[pool] + (pulls[i] - pulled[pool])
            i += 1
    return point


@kernel
def exchanges(point: Floats, worth: Floats) -> tuple[Ints, Floats]:
    """Random exchanges of positions that make `worth` equal `point` on average: (settled, other), probabilities.

    Hardy, Littlewood and Pólya's proof that a majorised vector is reached by m − 1 averagings of two entries: an
    entry with too much gives to the next one with too little, until one of the two is settled for good.
    """
    n_items = len(worth)
    mean, rich, n_rich, n = worth.copy(), np.empty(n_items, np.int64), 0, 0
    pairs, probabilities = np.empty((n_items, 2), np.int64), np.empty(n_items)
    for poor in range(n_items):
        if mean[poor] > point[poor]:
            rich[n_rich] = poor
            n_rich += 1
        while mean[poor] < point[poor] and n_rich > 0:
            giver = rich[n_rich - 1]
            if mean[giver] <= mean[poor]:  # rounding: nothing is left to give
                break
            spare, missing = mean[giver] - point[giver], point[poor] - mean[poor]
            probabilities[n] = min(1.0, min(spare, missing) / (mean[giver] - mean[poor]))
            if spare <= missing:
                pairs[n, 0], pairs[n, 1] = giver, poor
                mean[poor], n_rich = mean[poor] + spare, n_rich - 1
            else:
                pairs[n, 0], pairs[n, 1] = poor, giver
                mean[giver], mean[poor] = mean[giver] - missing, point[poor]
            n += 1
    return pairs[:n], probabilities[:n]


@kernel
def drawn_order(order: Ints, pairs: Ints, probabilities: Floats, uniforms: Floats) -> Ints:
    ranking = order.copy()
    positions = np.arange(len(order))
    for i in range(len(probabilities)):
        if uniforms[i] < probabilities[i]:
            a, b = pairs[i]
            positions[a], positions[b] = positions[b], positions[a]
    for entry in range(len(order)):
        ranking[positions[entry]] = order[entry]
    return ranking


@kernel
def log_prob_of_order(order: Ints, pairs: Ints, probabilities: Floats, ranking: Ints) -> float:
    """Every exchange settles one entry, so its final position tells whether the exchange was made."""
    wanted, positions, total = positions_of(ranking)[order], np.arange(len(order)), 0.0
    for i in range(len(probabilities)):
        settled, other = pairs[i]
        if positions[settled] == wanted[settled]:
            total += np.log1p(-probabilities[i]) if probabilities[i] < 1.0 else -np.inf
        else:
            positions[settled], positions[other] = positions[other], positions[settled]
            total += (
                np.log(probabilities[i])
                if positions[settled] == wanted[settled] and probabilities[i] > 0.0
                else -np.inf
            )
    return total if np.array_equal(positions, wanted) else -np.inf
