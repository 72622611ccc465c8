"""Sparse rows as a dense array, which tests compare with."""

import numpy as np


def to_array(rows):
    """Return one column for each of `columns`, then the dense block."""
    array = np.zeros((rows.n_items, len(rows.columns)))
    for item in range(rows.n_items):
        entries = slice(rows.starts[item], rows.starts[item + 1])
        np.add.at(array[item], rows.positions[entries], rows.values[entries])
    return np.hstack([array, rows.dense])
