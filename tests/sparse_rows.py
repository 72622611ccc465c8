"""Sparse rows as a dense array, and states with the weights of some columns, which tests compare with."""

import numpy as np


def to_array(rows):
    """Return one column for each of `columns`, then the dense block."""
    array = np.zeros((rows.n_items, len(rows.columns)))
    for item in range(rows.n_items):
        entries = slice(rows.starts[item], rows.starts[item + 1])
        np.add.at(array[item], rows.positions[entries], rows.values[entries])
    return np.hstack([array, rows.dense])


def with_weights(state, weights):
    """Return the state of a linear learner with other weights."""
    return state._replace(**{name: weights for name in ("weights", "newest") if name in state._fields})
