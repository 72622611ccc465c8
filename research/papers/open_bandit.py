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
LIMIT = 100.0
LEVEL = 0.975  # at each end, so that an interval holds with 95 %


class Compared(NamedTuple):
    """What the random log itself says, and what each of METHODS says of it from the other log."""

    campaign: str
    own: Estimate
    guesses: list[Estimate]


@reproduction("open-bandit", title="A random policy's click rate, told from another policy's log")
def open_bandit(setting: Setting) -> Finding:
    found = []
    for position, campaign in enumerate(CAMPAIGNS):
        found.append(compared(campaign))
        setting.progress(position + 1, len(CAMPAIGNS))
    return finding(found)


def compared(campaign: str) -> Compared:
    """Both logs of a campaign of the Open Bandit Dataset."""
    random, thompson = (ChoiceLog(f"clicks/obd/{policy}/{campaign}.csv.gz") for policy in ("random", "bts"))
    n_items = len({item for piece in random.pieces() for item in piece.action})
    options = Options(level=LEVEL, bound="bootstrap", limit=LIMIT)
    own = estimate(_rows(random, n_items), "ips", options)
    return Compared(campaign, own, [estimate(_rows(thompson, n_items), method, options) for method in METHODS])


def _rows(table: ChoiceLog, n_items: int) -> Iterator[ChoiceRows]:
    """The target shows every item with the same probability at every position."""
    for piece in table.pieces():
        uniform = np.full(len(piece.reward), 1.0 / n_items)
        yield rows_of(piece.reward, piece.propensity, uniform, first_row=piece.first_row, where=table.name)


def finding(found: list[Compared]) -> Finding:
    rows = [[one.own.value * 100] + [guess.value * 100 for guess in one.guesses] for one in found]
    low = [[(e.value - e.lower) * 100 for e in (one.own, *one.guesses)] for one in found]
    high = [[(e.upper - e.value) * 100 for e in (one.own, *one.guesses)] for one in found]
    chart = dots(
        "open-bandit",
        "Click rate of the random policy",
        [one.campaign for one in found],
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
        claims=tuple(claim(one) for one in found),
        charts=(chart,),
        tables=(_table(found),),
    )


def claim(one: Compared) -> Verdict:
    """The self-normalised estimate and the random log's own mean differ by less than chance allows (95 %)."""
    guess = one.guesses[METHODS.index("snips")]
    allowed = 1.96 * math.hypot(guess.standard_error, one.own.standard_error)
    difference = guess.value - one.own.value
    word: Word = "holds" if abs(difference) <= allowed else "does not hold"
    if word == "holds" and guess.warnings:
        word = "partly"
    doubt = f"; beware: {guess.warnings[0]}" if guess.warnings else ""
    because = f"difference {difference:+.3%}, allowed {allowed:.3%}{doubt}"
    return Verdict(f"On campaign {one.campaign} the other log tells the random policy's click rate", word, because)


def _table(found: list[Compared]) -> Table:
    rows = []
    for one in found:
        for name, e in zip(("its own log", *METHODS), (one.own, *one.guesses)):
            counted = f"{e.effective_n:,.0f}"
            rows.append((f"{one.campaign}, {name}", f"{e.value:.3%}", f"{e.lower:.3%}", f"{e.upper:.3%}", counted))
    header = ("campaign, estimate from", "click rate", "from", "to", "rows count as")
    return Table("The random policy's click rate, with 95 % intervals", header, rows)
