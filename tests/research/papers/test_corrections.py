"""Statements that cannot hold as printed: the printed version is refuted, the corrected one is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from rankloop.experiments.analysis.verdicts import Verdict
from research.bounds.coactive import approximate_regret, dynamic_regret
from research.bounds.generalisation import uniform_l1
from research.bounds.topk_regret import second_moment
from research.papers.coactive import corrections as printed_coactive
from research.papers.corrections import corrections
from research.papers.thesis import bound_corrections as printed_bounds
from research.papers.thesis import learner_corrections as printed_learning
from research.verdicts import MAYBE_A_SLIP

N_ITEMS = 20

CORRECTED: dict[str, Callable[[], Verdict]] = {
    "ratio under the root": lambda: printed_learning.missing_ratio(ratio_under_root=40.0),
    "ties in item order": lambda: printed_learning.ties_by_score(lambda scores: np.arange(len(scores))),
    "relevance against what is shown": lambda: printed_learning.lower_bound(lambda ranking: int(ranking[0] == 1)),
    "numbers exchanged": lambda: printed_learning.yahoo(0.74, 0.75),
    "no square": lambda: printed_learning.perturbation(power=1),
    "no factor": lambda: printed_learning.stray_factor(np.ones_like),
    "squared": lambda: printed_learning.second_moment("squared", partial(second_moment, "squared")),
    "kl": lambda: printed_learning.second_moment("kl", partial(second_moment, "kl")),
    "C outside the root": lambda: printed_bounds.local_complexity(lambda constant: constant),
    "leading risk": lambda: printed_bounds.missing_risk(leading=1.0),
    "R outside the root": lambda: printed_coactive.radius_under_root(
        lambda radius: approximate_regret(1, radius, 1.0, 1.0, beta=0.0)
    ),
    "pairs are places": lambda: printed_coactive.worked_example(entries_swapped=False),
    "scores from 0": lambda: printed_coactive.negative_scores((1.0, 0.0)),
    "the term inside": lambda: printed_coactive.term_outside_root(
        lambda radius: dynamic_regret(1, radius, 1.0, 1.0, budget=0.0)
    ),
    "f - y": lambda: printed_bounds.gradient_sign(lambda scores, grades: scores - grades),
}


@pytest.mark.parametrize("corrected", CORRECTED.values(), ids=CORRECTED)
def test_what_is_corrected_holds(corrected: Callable[[], Verdict]) -> None:
    verdict = corrected()
    assert verdict.word == "holds"
    assert verdict.argument == ""


def test_what_is_printed_is_refuted_with_number_position_and_argument() -> None:
    claims = corrections(None).claims  # type: ignore[arg-type]
    refuted = [claim for claim in claims if claim.word == "cannot hold"]
    assert len(refuted) == len(CORRECTED)
    assert all(claim.paper and claim.argument and any(map(str.isdigit, claim.because)) for claim in refuted)
    assert refuted == list(claims), "the list contains only errors"
    assert sum(MAYBE_A_SLIP in claim.argument for claim in claims) == 5


def corollary_39(size: float, n_queries: int, largest: float, n_features: int) -> float:
    """Corollary 39 as printed, A = G·W₁·R̄."""
    inside = 24.0 * N_ITEMS * n_queries * size
    root = math.sqrt(math.log(n_features) * math.log2(inside))
    logarithm = math.log((largest + inside) / (40.0 * math.sqrt(2.0) * size * root))
    return 120.0 * math.sqrt(2.0) * size * root / math.sqrt(n_queries) * logarithm**2


def covering_l1(size: float, n_queries: int, largest: float, n_features: int) -> float:
    """Equation 4.6 with the covering numbers of Proposition 4, as Theorem 40 has it."""
    slack = 3.0 * largest * math.sqrt(math.log(4.0) / (2.0 * n_queries))
    return (uniform_l1(size, 1.0, 1.0, n_queries, N_ITEMS, n_features, largest, 0.5) - slack) / 2.0


def test_corollary_39_is_loose_but_true():
    cases = [(2.0, n_queries, 4.0, 100) for n_queries in (1000, 10**5, 10**7)]
    ratios = [corollary_39(*case) / covering_l1(*case) for case in cases]
    assert 50.0 < min(ratios) < max(ratios) < 1000.0


def test_the_largest_loss_that_lemma_5_allows_solves_its_equation() -> None:
    told = printed_learning.missing_ratio().because
    allowed = float(told.split("a loss of ")[1].split(",")[0])
    weights = printed_learning.slam_weights(np.repeat(np.arange(5.0), 4))
    constant = 4 * weights.positive * weights.ratio
    assert allowed == pytest.approx(1000 + math.sqrt(constant * allowed), abs=1.0)
