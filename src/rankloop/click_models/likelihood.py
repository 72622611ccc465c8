"""How probable a model finds the clicks of a page: row after row given those above, and without knowing them."""

import numpy as np

from rankloop.click_models.base import ALIKE, SMALLEST, SURE, Fitted, Prior
from rankloop.click_models.page_log import PageLog
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.simulate.users.fitted_users import browsing_probabilities, examined_after, reading_probabilities


@kernel
def _browsing_given(offsets: Ints, position: Ints, clicked: Floats, attraction: Floats, table: Floats) -> Floats:
    found = np.empty(len(position))
    for page in range(len(offsets) - 1):
        last = -1
        for row in range(offsets[page], offsets[page + 1]):
            found[row] = examined_after(table, position[row], last) * attraction[row]
            if clicked[row] > 0.0:
                last = position[row]
    return found


@kernel
def _reading_given(offsets: Ints, clicked: Floats, attraction: Floats, stop: Floats, persistence: float) -> Floats:
    """P(examined) after what was seen above: after a click 1 − stop, else by how much no click speaks against it."""
    found = np.empty(len(clicked))
    for page in range(len(offsets) - 1):
        examined = 1.0
        for row in range(offsets[page], offsets[page + 1]):
            found[row] = examined * attraction[row]
            if clicked[row] > 0.0:
                examined = persistence * (1.0 - stop[row])
            else:
                examined = persistence * examined * (1.0 - attraction[row]) / max(1.0 - found[row], 1e-300)
    return found


@kernel
def _alone(
    offsets: Ints,
    position: Ints,
    attraction: Floats,
    stop: Floats,
    table: Floats,
    persistence: float,
    browsing: bool,
) -> Floats:
    found = np.empty(len(position))
    for page in range(len(offsets) - 1):
        start, end = offsets[page], offsets[page + 1]
        if browsing:
            found[start:end] = browsing_probabilities(position[start:end], attraction[start:end], table)
        else:
            found[start:end] = reading_probabilities(attraction[start:end], stop[start:end], persistence)
    return found


def given_clicks_above(log: PageLog, fitted: Fitted) -> Floats:
    """P(click) of each row given the clicks above it on its page."""
    attraction = fitted.attraction[log.pair]
    if fitted.browsing:
        return _browsing_given(log.offsets, log.position, log.clicked, attraction, fitted.examination)
    stop = fitted.stop_after(log.pair, log.position)
    return _reading_given(log.offsets, log.clicked, attraction, stop, fitted.persistence)


def alone(log: PageLog, fitted: Fitted) -> Floats:
    """P(click) of each row, whatever is clicked above it."""
    attraction, stop = fitted.attraction[log.pair], fitted.stop_after(log.pair, log.position)
    return _alone(log.offsets, log.position, attraction, stop, fitted.examination, fitted.persistence, fitted.browsing)


def log_likelihood(log: PageLog, fitted: Fitted) -> Floats:
    """Of each page; what a model finds impossible, such as a second click in a cascade, counts as a millionth."""
    rows = _logs(given_clicks_above(log, fitted), log.clicked)
    pages: Floats = np.add.reduceat(rows, log.offsets[:-1])
    return pages


def perplexity(log: PageLog, fitted: Fitted) -> Floats:
    """By position: 2 to the mean surprise in bits, of what was clicked there; 1: foreseen, 2: as by tossing a coin."""
    bits = surprises(log, fitted)
    counts = np.bincount(log.position)
    means = np.bincount(log.position, bits) / np.maximum(counts, 1)
    found: Floats = np.where(counts > 0, 2.0**means, np.nan)
    return found


def prior_of_log(log: PageLog, alike: Fitted) -> Prior:
    """A belief as strong as pairs are alike, from how `alike`, in which they differ by nothing unknown, errs.

    Where a pair attracts by δ more than the model says, two of its rows err together: E(c − p)(c' − p') = e e' E δ²,
    e being the probability that a row was examined. So E δ² is a ratio of sums over the rows of each pair, two and two,
    and a beta distribution with that variance has m(1 − m)/E δ² − 1 rows. Where the sum is within chance, pairs are
    taken to be as the model says.
    """
    p = np.clip(given_clicks_above(log, alike), SMALLEST, 1.0 - SMALLEST)
    mean = alike.attraction
    examined = p / mean[log.pair]

    def two_and_two(values: Floats) -> float:
        """Σ over pairs of Σ over two different rows of the product."""
        sums = np.bincount(log.pair, values, log.n_pairs)
        return float((sums**2).sum() - (values**2).sum())

    together, noise_of_it = two_and_two(log.clicked - p), np.sqrt(2.0 * max(two_and_two(p * (1.0 - p)), 0.0))
    if together <= SURE * noise_of_it or noise_of_it == 0.0:
        return Prior(mean, ALIKE)
    between = together / max(two_and_two(examined), 1e-12)
    noise = float(np.average(mean * (1.0 - mean), weights=np.bincount(log.pair, examined, log.n_pairs) + 1e-12))
    return Prior(mean, float(np.clip(noise / between - 1.0, 0.5, ALIKE)))


def surprises(log: PageLog, fitted: Fitted) -> Floats:
    """Of each row, in bits: how little the model expected what happened there, whatever happened above."""
    bits: Floats = -_logs(alone(log, fitted), log.clicked) / np.log(2.0)
    return bits


def _logs(probabilities: Floats, clicked: Floats) -> Floats:
    p = np.clip(probabilities, SMALLEST, 1.0 - SMALLEST)
    return np.where(clicked > 0.0, np.log(p), np.log1p(-p))
