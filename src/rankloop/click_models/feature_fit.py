"""Click models whose attraction follows from features, fitted by maximum likelihood.

A user who still reads examines position k with probability examined[k] and then clicks with the attraction of the item;
after a click they read on with a probability that may depend on what was clicked. If they always read on this is the
position-based model, if they never do and examine all positions the cascade model, between them the dependent click
model. Where examination also depends on where the last click was, it is the user browsing model.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from rankloop.click_models.kernels import ClickParameters, ClickRows, examined_given_clicks
from rankloop.core.types import Floats, Ints

RIDGE = 1.0  # one pseudo-observation against each weight of a standardised feature
RIDGE_GOING = np.array([0.02, 1.0])  # the same for who reads on: weak for how many, since some users never do
SMOOTHNESS = 2.0  # against jumps of log examination from one position to the next
MIN_LOG, MAX_LOG = -7.0, 0.0  # of examination: no position is examined more than the first
MAX_PROBABILITY = 1.0 - 1e-9
MAX_STEPS, MAX_NEWTON_STEPS = 200, 30
MAX_LOG_ODDS = 8.0
N_GOING = 2  # numbers that tell who reads on: a constant, and how attractive the clicked item is


class ExaminationCells(NamedTuple):
    """Which number says how likely a position is examined, by the position and by where the last click was."""

    at: Ints  # (n_positions, n_positions + 1): the first column is for no click above, the next for one at the top …
    neighbours: Ints  # (n, 2): cells that are held together

    @property
    def n(self) -> int:
        """The number of cells."""
        return int(self.at.max()) + 1

    @property
    def position(self) -> Ints:
        """The position of each cell."""
        positions = np.zeros(self.n, dtype=np.int64)
        positions[self.at] = np.arange(len(self.at))[:, None]
        return positions


def cells_by_position(k: int) -> ExaminationCells:
    """Return one cell for each of k positions."""
    number = np.arange(k)
    return ExaminationCells(np.repeat(number[:, None], k + 1, axis=1), np.column_stack([number[:-1], number[1:]]))


def cells_by_last_click(k: int) -> ExaminationCells:
    """Return a cell for each position without a click above it, and one for each position and last click."""
    at = cells_by_position(k).at.copy()
    below, above = np.tril_indices(k, -1)
    at[below, above + 1] = k + np.arange(len(below))
    pairs = [(at[i, 0], at[i + 1, 0]) for i in range(k - 1)]
    pairs += [(at[i, j + 1], at[i + 1, j + 2]) for i in range(k - 1) for j in range(i)]  # as far back
    pairs += [(at[i, j], at[i, j + 1]) for i in range(k) for j in range(1, i)]  # at the same position
    return ExaminationCells(at, np.array(pairs, dtype=np.int64).reshape(-1, 2))


class FeatureRows(NamedTuple):
    """The rows that were shown, those of a page together and from the top."""

    position: Ints
    clicked: Floats
    page: Ints
    session: Ints  # by row
    going: Floats  # (n_rows, N_GOING)
    cell: Ints  # by row: the number that says how likely it was examined
    n_pages: int
    n_sessions: int
    cells: ExaminationCells


def last_clicks(position: Ints, clicked: Floats, page: Ints) -> Ints:
    """Return by row where the last click above it was on its page, −1 for nowhere; rows of a page go from the top."""
    hit = np.where(clicked > 0, np.arange(len(page)), -1)
    before = np.maximum.accumulate(np.append(-1, hit[:-1]))
    same_page = (before >= 0) & (page[before] == page)
    return np.where(same_page, position[before], -1)


class ClickFit(NamedTuple):
    """Parameters at the optimum, with what it takes to move them when sessions count more or less."""

    log_examined: Floats  # by cell, the first 0
    going: Floats  # log-odds of reading on after a click: N_GOING numbers; empty where nobody stops
    weights: Floats
    likelihood: float
    scores: Floats  # (n_sessions, n_parameters): the gradient of each session; positions, going, weights
    inverse: Floats  # of the information
    held_out: Floats  # by session: its log-likelihood had the model not seen it, to one step

    @property
    def parameters(self) -> Floats:
        """Log examination, then who reads on."""
        return np.concatenate([self.log_examined, self.going])


class ReadingPosterior(NamedTuple):
    """By row, the probability that the user still read there: by all clicks of the page, and by those above."""

    after_all: Floats
    from_above: Floats
    by_page: Floats  # the log-likelihood
    by_going: Floats  # the gradient by the log-odds of reading on

    @property
    def likelihood(self) -> float:
        """The log-likelihood of all pages."""
        return float(self.by_page.sum())


def attractive(features: Floats, weights: Floats) -> Floats:
    """Return σ(features · weights)."""
    return logistic(features @ weights)


def logistic(odds: Floats) -> Floats:
    """Return the probability of each log-odds; beyond ±30 they count as that."""
    probability: Floats = 1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0)))
    return probability


def reading_posterior(rows: FeatureRows, p: Floats, going: Floats, above: bool = True) -> ReadingPosterior:
    """Return who still reads at each row.

    What comes below the last click tells: P(clicks) = Π_(up to the last) P(row) · going_on … · (g Q + 1 − g), g being
    the probability to read on after the last click and Q that of no click below it by somebody who did.

    Args:
      rows: What was shown and clicked.
      p: By row, P(click | still reading).
      going: By row, the log-odds of reading on after a click.
      above: Compute `from_above` too.
    """
    clicked, page = rows.clicked > 0, rows.page
    last = np.full(rows.n_pages, -1)
    np.maximum.at(last, page[clicked], rows.position[clicked])
    below = (rows.position > last[page]) & (last[page] >= 0)
    log_missed = np.log1p(-p)
    quiet = np.bincount(page, np.where(below, log_missed, 0.0), rows.n_pages)
    is_last = clicked & (rows.position == last[page])
    go = logistic(going)
    ends = np.flatnonzero(is_last)
    g, q = go[ends], np.exp(quiet[page[ends]])
    tail = g * q + 1.0 - g
    reading = np.ones(rows.n_pages)
    reading[page[ends]] = g * q / tail
    earlier = clicked & ~is_last
    log_p = np.where(clicked, np.log(np.maximum(p, 1e-300)), np.where(below, 0.0, log_missed))
    log_p[earlier] += np.log(np.maximum(go[earlier], 1e-300))
    log_p[ends] += np.log(np.maximum(tail, 1e-300))
    by_going = np.where(earlier, 1.0 - go, 0.0)
    by_going[ends] = reading[page[ends]] - g
    return ReadingPosterior(
        after_all=np.where(below, reading[page], 1.0),
        from_above=_reading_from_above(rows, p, go) if above else np.empty(0),
        by_page=np.bincount(page, log_p, rows.n_pages).astype(np.float64),
        by_going=by_going,
    )


def _reading_from_above(rows: FeatureRows, p: Floats, go: Floats) -> Floats:
    """Return P(still reading | clicks above), every row being a pair that a reader surely examines."""
    parameters = ClickParameters(p, 1.0 - go, np.ones((1, 1)), np.zeros(1), 1.0)
    starts = np.flatnonzero(np.diff(rows.page, prepend=-1))
    pages = ClickRows(np.append(starts, len(p)), np.arange(len(p)), rows.position, rows.clicked)
    return examined_given_clicks(parameters, pages)


def fit_clicks(
    features: Floats, rows: FeatureRows, *, log_examined: Floats | None = None, dependent: bool = False
) -> ClickFit:
    """Maximise Σ log P(clicks of a page) less the penalties.

    References: Wang, Golbandi, Bendersky, Metzler and Najork (2018), Position Bias Estimation for Unbiased Learning to
    Rank in Personal Search (its likelihood is climbed directly); Guo, Liu and Wang (2009), Efficient Multiple-Click
    Models in Web Search.

    Args:
      features: By row, standardised.
      rows: What was shown and clicked.
      log_examined: By position, where it is given; otherwise it is fitted.
      dependent: Users may stop after a click.
    """
    k, d, clicked, cells = rows.cells.n, features.shape[1], rows.clicked, rows.cells
    going = slice(k, k + N_GOING)
    fixed = np.zeros(k + N_GOING + d, dtype=bool)
    fixed[0] = True
    fixed[:k] |= log_examined is not None
    fixed[going] = not dependent
    penalty = np.concatenate([np.zeros(k), RIDGE_GOING, np.full(d, RIDGE)])
    smooth = SMOOTHNESS * _squared_differences(cells)
    start = np.zeros(len(fixed))
    start[:k] = -0.5 * np.log1p(cells.position) if log_examined is None else log_examined[cells.position]
    start[going] = 0.0 if dependent else [MAX_LOG_ODDS * 4, 0.0]

    def at(parameters: Floats) -> tuple[Floats, Floats, ReadingPosterior, Floats]:
        """Attraction, P(click | still reading), who still reads, and the gradient by log P(click), by row."""
        s = attractive(features, parameters[k + N_GOING :])
        p = np.minimum(np.exp(parameters[rows.cell]) * s, MAX_PROBABILITY)
        posterior = reading_posterior(rows, p, rows.going @ parameters[going], above=False)
        return s, p, posterior, np.where(clicked > 0, 1.0, -posterior.after_all * p / (1.0 - p))

    def negative(parameters: Floats) -> tuple[float, Floats]:
        s, _, posterior, by_log = at(parameters)
        parts = np.bincount(rows.cell, by_log, k), posterior.by_going @ rows.going, (by_log * (1.0 - s)) @ features
        gradient = np.concatenate(parts, dtype=np.float64) - penalty * parameters
        gradient[:k] -= smooth @ parameters[:k]
        cost = 0.5 * float(penalty @ parameters**2 + parameters[:k] @ smooth @ parameters[:k])
        return cost - posterior.likelihood, -np.where(fixed, 0.0, gradient)

    limits = [(MIN_LOG, MAX_LOG)] * k + [(-MAX_LOG_ODDS, MAX_LOG_ODDS)] * N_GOING + [(None, None)] * d
    bounds = [(value, value) if is_fixed else limit for value, is_fixed, limit in zip(start, fixed, limits)]
    best = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": MAX_STEPS}).x
    fixed[:k] |= best[:k] >= MAX_LOG - 1e-6
    s, p, posterior, by_log = at(best)
    directions = np.hstack([np.eye(k)[rows.cell], rows.going * 0.0, (1.0 - s)[:, None] * features])
    gradients = by_log[:, None] * directions
    gradients[:, going] = posterior.by_going[:, None] * rows.going
    scores = np.zeros((rows.n_sessions, len(fixed)))
    np.add.at(scores, rows.session, np.where(fixed, 0.0, gradients))
    information = (directions * (posterior.after_all * p / (1.0 - p))[:, None]).T @ directions
    if dependent:  # what is not seen, who has left, costs information: that of the scores themselves
        information = scores.T @ scores
    information[:k, :k] += smooth
    inverse = _inverse(information + np.diag(penalty), fixed)
    session_of_page = np.zeros(rows.n_pages, dtype=np.int64)
    session_of_page[rows.page] = rows.session
    by_session = np.bincount(session_of_page, posterior.by_page, rows.n_sessions)
    return ClickFit(
        log_examined=best[:k],
        going=best[going] if dependent else np.empty(0),
        weights=best[k + N_GOING :],
        likelihood=posterior.likelihood,
        scores=scores,
        inverse=inverse,
        held_out=by_session - ((scores @ inverse) * scores).sum(axis=1),
    )


def _inverse(information: Floats, fixed: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """0 where a parameter is fixed."""
    information[fixed, :] = information[:, fixed] = 0.0
    information[fixed, fixed] = 1.0
    inverse = np.linalg.inv(information + 1e-9 * np.eye(len(information)))
    inverse[fixed, :] = inverse[:, fixed] = 0.0
    return np.asarray(inverse)


def _squared_differences(cells: ExaminationCells) -> Floats:
    """The second derivative of ½ Σ (difference of neighbours)²."""
    unit = np.eye(cells.n)
    steps = unit[cells.neighbours[:, 0]] - unit[cells.neighbours[:, 1]]
    return np.asarray(steps.T @ steps)


class AttractionFit(NamedTuple):
    """The weights of features for given examination, and how they move with sessions and with examination."""

    weights: Floats
    scores: Floats  # (n_sessions, n_features): the gradient of each session
    inverse: Floats  # of the information
    by_examination: Floats  # (n_features, n_cells): the mixed information with log examination

    def moved(self, sessions: Floats, examination: Floats) -> Floats:
        """The weights when sessions count so much more than once, and log examination is so much higher: one step."""
        moved: Floats = self.weights + self.inverse @ (sessions @ self.scores - self.by_examination @ examination)
        return moved


def fit_attraction(features: Floats, rows: FeatureRows, log_examined: Floats, reading: Floats) -> AttractionFit:
    """Maximise the same likelihood over the weights alone, by Fisher scoring.

    Args:
      features: By row, standardised.
      rows: What was shown and clicked.
      log_examined: By cell.
      reading: By row, how likely the user still read there.
    """
    clicked, examined = rows.clicked, np.exp(log_examined[rows.cell])
    weights, value, scale = np.zeros(features.shape[1]), -np.inf, 1.0
    step = np.zeros_like(weights)
    for _ in range(MAX_NEWTON_STEPS):
        tried = weights + scale * step
        s = attractive(features, tried)
        p = np.minimum(examined * s, MAX_PROBABILITY)
        logs = np.where(clicked > 0, np.log(np.maximum(p, 1e-300)), reading * np.log1p(-p))
        now = float(logs.sum() - 0.5 * RIDGE * tried @ tried)
        if now < value - 1e-9 and scale > 1e-3:
            scale /= 2.0
            continue
        done = now - value < 1e-7 * max(1.0, abs(now))
        weights, value, scale = tried, now, 1.0
        by_log = np.where(clicked > 0, 1.0, -reading * p / (1.0 - p))
        directions = (1.0 - s)[:, None] * features
        weighted = directions * (reading * p / (1.0 - p))[:, None]
        inverse = np.linalg.inv(weighted.T @ directions + RIDGE * np.eye(len(weights)))
        step = inverse @ (by_log @ directions - RIDGE * weights)
        if done:
            break
    scores = np.zeros((rows.n_sessions, len(weights)))
    np.add.at(scores, rows.session, by_log[:, None] * directions)
    columns = [np.bincount(rows.cell, column, rows.cells.n) for column in weighted.T]
    return AttractionFit(weights, scores, np.asarray(inverse), np.stack(columns).astype(np.float64))
