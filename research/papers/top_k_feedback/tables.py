"""The printed tables of the top-1 game with three items, computed from the measures themselves."""

import numpy as np

from rankloop.core.kernels import ranking_of
from rankloop.core.types import Floats
from rankloop.experiments.analysis.verdicts import Verdict
from rankloop.experiments.report.model import Finding, Table
from rankloop.games import Game, analyse_depths
from rankloop.measures import parse_measure
from research.games.matrices import Grid, feedback_grid, loss_grid
from research.games.theorem_32 import theorem_32
from research.registry import Setting, reproduction
from research.verdicts import word_of

PRINTED_LOSSES = """
123 0 3 2 5 1 4 3 6
132 0 2 3 5 1 3 4 6
213 0 3 1 4 2 5 3 6
231 0 1 3 4 2 3 5 6
312 0 2 1 3 3 5 4 6
321 0 1 2 3 3 4 5 6
"""
PRINTED_GRADES = """
123 0 0 0 0 1 1 1 1
132 0 0 0 0 1 1 1 1
213 0 0 1 1 0 0 1 1
231 0 1 0 1 0 1 0 1
312 0 0 1 1 0 0 1 1
321 0 1 0 1 0 1 0 1
"""
PROOF_SOURCE = "proof of Theorem 32, with table B.1"
NOTHING_DRAWN = (("seeds", "nothing is drawn"), ("data", "none needed"))
MEAN_GRADES = (0.45, 0.45, 0.4)
MEAN_SHARES = ((0.3533, 0.3920, 0.3226), (0.3339, 0.3339, 0.4000))


def entries_verdict(printed: str, grid: Grid, where: str = "") -> Verdict:
    """Decide if every entry of the printed table is computed.

    Args:
      printed: The printed table.
      grid: The computed table.
      where: The place in the paper.
    """
    expected = [tuple(line.split()) for line in printed.strip().splitlines()]
    computed = {row[0]: row for row in grid.rows}
    wrong = [
        f"row {row[0]}, column {grid.header[j]}: {row[j]} printed, {computed[row[0]][j]} computed"
        for row in expected
        for j in range(1, len(row))
        if computed[row[0]][j] != row[j]
    ]
    n_entries = sum(len(row) - 1 for row in expected)
    paper = f"{where}: {n_entries} entries"
    because = "; ".join(wrong) or f"all {n_entries} entries are equal"
    return Verdict("Every entry of the printed table comes out.", word_of(not wrong), because, paper)


def numbers_verdict(text: str, printed: tuple[float, ...], computed: Floats, where: str = "") -> Verdict:
    """Decide if printed decimals are the computed ones, to the printed digits.

    Args:
      text: The claim.
      printed: The printed numbers.
      computed: The computed numbers.
      where: The place in the paper.
    """
    worst = float(np.abs(np.array(printed) - computed).max())
    shown, expected = (", ".join(f"{value:.4f}" for value in values) for values in (computed, printed))
    return Verdict(text, word_of(worst < 6e-5), f"({shown}), off by at most {worst:.5f}", f"{where}: ({expected})")


@reproduction("table-3.1", title="The loss of every ranking of three items: SumLoss")
def losses(setting: Setting) -> Finding:
    """Reproduce the loss matrix."""
    grid = loss_grid(Game(measure=parse_measure("SumLoss"), n_items=3))
    analyses = analyse_depths("SumLoss", 3)
    rows = [(str(analysis.depth), analysis.verdict, analysis.reason) for analysis in analyses]
    text = "Rows are rankings, written as the rank of each item; columns are the grades that users may have in mind."
    return Finding(
        text=text,
        claims=(entries_verdict(PRINTED_LOSSES, grid, "table 3.1"), _regret_class(analyses[0].verdict)),
        tables=(
            Table("Loss matrix", grid.header, grid.rows),
            Table("What follows for each depth of feedback", ("depth", "regret class", "why"), rows),
        ),
        facts=NOTHING_DRAWN,
    )


def _regret_class(verdict: str) -> Verdict:
    """Theorem 12 and what follows from it: learnable from the first grade, but not at the rate of full feedback."""
    return Verdict(
        "With the grade of the first item the minimax regret is Θ(T^(2/3)).",
        word_of(verdict == "two_thirds"),
        f"{verdict}, by deciding global and local observability",
        "section 3.2.6: Θ(T^(2/3))",
    )


@reproduction("table-3.2", title="What each ranking of three items reveals when the first grade comes back")
def feedback(setting: Setting) -> Finding:
    """Reproduce the feedback matrix."""
    grid = feedback_grid(Game(measure=parse_measure("SumLoss"), n_items=3), depth=1)
    text = "The learner sees this entry and never its loss: rows of the loss table with the same entries here differ."
    return Finding(
        text=text,
        claims=(entries_verdict(PRINTED_GRADES, grid, "table 3.2"),),
        tables=(Table("Feedback matrix", grid.header, grid.rows),),
        facts=NOTHING_DRAWN,
    )


@reproduction("table-B.1", title="Two kinds of users that the first grade cannot tell apart")
def twins(setting: Setting) -> Finding:
    """Reproduce the pair of distributions of Theorem 32."""
    pair = theorem_32()
    relevances = pair.relevances.astype(np.float64)
    both = (pair.first, pair.second)
    shares = [probabilities @ ideal_shares(relevances) for probabilities in both]
    means = [probabilities @ relevances for probabilities in both]
    equal = float(np.abs(means[0] - means[1]).max())
    orders = [ranking_of(share).tolist() for share in shares]
    claims = (
        numbers_verdict("The mean grades are (0.45, 0.45, 0.4).", MEAN_GRADES, means[0], PROOF_SOURCE),
        Verdict(
            "Both have the same mean grades, so feedback on the first item looks the same.",
            word_of(equal < 1e-12),
            f"they differ by {equal:.1e}",
            f"{PROOF_SOURCE}: equal",
        ),
        numbers_verdict(
            "The mean gain over ideal gain under p is as printed.", MEAN_SHARES[0], shares[0], PROOF_SOURCE
        ),
        numbers_verdict(
            "The mean gain over ideal gain under p̃ is as printed.", MEAN_SHARES[1], shares[1], PROOF_SOURCE
        ),
        Verdict(
            "No ranking is the best for both, so every learner fails on one of them.",
            word_of(orders[0][0] != orders[1][0] and pair.gap > 0),
            f"the best orders are {orders[0]} and {orders[1]}; any ranking loses {pair.gap:.4f} per round in sum",
            f"{PROOF_SOURCE}: item 2 first under p, item 3 first under p̃; items count from 1 there, from 0 here",
        ),
    )
    rows = [("".join(str(int(grade)) for grade in row), f"{p:.2f}", f"{q:.2f}") for row, p, q in zip(relevances, *both)]
    text = "Play it: rankloop's stream `hopeless` draws from such pairs, and regret grows linearly on one of the two."
    return Finding(
        text=text,
        claims=claims,
        tables=(Table("Chances of each relevance", ("grades", "p", "p̃"), rows),),
        facts=NOTHING_DRAWN,
    )


def ideal_shares(relevances: Floats) -> Floats:
    """G(R) / Z(R) of each item: its gain over the DCG of the ideal ranking; 0 where nothing is relevant."""
    dcg = parse_measure("DCG")
    ideal = np.array([dcg.best(row) for row in relevances])
    return (2.0**relevances - 1.0) / np.where(ideal == 0.0, 1.0, ideal)[:, None]
