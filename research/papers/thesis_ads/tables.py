"""What the ad policies learn from: tables 5.1 and 5.2 of the thesis."""

import math
from typing import NamedTuple

from numpy.random import default_rng

from rankloop.bandits.campaign import CLICK_RATES
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.model import Finding, Table
from research.datasets.labelled import read_labelled
from research.papers.thesis_ads.campaigns import IMPRESSIONS, Domain, campaign_of, counts, targeted_log
from research.papers.thesis_ads.labelled_logs import bandit_log
from research.registry import Setting, reproduction
from research.verdicts import word_of


class Shape(NamedTuple):
    """A labelled set, and the share of clicks when its classes are shown at random."""

    size: int
    features: int
    classes: int
    clicked: float


PRINTED_DOMAINS: tuple[Domain, ...] = ("hotel", "bank")
PRINTED_SHAPES = {
    "optdigits": Shape(5620, 64, 10, 0.10),
    "isolet": Shape(7797, 617, 26, 0.04),
    "letter": Shape(20000, 16, 26, 0.04),
    "pendigits": Shape(10992, 16, 10, 0.10),
    "movement_libras": Shape(360, 91, 15, 0.07),
}
SETS = tuple(PRINTED_SHAPES)
MAX_STANDARD_ERRORS = 3.5  # between a simulated click rate and the printed one, ten rates being compared


def shape_of(name: str) -> Shape:
    """Return the shape of a data set."""
    labelled = read_labelled(name)
    clicked = float(bandit_log(labelled, default_rng(0)).rewards.mean())
    return Shape(len(labelled.labels), labelled.features.shape[1], len(labelled.class_names), clicked)


def shapes_table(names: tuple[str, ...], shapes: list[Shape]) -> Table:
    """Return the table of shapes.

    Args:
      names: The data sets.
      shapes: Their shapes.
    """
    rows = [
        (name, f"{s.size:,}", str(s.features), str(s.classes), f"{s.clicked:.1%}") for name, s in zip(names, shapes)
    ]
    return Table("The sets (table 5.1)", ("set", "size", "features", "classes", "clicked when shown at random"), rows)


@reproduction("table-5.1", title="Five public sets turned into logs of ads")
def table_5_1(setting: Setting) -> Finding:
    """Reproduce table 5.1."""
    shapes = [shape_of(name) for name in SETS]
    text = "Each class is an ad, shown at random; it is clicked if it is the true class."
    table = shapes_table(SETS, shapes)
    return Finding(text=text, claims=shape_claims(shapes), tables=(table,))


def shape_claims(shapes: list[Shape]) -> tuple[Verdict, ...]:
    """One shape for each of SETS."""
    counts = {"size": "size", "number of features": "features", "number of classes": "classes"}
    return (*(_count(name, field, shapes) for name, field in counts.items()), _shares(shapes))


def _count(name: str, field: str, shapes: list[Shape]) -> Verdict:
    printed, computed = ([getattr(shape, field) for shape in some] for some in (PRINTED_SHAPES.values(), shapes))
    wrong = [f"{name}: {ours}, not {theirs}" for name, theirs, ours in zip(SETS, printed, computed) if ours != theirs]
    because = "; ".join(wrong) or ", ".join(map(str, computed))
    paper = f"table 5.1: {', '.join(map(str, printed))}"
    return Verdict(f"The {name} of every set is as printed", word_of(len(SETS) - len(wrong), len(SETS)), because, paper)


def _shares(shapes: list[Shape]) -> Verdict:
    """As printed, which is to the percent, up to chance."""
    printed = [shape.clicked for shape in PRINTED_SHAPES.values()]
    slack = [0.005 + MAX_STANDARD_ERRORS * math.sqrt(p * (1.0 - p) / shape.size) for p, shape in zip(printed, shapes)]
    wrong = [n for n, p, s, most in zip(SETS, printed, shapes, slack) if abs(s.clicked - p) > most]
    because = ", ".join(f"{shape.clicked:.1%}" for shape in shapes)
    because += f"; beyond chance: {', '.join(wrong)}" if wrong else ""
    paper = f"table 5.1: {', '.join(f'{p:.0%}' for p in printed)}"
    return Verdict("The share of clicks of every set is as printed, but for chance", word_of(not wrong), because, paper)


@reproduction("table-5.2", title="The training logs of two campaigns, simulated")
def table_5_2(setting: Setting) -> Finding:
    """Reproduce table 5.2."""
    logs = {domain: counts(targeted_log(campaign_of(domain), 1.0, default_rng(0))) for domain in PRINTED_DOMAINS}
    rows = [
        (f"{domain}, offer {ad + 1}", f"{shown:,}", f"{printed:,}", f"{rate:.2%}", f"{CLICK_RATES[domain][ad]:.2%}")
        for domain, (impressions, rates) in logs.items()
        for ad, (shown, rate, printed) in enumerate(zip(impressions, rates, IMPRESSIONS[domain]))
    ]
    header = ("offer", "impressions", "printed", "clicks per impression", "printed")
    text = "The logs of the thesis are not public; these are simulated campaigns with its impressions and click rates."
    return Finding(text=text, tables=(Table("The training sets", header, rows),))
