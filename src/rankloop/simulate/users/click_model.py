"""What people who click have in common: how far they see, and clicks out of a mask."""

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints


@kernel
def clicks_at(ranking: Ints, clicked: Ints) -> tuple[Ints, Floats]:
    """The items in the positions where `clicked` is not 0, in shown order, each with weight 1."""
    n_clicks = 0
    for position in range(len(clicked)):
        n_clicks += clicked[position] != 0
    items = np.empty(n_clicks, np.int64)
    i = 0
    for position in range(len(clicked)):
        if clicked[position] != 0:
            items[i] = ranking[position]
            i += 1
    return items, np.ones(n_clicks)


def seen_positions(shown: int | None, n_items: int) -> int:
    """How many of n_items positions these people examine."""
    return n_items if shown is None or shown > n_items else shown
