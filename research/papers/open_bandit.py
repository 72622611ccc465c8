"""The random policy's click rate, estimated from the log of Thompson sampling and compared with its own log."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rankloop.evaluation.off_policy.estimators import Estimate, Options, estimate
from rankloop.experiments.analysis.verdicts import Verdict, Word
from rankloop.experiments.report.model import Finding, Table
from rankloop.logs.choice_log import ChoiceLog, ChoiceRows, rows_of
from research.charts import dots
from research.registry import Setting, reproduction

CAMPAIGNS = ("all", "men", "women")
METHODS = ("ips", "snips", "clipped_ips")
CLIPPING_LIMIT = 100.0
CONFIDENCE_LEVEL = 0.975  # at each end, so that an interval holds with 95 %


class Compared(NamedTuple):
    """Estimate of the random log itself, and the estimates of METHODS from the other log."""

    campaign: str
    on_policy: Estimate
    guesses: list[Estimate]


@reproduction("open-bandit", title="A random policy's click rate, told from another policy's log")
def open_bandit(setting: Setting) -> Finding:
    """Reproduce the estimates on the Open Bandit data."""
    comparisons = []
    for position, campaign in enumerate(CAMPAIGNS):
        comparisons.append(compared(campaign))
        setting.progress(position + 1, len(CAMPAIGNS))
    return finding(comparisons)


def compared(campaign: str) -> Compared:
    """Both logs of a campaign of the Open Bandit Dataset."""
    random, thompson = (ChoiceLog(f"clicks/obd/{policy}/{campaign}.csv.gz") for policy in ("random", "bts"))
    n_items = len({item for piece in random.pieces() for item in piece.action})
    options = Options(level=CONFIDENCE_LEVEL, bound="bootstrap", limit=CLIPPING_LIMIT)
    on_policy = estimate(_rows(random, n_items), "ips", options)
    return Compared(campaign, on_policy, [estimate(_rows(thompson, n_items), method, options) for method in METHODS])


def _rows(table: ChoiceLog, n_items: int) -> Iterator[ChoiceRows]:
    """The target shows every item with the same probability at every position."""
    for piece in table.pieces():
        uniform = np.full(len(piece.reward), 1.0 / n_items)
        yield rows_of(piece.reward, piece.propensity, uniform, first_row=piece.first_row, where=table.name)


def finding(comparisons: list[Compared]) -> Finding:
    """Return the section of the report."""
    rows = [
        [compared.on_policy.value * 100] + [guess.value * 100 for guess in compared.guesses] for compared in comparisons
    ]
    low = [[(e.value - e.lower) * 100 for e in (compared.on_policy, *compared.guesses)] for compared in comparisons]
    high = [[(e.upper - e.value) * 100 for e in (compared.on_policy, *compared.guesses)] for compared in comparisons]
    chart = dots(
        "open-bandit",
        "Click rate of the random policy",
        [compared.campaign for compared in comparisons],
        ["its own log", *(f"{method}, other log" for method in METHODS)],
        np.array(rows).T,
        np.array(low).T,
        np.array(high).T,
        y_label="clicks per 100 impressions",
        caption="Bars: 95 % bootstrap intervals.",
    )
    return Finding(
        text=(
            "The small version of the Open Bandit Dataset (Saito, Aihara, Matsutani and Narita 2021): 10,000 "
            "impressions by a random policy and 10,000 by Bernoulli Thompson sampling, for each of three campaigns."
        ),
        claims=tuple(claim(compared) for compared in comparisons),
        charts=(chart,),
        tables=(_table(comparisons),),
    )


def claim(compared: Compared) -> Verdict:
    """The self-normalised estimate and the random log's own mean differ by less than chance allows (95 %)."""
    guess = compared.guesses[METHODS.index("snips")]
    allowed = 1.96 * math.hypot(guess.standard_error, compared.on_policy.standard_error)
    difference = guess.value - compared.on_policy.value
    word: Word = "holds" if abs(difference) <= allowed else "does not hold"
    if word == "holds" and guess.warnings:
        word = "partly"
    doubt = f"; beware: {guess.warnings[0]}" if guess.warnings else ""
    because = f"difference {difference:+.3%}, allowed {allowed:.3%}{doubt}"
    return Verdict(f"On campaign {compared.campaign} the other log tells the random policy's click rate", word, because)


def _table(comparisons: list[Compared]) -> Table:
    rows = []
    for compared in comparisons:
        for name, e in zip(("its own log", *METHODS), (compared.on_policy, *compared.guesses)):
            counted = f"{e.effective_n:,.0f}"
            rows.append((f"{compared.campaign}, {name}", f"{e.value:.3%}", f"{e.lower:.3%}", f"{e.upper:.3%}", counted))
    header = ("campaign, estimate from", "click rate", "from", "to", "rows count as")
    return Table("The random policy's click rate, with 95 % intervals", header, rows)
