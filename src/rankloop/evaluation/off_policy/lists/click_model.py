"""Who clicks what, fitted by maximum likelihood: examined by position, attractive by features, and who goes on after.

A person who is still there examines position k with probability examined[k] and then clicks with the probability with
which the item attracts; after a click they go on with the probability `going_on`, which may depend on what was
clicked. With going_on = 1 this is the position-based model, with going_on = 0 and all positions examined the cascade
model, between them the dependent click model. Where examination also depends on how far the last click is, it is the
user browsing model.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from rankloop.core.types import Floats, Ints

RIDGE = 1.0  # one pseudo-observation against each weight of a standardised feature
RIDGE_GOING = np.array([0.02, 1.0])  # the same for who goes on: weak for how many, since there are people who never do
SMOOTH = 2.0  # against jumps of log examination from one position to the next
MIN_LOG, MAX_LOG = -7.0, 0.0  # no position is examined more than the first
MAX_PROBABILITY = 1.0 - 1e-9
MAX_STEPS, MAX_NEWTON = 200, 30
MAX_ODDS = 8.0
N_GOING = 2  # numbers that tell who goes on: a constant, and how attractive the clicked item is


class Cells(NamedTuple):
    """Which number says how likely a position is examined, by the position and by where the last click was."""

    at: Ints  # (n_positions, n_positions + 1): the first column is for no click above, the next for one at the top …
    neighbours: Ints  # (n, 2): cells that are held together

    @property
    def n(self) -> int:
        return int(self.at.max()) + 1

    @property
    def position(self) -> Ints:
        """By cell."""
        found = np.zeros(self.n, dtype=np.int64)
        found[self.at] = np.arange(len(self.at))[:, None]
        return found


def cells_by_position(k: int) -> Cells:
    """One for each position."""
    number = np.arange(k)
    return Cells(np.repeat(number[:, None], k + 1, axis=1), np.column_stack([number[:-1], number[1:]]))


def cells_by_last_click(k: int) -> Cells:
    """One for each position without a click above it, then one for each position and way back to the last click."""
    at = cells_by_position(k).at.copy()
    below, above = np.tril_indices(k, -1)
    at[below, above + 1] = k + np.arange(len(below))
    pairs = [(at[i, 0], at[i + 1, 0]) for i in range(k - 1)]
    pairs += [(at[i, j + 1], at[i + 1, j + 2]) for i in range(k - 1) for j in range(i)]  # as far back
    pairs += [(at[i, j], at[i, j + 1]) for i in range(k) for j in range(1, i)]  # at the same position
    return Cells(at, np.array(pairs, dtype=np.int64).reshape(-1, 2))


class Shown(NamedTuple):
    """The rows that were seen, those of a page together and from the top."""

    position: Ints
    clicked: Floats
    page: Ints
    session: Ints  # by row
    going: Floats  # (n_rows, N_GOING)
    cell: Ints  # by row: the number that says how likely it was examined
    n_pages: int
    n_positions: int
    n_sessions: int
    cells: Cells


def last_clicks(position: Ints, clicked: Floats, page: Ints) -> Ints:
    """By row: where the last click above it was on its page; −1: nowhere. Those of a page stand from the top."""
    hit = np.where(clicked > 0, np.arange(len(page)), -1)
    before = np.maximum.accumulate(np.append(-1, hit[:-1]))
    own = (before >= 0) & (page[before] == page)
    return np.where(own, position[before], -1)


class ClickFit(NamedTuple):
    """Parameters at the optimum, with what it takes to move them when sessions count more or less."""

    log_examined: Floats  # by cell, the first 0
    going: Floats  # log-odds of going on after a click: N_GOING numbers; empty where positions stand by themselves
    weights: Floats
    likelihood: float
    scores: Floats  # (n_sessions, n_parameters): the gradient of each session; positions, going, weights
    inverse: Floats  # of the information
    held_out: Floats  # by session: its log-likelihood had the model not seen it, to one step

    @property
    def parameters(self) -> Floats:
        """Log examination, then who goes on."""
        return np.concatenate([self.log_examined, self.going])


class Chain(NamedTuple):
    """Whether the person is still there, by row: by all clicks of the page, and (where asked) by those above."""

    after_all: Floats
    from_above: Floats
    by_page: Floats  # the log-likelihood
    by_going: Floats  # the gradient by the log-odds of going on

    @property
    def likelihood(self) -> float:
        return float(self.by_page.sum())


def attractive(features: Floats, weights: Floats) -> Floats:
    """σ(features · weights)."""
    return logistic(features @ weights)


def logistic(odds: Floats) -> Floats:
    found: Floats = 1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0)))
    return found


def chain_of(shown: Shown, p: Floats, going: Floats, above: bool = True) -> Chain:
    """Who is still there at each row, given P(click | there) and the log-odds of going on after each row.

    What comes below the last click tells: P(clicks) = Π_(up to the last) P(row) · going_on … · (g Q + 1 − g), g being
    the probability to go on after the last click and Q that of no click below it by somebody who did.
    """
    clicked, page = shown.clicked > 0, shown.page
    last = np.full(shown.n_pages, -1)
    np.maximum.at(last, page[clicked], shown.position[clicked])
    below = (shown.position > last[page]) & (last[page] >= 0)
    log_missed = np.log1p(-p)
    quiet = np.bincount(page, np.where(below, log_missed, 0.0), shown.n_pages)
    is_last = clicked & (shown.position == last[page])
    go = logistic(going)
    own = np.flatnonzero(is_last)
    g, q = go[own], np.exp(quiet[page[own]])
    tail = g * q + 1.0 - g
    there = np.ones(shown.n_pages)
    there[page[own]] = g * q / tail
    earlier = clicked & ~is_last
    log_p = np.where(clicked, np.log(np.maximum(p, 1e-300)), np.where(below, 0.0, log_missed))
    log_p[earlier] += np.log(np.maximum(go[earlier], 1e-300))
    log_p[own] += np.log(np.maximum(tail, 1e-300))
    likelihood = np.bincount(page, log_p, shown.n_pages).astype(np.float64)
    by_going = np.where(earlier, 1.0 - go, 0.0)
    by_going[own] = there[page[own]] - g
    from_above = _from_above(shown, p, go) if above else np.empty(0)
    return Chain(np.where(below, there[page], 1.0), from_above, likelihood, by_going)


def _from_above(shown: Shown, p: Floats, go: Floats) -> Floats:
    """P(still there | clicks above), by a walk from the top: a click brings back certainty, then `go` is left of it."""
    alive, found = np.ones(shown.n_pages), np.ones(len(p))
    for position in range(shown.n_positions):
        at = np.flatnonzero(shown.position == position)
        page, hit = shown.page[at], shown.clicked[at] > 0
        now = alive[page]
        found[at] = now
        missed = now * (1.0 - p[at])
        alive[page] = np.where(hit, go[at], missed / np.maximum(missed + 1.0 - now, 1e-12))
    return found


def fit_clicks(
    features: Floats, shown: Shown, *, told: Floats | None = None, dependent: bool = False, ridge: Floats | None = None
) -> ClickFit:
    """Maximise Σ log P(clicks of a page) less the penalties; with `told` the log examination is known.

    With `dependent` people may leave after a click. Reference: Wang, Golbandi, Bendersky, Metzler and Najork (2018),
    Position Bias Estimation for Unbiased Learning to Rank in Personal Search (its likelihood is climbed directly);
    Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search.
    """
    k, d, clicked = shown.cells.n, features.shape[1], shown.clicked
    penalty = np.full(d, RIDGE) if ridge is None else ridge
    fixed = np.zeros(k + N_GOING + d, dtype=bool)
    fixed[0] = True
    fixed[:k] |= told is not None
    fixed[k : k + N_GOING] = not dependent
    held = _together(shown.cells)
    start = np.zeros(len(fixed))
    start[:k] = -0.5 * np.log1p(shown.cells.position) if told is None else told[shown.cells.position]
    start[k : k + N_GOING] = 0.0 if dependent else [MAX_ODDS * 4, 0.0]

    def at(parameters: Floats) -> tuple[Floats, Floats, Chain]:
        s = attractive(features, parameters[k + N_GOING :])
        p = np.minimum(np.exp(parameters[shown.cell]) * s, MAX_PROBABILITY)
        return s, p, chain_of(shown, p, shown.going @ parameters[k : k + N_GOING], above=False)

    def by_row(s: Floats, p: Floats, chain: Chain) -> tuple[Floats, Floats]:
        return np.where(clicked > 0, 1.0, -chain.after_all * p / (1.0 - p)), chain.by_going

    def negative(parameters: Floats) -> tuple[float, Floats]:
        s, p, chain = at(parameters)
        by_log, by_going = by_row(s, p, chain)
        log_e, weights, odds = parameters[:k], parameters[k + N_GOING :], parameters[k : k + N_GOING]
        gradient = np.concatenate(
            [
                np.bincount(shown.cell, by_log, k) - SMOOTH * held @ log_e,
                by_going @ shown.going - RIDGE_GOING * odds,
                (by_log * (1.0 - s)) @ features - penalty * weights,
            ]
        )
        cost = 0.5 * float(penalty @ weights**2 + SMOOTH * log_e @ held @ log_e + odds @ (RIDGE_GOING * odds))
        return cost - chain.likelihood, -np.where(fixed, 0.0, gradient)

    limits = [(MIN_LOG, MAX_LOG)] * k + [(-MAX_ODDS, MAX_ODDS)] * N_GOING + [(None, None)] * d
    bounds = [(value, value) if held else limit for value, held, limit in zip(start, fixed, limits)]
    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": MAX_STEPS}).x
    fixed[:k] |= found[:k] >= MAX_LOG - 1e-6
    s, p, chain = at(found)
    by_log, by_going = by_row(s, p, chain)
    directions = np.hstack([np.eye(k)[shown.cell], shown.going * 0.0, (1.0 - s)[:, None] * features])
    rows = by_log[:, None] * directions
    rows[:, k : k + N_GOING] = by_going[:, None] * shown.going
    scores = np.zeros((shown.n_sessions, len(fixed)))
    np.add.at(scores, shown.session, np.where(fixed, 0.0, rows))
    information = (directions * (chain.after_all * p / (1.0 - p))[:, None]).T @ directions
    going = slice(k, k + N_GOING)
    if dependent:  # what is not seen, who has left, costs information: that of the scores themselves
        information = scores.T @ scores
    information[going, going] += np.diag(RIDGE_GOING)
    information[:k, :k] += SMOOTH * held
    information[k + N_GOING :, k + N_GOING :] += np.diag(penalty)
    odds = found[going] if dependent else np.empty(0)
    inverse = _inverse(information, fixed)
    of_page = np.zeros(shown.n_pages, dtype=np.int64)
    of_page[shown.page] = shown.session
    held_out = np.bincount(of_page, chain.by_page, shown.n_sessions) - ((scores @ inverse) * scores).sum(axis=1)
    return ClickFit(found[:k], odds, found[k + N_GOING :], chain.likelihood, scores, inverse, held_out)


def _inverse(information: Floats, fixed: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """0 where a parameter is fixed."""
    information[fixed, :] = information[:, fixed] = 0.0
    information[fixed, fixed] = 1.0
    inverse = np.linalg.inv(information + 1e-9 * np.eye(len(information)))
    inverse[fixed, :] = inverse[:, fixed] = 0.0
    return np.asarray(inverse)


def _together(cells: Cells) -> Floats:
    """The second derivative of ½ Σ (difference of neighbours)²."""
    one = np.eye(cells.n)
    steps = one[cells.neighbours[:, 0]] - one[cells.neighbours[:, 1]]
    return np.asarray(steps.T @ steps)


class AttractionFit(NamedTuple):
    """The weights of features where examination is known, and how they move with sessions and with examination."""

    weights: Floats
    scores: Floats  # (n_sessions, n_features): the gradient of each session
    inverse: Floats  # of the information
    by_examination: Floats  # (n_features, n_cells): the mixed information with log examination

    def moved(self, sessions: Floats, examination: Floats) -> Floats:
        """The weights when sessions count so much more than once, and log examination is so much higher: one step."""
        moved: Floats = self.weights + self.inverse @ (sessions @ self.scores - self.by_examination @ examination)
        return moved


def fit_attraction(features: Floats, shown: Shown, log_examined: Floats, there: Floats) -> AttractionFit:
    """Maximise the same likelihood over the weights alone, by Fisher scoring.

    `log_examined` is by cell; `there` is how likely the person was still there, by row.
    """
    clicked, known = shown.clicked, log_examined[shown.cell]
    weights, value, scale = np.zeros(features.shape[1]), -np.inf, 1.0
    step = np.zeros_like(weights)
    for _ in range(MAX_NEWTON):
        tried = weights + scale * step
        s = attractive(features, tried)
        p = np.minimum(np.exp(known) * s, MAX_PROBABILITY)
        rows = np.where(clicked > 0, np.log(np.maximum(p, 1e-300)), there * np.log1p(-p))
        now = float(rows.sum() - 0.5 * RIDGE * tried @ tried)
        if now < value - 1e-9 and scale > 1e-3:
            scale /= 2.0
            continue
        done = now - value < 1e-7 * max(1.0, abs(now))
        weights, value, scale = tried, now, 1.0
        by_log = np.where(clicked > 0, 1.0, -there * p / (1.0 - p))
        directions = (1.0 - s)[:, None] * features
        heavy = directions * (there * p / (1.0 - p))[:, None]
        inverse = np.linalg.inv(heavy.T @ directions + RIDGE * np.eye(len(weights)))
        step = inverse @ (by_log @ directions - RIDGE * weights)
        if done:
            break
    scores = np.zeros((shown.n_sessions, len(weights)))
    np.add.at(scores, shown.session, by_log[:, None] * directions)
    columns = [np.bincount(shown.cell, column, shown.cells.n) for column in heavy.T]
    mixed = np.stack(columns).astype(np.float64)
    return AttractionFit(weights, scores, np.asarray(inverse), mixed)
