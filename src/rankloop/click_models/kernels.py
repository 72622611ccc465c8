"""The reading process of all click models: its numbers, random clicks, and the probabilities of examination."""

from typing import NamedTuple

import numpy as np

from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_log import ClickArrays


class ClickParameters(NamedTuple):
    """The numbers of a click model; those that a model does not have are neutral.

    A user who still reads examines position p with examination[p, d], where d is the distance to the last click (0: no
    click above). They click an examined pair with attraction[pair]. After a click they stop with satisfaction[pair] or
    stop[p], otherwise they read on with `persistence`. What lies beyond the last row or column counts as that one.
    """

    attraction: Floats  # by pair
    satisfaction: Floats  # by pair
    examination: Floats  # (positions, distances)
    stop: Floats  # by position
    persistence: float


class ClickRows(NamedTuple):
    """Shown rows, those of a page together and from the top; page l has the rows offsets[l] … offsets[l + 1]."""

    offsets: Ints
    pair: Ints
    position: Ints
    clicked: Floats


def rows_of(log: ClickArrays | ClickRows) -> ClickRows:
    """Return the arrays of a log that kernels take."""
    return ClickRows(offsets=log.offsets, pair=log.pair, position=log.position, clicked=log.clicked)


@kernel
def examination_at(table: Floats, position: int, last_click: int) -> float:
    """Return the probability that a reader examines a position; `last_click` is −1 where there is none above.

    Args:
      table: Examination by position and last click.
      position: The position, from 0.
      last_click: The position of the last click above; −1 if there is none.
    """
    row = min(position, table.shape[0] - 1)
    distance = 0 if last_click < 0 else position - last_click
    return float(table[row, min(distance, table.shape[1] - 1)])


@kernel
def stop_after(parameters: ClickParameters, pair: int, position: int) -> float:
    """Return the probability that a user stops after a click: satisfied by the pair, or because of the position.

    Args:
      parameters: The parameters of the click model.
      pair: The number of the pair.
      position: The position, from 0.
    """
    satisfied = parameters.satisfaction[pair]
    return float(satisfied + (1.0 - satisfied) * parameters.stop[min(position, len(parameters.stop) - 1)])


@kernel
def draw_clicks(parameters: ClickParameters, pair: Ints, draws: Floats) -> Ints:
    """Draw the clicks on a page from uniform numbers.

    Args:
      parameters: The click model.
      pair: By position.
      draws: (1 or 3, n_positions). Row 0 decides the clicks, row 1 who is satisfied, row 2 who loses patience; without
        rows 1 and 2 nobody stops.

    Returns:
      By position, 1 for a click and 0 elsewhere.
    """
    clicked = np.zeros(draws.shape[1], np.int64)
    last_click, may_stop = -1, draws.shape[0] > 1
    for position in range(len(clicked)):
        examined = examination_at(parameters.examination, position, last_click)
        if draws[0, position] < examined * parameters.attraction[pair[position]]:
            clicked[position] = 1
            last_click = position
            if may_stop and draws[1, position] < stop_after(parameters, pair[position], position):
                break
        if may_stop and draws[2, position] >= parameters.persistence:
            break
    return clicked


@kernel
def examined_given_clicks(parameters: ClickParameters, rows: ClickRows) -> Floats:
    """Return P(examined | clicks above on the page) of each row.

    After a click the user reads on unless they stop; after none, no click speaks against that they still read.

    Args:
      parameters: The parameters of the click model.
      rows: The rows of the pages.
    """
    examined = np.empty(len(rows.pair))
    for page in range(len(rows.offsets) - 1):
        reading, last_click = 1.0, -1
        for row in range(rows.offsets[page], rows.offsets[page + 1]):
            pair, position = rows.pair[row], rows.position[row]
            e, a = examination_at(parameters.examination, position, last_click), parameters.attraction[pair]
            examined[row] = reading * e
            if rows.clicked[row] > 0.0:
                reading = parameters.persistence * (1.0 - stop_after(parameters, pair, position))
                last_click = position
            else:
                missed = max(1.0 - examined[row] * a, 1e-300)
                reading = parameters.persistence * reading * (1.0 - e * a) / missed
    return examined


@kernel
def examined_whatever_clicks(parameters: ClickParameters, rows: ClickRows) -> Floats:
    """Return P(examined) of each row, summed over what may be clicked above it on its page.

    reading[j] is the probability that the user still reads and that the last click was in row j − 1 of the page (0: no
    click yet). Where examination does not depend on the last click one entry stands for all.

    Args:
      parameters: The parameters of the click model.
      rows: The rows of the pages.
    """
    examined = np.zeros(len(rows.pair))
    by_distance = parameters.examination.shape[1] > 1
    for page in range(len(rows.offsets) - 1):
        start, end = rows.offsets[page], rows.offsets[page + 1]
        reading = np.zeros(end - start + 1)
        reading[0] = 1.0
        for row in range(start, end):
            pair, position = rows.pair[row], rows.position[row]
            a, stop = parameters.attraction[pair], stop_after(parameters, pair, position)
            if not by_distance:
                e = examination_at(parameters.examination, position, -1)
                examined[row] = reading[0] * e
                reading[0] *= parameters.persistence * (1.0 - e * a * stop)
                continue
            for state in range(row - start + 1):
                last_click = rows.position[start + state - 1] if state > 0 else -1
                e = examination_at(parameters.examination, position, last_click)
                examined[row] += reading[state] * e
                reading[state] *= parameters.persistence * (1.0 - e * a)
            reading[row - start + 1] = parameters.persistence * examined[row] * a * (1.0 - stop)
    return examined
