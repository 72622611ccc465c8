"""The family of click models: what each can draw, foresee and be fitted to, and the belief about unclicked pairs."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from rankloop.click_models.examination import Examination
from rankloop.core.kernels import kernel
from rankloop.core.types import Floats, Ints
from rankloop.logs.list_log import ClickArrays

ModelName = Literal["pbm", "ubm", "cascade", "dcm", "sdbn", "dbn"]
MIN_PROBABILITY = 1e-6  # no probability that is fitted or judged is nearer to 0 or 1
N_LEVELS = 5  # grades 0 … 4 of the users that a log becomes
MIN_Z_SCORE = 3.0  # standard deviations by which pairs must differ more than by chance
ALIKE_ROWS = 1e6  # rows of a belief that no log outweighs: all pairs are the same


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


def rows_of(log: ClickArrays) -> ClickRows:
    """Return the arrays of a log that kernels take."""
    return ClickRows(offsets=log.offsets, pair=log.pair, position=log.position, clicked=log.clicked)


@kernel
def _examination_at(table: Floats, position: int, last_click: int) -> float:
    """Return the probability that a reader examines a position; `last_click` is −1 where there is none above."""
    row = min(position, table.shape[0] - 1)
    distance = 0 if last_click < 0 else position - last_click
    return float(table[row, min(distance, table.shape[1] - 1)])


@kernel
def _stop_after(parameters: ClickParameters, pair: int, position: int) -> float:
    """Return the probability that a user stops after a click: satisfied by the pair, or because of the position."""
    satisfied = parameters.satisfaction[pair]
    return float(satisfied + (1.0 - satisfied) * parameters.stop[min(position, len(parameters.stop) - 1)])


@kernel
def draw_clicks(parameters: ClickParameters, pair: Ints, draws: Floats) -> Ints:
    """Draw the clicks on a page from uniform numbers: by position, 1 for a click and 0 elsewhere.

    Args:
      parameters: The click model.
      pair: By position.
      draws: (1 or 3, n_positions). Row 0 decides the clicks, row 1 who is satisfied, row 2 who loses patience; without
        rows 1 and 2 nobody stops.
    """
    clicked = np.zeros(draws.shape[1], np.int64)
    last_click, may_stop = -1, draws.shape[0] > 1
    for position in range(len(clicked)):
        examined = _examination_at(parameters.examination, position, last_click)
        if draws[0, position] < examined * parameters.attraction[pair[position]]:
            clicked[position] = 1
            last_click = position
            if may_stop and draws[1, position] < _stop_after(parameters, pair[position], position):
                break
        if may_stop and draws[2, position] >= parameters.persistence:
            break
    return clicked


@kernel
def _examined_given_clicks(parameters: ClickParameters, rows: ClickRows) -> Floats:
    """Return P(examined | clicks above on the page) of each row."""
    # After a click the user reads on unless they stop; after none, no click speaks against that they still read.
    examined = np.empty(len(rows.pair))
    for page in range(len(rows.offsets) - 1):
        reading, last_click = 1.0, -1
        for row in range(rows.offsets[page], rows.offsets[page + 1]):
            pair, position = rows.pair[row], rows.position[row]
            e, a = _examination_at(parameters.examination, position, last_click), parameters.attraction[pair]
            examined[row] = reading * e
            if rows.clicked[row] > 0.0:
                reading = parameters.persistence * (1.0 - _stop_after(parameters, pair, position))
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
      parameters: Those of the click model.
      rows: Of the pages.
    """
    examined = np.zeros(len(rows.pair))
    by_distance = parameters.examination.shape[1] > 1
    for page in range(len(rows.offsets) - 1):
        start, end = rows.offsets[page], rows.offsets[page + 1]
        reading = np.zeros(end - start + 1)
        reading[0] = 1.0
        for row in range(start, end):
            pair, position = rows.pair[row], rows.position[row]
            a, stop = parameters.attraction[pair], _stop_after(parameters, pair, position)
            if not by_distance:
                e = _examination_at(parameters.examination, position, -1)
                examined[row] = reading[0] * e
                reading[0] *= parameters.persistence * (1.0 - e * a * stop)
                continue
            for state in range(row - start + 1):
                last_click = rows.position[start + state - 1] if state > 0 else -1
                e = _examination_at(parameters.examination, position, last_click)
                examined[row] += reading[state] * e
                reading[state] *= parameters.persistence * (1.0 - e * a)
            reading[row - start + 1] = parameters.persistence * examined[row] * a * (1.0 - stop)
    return examined


class ClickProbabilities(NamedTuple):
    """By row: the probability that it is examined, and that it is clicked."""

    examined: Floats
    clicked: Floats


def clipped(values: Floats) -> Floats:
    """Return probabilities none of which is nearer to 0 or 1 than `MIN_PROBABILITY`."""
    probabilities: Floats = np.clip(values, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return probabilities


class Prior(NamedTuple):
    """A belief about every pair: as if `rows` rows had been examined of which a share `mean` was clicked."""

    mean: Floats  # by pair
    rows: float

    @classmethod
    def estimated(cls, hits: Floats, rows: Floats) -> Self:
        """Return a belief as strong as the pairs are alike: by how much more their shares differ than by chance."""
        # With p = hits/rows, mean m and variance τ² between pairs, E Σ rows (p − m)² = Σ m(1 − m) + τ² Σ (rows − 1),
        # from which τ² and the rows of a beta distribution, m(1 − m)/τ² − 1.
        mean = float((hits.sum() + 0.5) / (rows.sum() + 1.0))
        n, h = rows[rows > 0.0], hits[rows > 0.0]
        noise = mean * (1.0 - mean)
        excess = float((n * (h / n - mean) ** 2).sum()) - noise * max(len(n) - 1, 0)
        informative = float(np.maximum(n - 1.0, 0.0).sum())
        spread = np.sqrt((2.0 * noise**2 + noise * max(1.0 - 6.0 * noise, 0.0) / n).sum()) if len(n) else 0.0
        means = np.full(len(hits), mean)
        if informative <= 0.0 or excess <= MIN_Z_SCORE * spread:
            return cls(means, ALIKE_ROWS)
        return cls(means, float(np.clip(noise * informative / excess - 1.0, 0.5, ALIKE_ROWS)))

    def shares(self, hits: Floats, rows: Floats) -> Floats:
        """Return the expected share of each pair after so many hits in so many rows."""
        total = rows + self.rows
        means = np.where(total > 0.0, (hits + self.rows * self.mean) / np.where(total > 0.0, total, 1.0), self.mean)
        return clipped(means)

    def log_density(self, shares: Floats) -> float:
        """Return the logarithm of the density of the shares of all pairs, but for a constant."""
        return self.rows * float((self.mean * np.log(shares) + (1.0 - self.mean) * np.log1p(-shares)).sum())


class Evidence(NamedTuple):
    """The counts behind a fitted model, by pair, and how expectation maximisation went."""

    clicks: Floats
    examined: Floats  # expected number of examinations
    prior: Prior
    objectives: tuple[float, ...] = ()  # log-likelihood and prior, before each round; empty: closed form


NO_EVIDENCE = Evidence(np.zeros(0), np.zeros(0), Prior(np.zeros(0), 0.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickModel:
    """A click model with its numbers, given or fitted.

    A pair is whatever attracts alike: an item shown for a query, an item, or a grade. The reading process is that of
    `ClickParameters`; each subclass has some of its numbers and leaves the others neutral.
    Reference: Chuklin, Markov and de Rijke (2015), Click Models for Web Search.
    """

    name: ClassVar[ModelName]
    numbers: ClassVar[tuple[str, ...]] = ()  # those of its own, beside attraction
    browsing: ClassVar[bool] = False  # examines by position, and never stops

    attraction: Floats  # P(click | examined), by pair
    satisfaction: Floats = field(default_factory=lambda: np.zeros(0))  # P(stop | click), by pair
    examination: Floats = field(default_factory=lambda: np.ones((1, 1)))  # as of `ClickParameters`
    stop: Floats = field(default_factory=lambda: np.zeros(1))  # P(stop | click), by position
    persistence: float = 1.0  # P(read on | not stopped by a click)
    evidence: Evidence = NO_EVIDENCE  # what the model was fitted to

    @property
    def parameters(self) -> ClickParameters:
        """The numbers as kernels take them."""
        return ClickParameters(
            attraction=self.attraction,
            satisfaction=self.satisfaction if len(self.satisfaction) else np.zeros(len(self.attraction)),
            examination=self.examination,
            stop=self.stop,
            persistence=self.persistence,
        )

    def observe(self, pair: Ints, draws: Floats) -> Ints:
        """Draw the clicks on a page, as `draw_clicks`; one row of numbers is enough where nobody stops (pbm, ubm)."""
        return draw_clicks(self.parameters, pair, draws)

    def probabilities(self, log: ClickArrays, *, given_clicks: bool = False) -> ClickProbabilities:
        """Return how likely each row of a log is examined and clicked, whatever or given what was clicked above it."""
        examined_rows = _examined_given_clicks if given_clicks else examined_whatever_clicks
        examined = examined_rows(self.parameters, rows_of(log))
        return ClickProbabilities(examined, examined * self.attraction[log.pair])

    def log_likelihood(self, log: ClickArrays) -> Floats:
        """Return the log-likelihood of each page; the impossible (two clicks in a cascade) counts as a millionth."""
        logs = row_log_likelihoods(self.probabilities(log, given_clicks=True).clicked, log.clicked)
        pages: Floats = np.add.reduceat(logs, log.offsets[:-1])
        return pages

    def surprises(self, log: ClickArrays) -> Floats:
        """Return the surprise of each row in bits: how little the model expected it, whatever happened above."""
        bits: Floats = -row_log_likelihoods(self.probabilities(log).clicked, log.clicked) / np.log(2.0)
        return bits

    @classmethod
    def examination_table(cls, log: ClickArrays, examination: Examination | None = None) -> Floats:
        """Return P(examined) by position and distance to the last click, as the shared estimate of the log says."""
        return np.ones((log.n_positions, 1))

    @classmethod
    def fit(cls, log: ClickArrays, prior: Prior | None = None, *, table: Floats | None = None) -> Self:
        """Fit the model to a log; by default with a prior as strong as its pairs are alike, and the shared table."""
        table = cls.examination_table(log) if table is None else table
        prior = cls.fit_alike(log, table=table).prior_of(log) if prior is None else prior
        return cls._fit(log, prior, table)

    @classmethod
    def fit_alike(cls, log: ClickArrays, mean: Floats | None = None, *, table: Floats) -> Self:
        """Fit the model in which pairs differ by nothing, or only as `mean`, the attraction of each pair, says."""
        if mean is not None:
            return cls._fit(log, Prior(mean, ALIKE_ROWS), table)
        merged = log._replace(pair=np.zeros_like(log.pair), items=("",), query_ids=("",))
        model = cls._fit(merged, Prior(np.array([0.5]), 0.0), table)
        attraction, satisfaction = (np.repeat(part, log.n_pairs) for part in (model.attraction, model.satisfaction))
        return replace(model, attraction=attraction, satisfaction=satisfaction)

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, table: Floats) -> Self:
        raise NotImplementedError

    def prior_of(self, log: ClickArrays) -> Prior:
        """Return a belief as strong as pairs are alike, from how this model, which knows no other difference, errs."""
        # Where a pair attracts by δ more than the model says, two of its rows err together: with e the probability that
        # a row was examined, E(c − p)(c' − p') = e e' E δ². So E δ² is a ratio of sums over the rows of each pair, two
        # and two, and a beta distribution with that variance has m(1 − m)/E δ² − 1 rows. Where the sum is within
        # chance, pairs are taken to be as the model says.
        p, mean = clipped(self.probabilities(log, given_clicks=True).clicked), self.attraction
        examined = p / mean[log.pair]

        def two_and_two(values: Floats) -> float:
            """Σ over pairs of Σ over two different rows of the product."""
            sums = np.bincount(log.pair, values, log.n_pairs)
            return float((sums**2).sum() - (values**2).sum())

        together, chance = two_and_two(log.clicked - p), np.sqrt(2.0 * max(two_and_two(p * (1.0 - p)), 0.0))
        if together <= MIN_Z_SCORE * chance or chance == 0.0:
            return Prior(mean, ALIKE_ROWS)
        between = together / max(two_and_two(examined), 1e-12)
        noise = float(np.average(mean * (1.0 - mean), weights=np.bincount(log.pair, examined, log.n_pairs) + 1e-12))
        return Prior(mean, float(np.clip(noise / between - 1.0, 0.5, ALIKE_ROWS)))

    def levels(self) -> tuple[Floats, Floats]:
        """Return mean attraction and satisfaction of equal parts of what was examined, the least attractive first."""
        order = np.argsort(self.attraction, kind="stable")
        weights = self.evidence.examined[order] + 1e-9
        part = np.minimum((np.cumsum(weights) / weights.sum() * N_LEVELS - 1e-9).astype(int), N_LEVELS - 1)
        attraction, satisfaction = np.zeros(N_LEVELS), np.zeros(N_LEVELS)
        for level in range(N_LEVELS):
            pairs = order[part == level] if (part == level).any() else order[[min(len(order) - 1, level)]]
            attraction[level] = np.average(self.attraction[pairs], weights=self.evidence.examined[pairs] + 1e-9)
            if len(self.satisfaction):
                satisfaction[level] = np.average(self.satisfaction[pairs], weights=self.evidence.clicks[pairs] + 1e-9)
        return np.maximum.accumulate(attraction), satisfaction

    def spec(self, by_grade: bool = True) -> dict[str, Any]:
        """Describe the users of the log as `fitted_users`, for any experiment; levels of attraction stand for grades.

        Without `by_grade` they take relevance for attraction.
        """
        attraction, satisfaction = self.levels()
        values = {"satisfaction": satisfaction, "examination": self.examination, "stop": self.stop}
        numbers = {name: values.get(name, self.persistence) for name in self.numbers}
        rounded = {name: np.round(value, 6).tolist() for name, value in ({"attraction": attraction} | numbers).items()}
        by_relevance = {} if by_grade else {"by_grade": False}
        return {"kind": "fitted_users", "model": self.name} | rounded | by_relevance | {"shown": len(self.examination)}


def row_log_likelihoods(probabilities: Floats, clicked: Floats) -> Floats:
    """Return by row the logarithm of the probability of a click or of none.

    Args:
      probabilities: Of a click.
      clicked: Above 0 where it was clicked.
    """
    p = clipped(probabilities)
    return np.where(clicked > 0.0, np.log(p), np.log1p(-p))
