"""Check certificates independently of the search: losses come straight from the measure.

Observability is decided by least squares over the feedback of the rankings, terms by plain alternating sums.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from rankloop.core.types import Floats
from rankloop.games.analysis import Analysis
from rankloop.games.certificate import AllEqual, AllSeen, Border, Order, Refuted, Unseen

LOSS_TOLERANCE = 1e-8
MAX_ITEMS = 6


def objection(analysis: Analysis) -> str | None:
    """Return what is wrong with the certificate of an analysis; None when it proves the verdict. For up to 6 items."""
    if analysis.n_items > MAX_ITEMS:
        return f"{analysis.n_items} items are too many to go through all rankings; at most {MAX_ITEMS} are checked"
    try:
        return _Checked(analysis).objection()
    except (ValueError, IndexError):
        return "the certificate names items, grades or rankings that the game does not have"


class _Checked:
    """Matrices of an analysis, computed from the measure."""

    def __init__(self, analysis: Analysis) -> None:
        measure = analysis.measure
        self.analysis = analysis
        self.depth = min(analysis.depth, analysis.n_items)
        self.orders = list(itertools.permutations(range(analysis.n_items)))
        self.relevances = list(itertools.product(range(analysis.max_grade + 1), repeat=analysis.n_items))
        grades = np.array(self.relevances, dtype=np.float64)
        values = np.array([[measure(np.array(order), row) for row in grades] for order in self.orders])
        losses = -values if measure.higher_is_better else values
        self.losses: Floats = losses / max(np.abs(losses - losses[0]).max(), LOSS_TOLERANCE)

    def objection(self) -> str | None:
        """Return the first complaint."""
        certificate, verdict = self.analysis.certificate, self.analysis.verdict
        if verdict == "trivial":
            return self._all_equal() if isinstance(certificate, AllEqual) else "not a certificate of trivial"
        if self._all_equal() is None:
            return "all rankings are equally good, which is trivial"
        if verdict == "hopeless":
            return self._unseen(certificate) if isinstance(certificate, Unseen) else "not a certificate of hopeless"
        if verdict == "two_thirds":
            if not isinstance(certificate, Border):
                return "not a certificate of two_thirds"
            return self._everything_observable() or self._border(certificate)
        return self._all_seen(certificate) if isinstance(certificate, AllSeen) else "not a certificate of sqrt"

    def _all_equal(self) -> str | None:
        unequal = np.abs(self.losses - self.losses[0]).max(axis=1) > LOSS_TOLERANCE
        return f"the ranking {self.orders[int(unequal.argmax())]} differs from the first" if unequal.any() else None

    def _unseen(self, proof: Unseen) -> str | None:
        if len(proof.items) <= self.depth:
            return f"the items {proof.items} can be seen together at depth {self.depth}"
        return self._no_term(proof)

    def _no_term(self, proof: Unseen | Border) -> str | None:
        """Return a complaint unless the alternating sum over the sets of items differs from 0."""
        difference = self._row(proof.second) - self._row(proof.first)
        total = 0.0
        for chosen in itertools.product((0, 1), repeat=len(proof.items)):
            relevance = [0] * self.analysis.n_items
            for item, grade, present in zip(proof.items, proof.grades, chosen):
                relevance[item] = grade * present
            total += (-1) ** (len(chosen) - sum(chosen)) * difference[self.relevances.index(tuple(relevance))]
        if abs(total) > LOSS_TOLERANCE and len(set(proof.items)) == len(proof.items) and min(proof.grades) > 0:
            return None
        return f"the difference has no term of the items {proof.items} at the grades {proof.grades}"

    def _border(self, proof: Border) -> str | None:
        p = np.zeros(len(self.relevances))
        for relevance, probability in proof.witness:
            p[self.relevances.index(relevance)] += probability
        if (p < 0).any() or abs(p.sum() - 1.0) > LOSS_TOLERANCE:
            return "the witness is no distribution"
        gaps = (self.losses - self._row(proof.first)) @ p
        between = self._between(proof.first, proof.second)
        if np.abs(gaps[between]).max() > LOSS_TOLERANCE:
            return "the witness prefers one of the two rankings"
        if (np.delete(gaps, between) <= LOSS_TOLERANCE).any():
            return "under the witness another ranking is as good as the two"
        if any(set(proof.items) <= set(self.orders[row][: self.depth]) for row in between):
            return f"the items {proof.items} are seen together by showing one of the two rankings"
        return self._no_term(proof)

    def _everything_observable(self) -> str | None:
        """Return a complaint when the difference to some ranking cannot be estimated from all rankings together."""
        space = self._signals(self.orders)
        complaints = (self._unseen_by(space, row) for row in range(len(self.orders)))
        return next(filter(None, complaints), None)

    def _all_seen(self, proof: AllSeen) -> str | None:
        complaint = next(filter(None, map(self._not_refuted, proof.refuted)), None)
        excused = [self._row(entry.ranking) for entry in proof.refuted]
        for row, order in enumerate(self.orders):
            if complaint is None and not any(self._same(self.losses[row], other) for other in excused):
                between = [self.orders[i] for i in self._between(self.orders[0], order)]
                complaint = self._unseen_by(self._signals(between), row)
        return complaint

    def _not_refuted(self, entry: Refuted) -> str | None:
        if min(entry.weights, default=0.0) < 0.0 or entry.factor <= 0.0:
            return f"the weights that refute {entry.ranking} are not positive"
        inequality = self._row(entry.ranking) - self.losses[0]
        if any(self._same(self._row(order), self._row(entry.ranking)) for order in entry.combined):
            return f"{entry.ranking} is refuted by itself"
        shares = [weight / entry.factor for weight in entry.weights]
        rows = [share * (self._row(order) - self.losses[0]) for order, share in zip(entry.combined, shares)]
        if (np.sum(rows, axis=0) > inequality + LOSS_TOLERANCE).any():
            return f"the combination does not refute {entry.ranking}"
        return None

    def _unseen_by(self, space: Floats, row: int) -> str | None:
        difference = self.losses[row] - self.losses[0]
        solution = np.linalg.lstsq(space, difference, rcond=None)[0]
        if np.abs(space @ solution - difference).max() <= LOSS_TOLERANCE:
            return None
        return f"the difference between {self.orders[0]} and {self.orders[row]} cannot be estimated"

    def _signals(self, orders: Iterable[Order]) -> Floats:
        """Return one column per set of top items and grades on it: 1 where these grades come back."""
        tops = sorted({tuple(sorted(order[: self.depth])) for order in orders})
        grades = np.array(self.relevances)
        columns = []
        for top in tops:
            revealed = [tuple(row) for row in grades[:, top].tolist()]
            columns += [[float(value == grades_seen) for value in revealed] for grades_seen in sorted(set(revealed))]
        return np.array(columns).T

    def _between(self, first: Order, second: Order) -> list[int]:
        """Return the rankings whose loss rows lie on the segment between two."""
        start, along = self._row(first), self._row(second) - self._row(first)
        length = float(along @ along)
        if length < LOSS_TOLERANCE:
            return [row for row in range(len(self.orders)) if self._same(self.losses[row], start)]
        steps = np.clip((self.losses - start) @ along / length, 0.0, 1.0)
        off = np.abs(self.losses - start - steps[:, None] * along).max(axis=1)
        return [int(row) for row in np.flatnonzero(off <= LOSS_TOLERANCE)]

    def _row(self, order: Order) -> Floats:
        row: Floats = self.losses[self.orders.index(tuple(order))]
        return row

    @staticmethod
    def _same(row: Floats, other: Floats) -> bool:
        return bool(np.abs(row - other).max() <= LOSS_TOLERANCE)
