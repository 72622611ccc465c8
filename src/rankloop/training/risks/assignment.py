"""The best ranking for a structured loss: a linear assignment of items to the first positions."""

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints


@kernel
def assign(cost: Floats) -> Ints:
    """The column of each row that minimises the summed cost, no column twice; needs rows ≤ columns.

    Shortest augmenting paths, O(rows² · columns). Reference: Crouse (2016), On Implementing 2D Rectangular Assignment
    Algorithms.
    """
    n_rows, n_columns = cost.shape
    row_price, column_price = np.zeros(n_rows), np.zeros(n_columns)
    column_of, row_of = np.full(n_rows, -1), np.full(n_columns, -1)
    shortest, before, remaining = np.empty(n_columns), np.empty(n_columns, np.int64), np.empty(n_columns, np.int64)
    for entering in range(n_rows):
        shortest[:] = np.inf
        for j in range(n_columns):
            remaining[j] = j
        n_remaining, row, length, sink = n_columns, entering, 0.0, -1
        while sink < 0:
            lowest, position = np.inf, -1
            base = length - row_price[row]
            for index in range(n_remaining):
                j = remaining[index]
                reach = base + cost[row, j] - column_price[j]
                if reach < shortest[j]:
                    shortest[j], before[j] = reach, row
                if shortest[j] < lowest or (shortest[j] == lowest and row_of[j] < 0):
                    lowest, position = shortest[j], index
            length, j = lowest, remaining[position]
            if row_of[j] < 0:
                sink = j
            else:
                row = row_of[j]
            n_remaining -= 1
            remaining[position], remaining[n_remaining] = remaining[n_remaining], j
        row_price[entering] += length
        for index in range(n_remaining, n_columns):
            j = remaining[index]
            if j != sink:
                row_price[row_of[j]] += length - shortest[j]
            column_price[j] -= length - shortest[j]
        while True:
            row = before[sink]
            row_of[sink] = row
            sink, column_of[row] = column_of[row], sink
            if row == entering:
                break
    return column_of
