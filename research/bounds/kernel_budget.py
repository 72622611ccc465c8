"""How much the kernel perceptron can lose when its memory is full: what the ranking perceptron can, and what it forgot.

On a mistake w moves to v = w − η·g, g a sub-gradient of SLAM, and then to v − e, e being what had to leave the memory.
As ‖g‖² ≤ C·f (Lemma 5 of the thesis, `self_bounding` with R² the largest K(x, x)), for every u and any η < 2/C

    Σ (1 − measure) ≤ Σ f(w) ≤ (‖u‖² + 2η·L + D) / (2η − η²·C),    D = Σ (‖v − e‖² − ‖v‖² + 2·‖e‖·‖u‖),

L the summed surrogate of u over the mistakes. Proof: ‖v − e − u‖² = ‖w − u‖² − 2η⟨g, w − u⟩ + η²‖g‖² − 2⟨e, v − u⟩ +
‖e‖², where ⟨g, w − u⟩ ≥ f(w) − f(u) by convexity and ⟨e, u⟩ ≤ ‖e‖·‖u‖; sum over the mistakes, leave out the last
distance. Nothing forgotten is D = 0. The rule of removal decides if D stays small. With `remove="oldest"` and one query
more than fits, all orthogonal and asked in turn, every round is a mistake for ever; with `remove="smallest"` the same
stream costs few. For all rules at once the impossibility needs ‖u‖² ≥ budget + 1 (Dekel, Shalev-Shwartz and Singer,
2008, The Forgetron). `random_budget` has a bound that is known in advance.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.learner import expect
from rankloop.core.types import Feedback, Floats, Query, Relevances
from rankloop.learners.ranking_perceptron import KernelPerceptron, KernelState, cutoff_and_kind
from rankloop.surrogates.pairwise import slam_of


class Forgotten(NamedTuple):
    """Summed over the mistakes: what forgetting did to ‖w‖², and the lengths of what was forgotten."""

    growth: float = 0.0  # Σ ‖v − e‖² − ‖v‖²
    lengths: float = 0.0  # Σ ‖e‖


NOTHING_FORGOTTEN = Forgotten()


def kernel_budget_loss(
    norm: float,
    constant: float,
    learning_rate: float,
    comparator_loss: float = 0.0,
    forgotten: Forgotten = NOTHING_FORGOTTEN,
) -> float:
    """(‖u‖² + 2η·L + D) / (2η − η²·C), with D from what was forgotten; for η = 1/C it is C·(‖u‖² + D) + 2·L."""
    if norm < 0.0 or comparator_loss < 0.0 or not 0.0 < learning_rate * constant < 2.0:
        raise InvalidInput(
            f"norm = {norm} and comparator_loss = {comparator_loss} are at least 0, and learning_rate · constant = "
            f"{learning_rate * constant} lies between 0 and 2"
        )
    paid = forgotten.growth + 2.0 * forgotten.lengths * norm
    return (norm**2 + 2.0 * learning_rate * comparator_loss + paid) / (learning_rate * (2.0 - learning_rate * constant))


def forgotten_in(
    learner: KernelPerceptron, rounds: Iterable[tuple[KernelState, Query, Feedback, KernelState]]
) -> Forgotten:
    """Measured, from the states before and after each update."""
    growth = lengths = 0.0
    for state, query, feedback, after in rounds:
        if after.mistakes == state.mistakes:
            continue
        moved = np.concatenate([state.coefficients, _new(learner, state, query, feedback)])
        full = np.concatenate([moved, np.zeros(len(after.coefficients))])
        kept = np.concatenate([np.zeros(len(moved)), after.coefficients])
        used = (full != 0.0) | (kept != 0.0)
        gram = _gram(learner, np.vstack([state.rows, query.features, after.rows])[used])
        full, kept = full[used], kept[used]
        growth += kept @ gram @ kept - full @ gram @ full
        lengths += float(np.sqrt(max((full - kept) @ gram @ (full - kept), 0.0)))
    return Forgotten(float(growth), lengths)


def _new(learner: KernelPerceptron, state: KernelState, query: Query, feedback: Feedback) -> Floats:
    """The coefficients that the update asks for, −η times the slope of SLAM."""
    items, grades = expect(feedback, Relevances)
    scores = learner.scores(state, query.features)[items]
    new = np.zeros(query.n_items)
    cutoff, binary = cutoff_and_kind(learner.measure)
    new[items] = -learner.learning_rate * slam_of(scores, grades, cutoff, binary, True, learner.margin)[1]
    return new


def _gram(learner: KernelPerceptron, rows: Floats) -> Floats:
    gamma = learner.scale / max(rows.shape[1], 1)
    products: Floats = rows @ rows.T
    if learner.kernel == "polynomial":
        polynomial: Floats = (1.0 + gamma * products) ** learner.degree
        return polynomial
    squares = np.diag(products)
    rbf: Floats = np.exp(-gamma * np.maximum(squares[:, None] + squares[None, :] - 2.0 * products, 0.0))
    return rbf
