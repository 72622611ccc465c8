"""Statements that cannot hold as printed: the printed version is refuted, the corrected one is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from rankloop.experiments.analysis.verdicts import Verdict
from research.bounds.coactive import approximate_regret, dynamic_regret
from research.bounds.topk_regret import second_moment
from research.papers.coactive import corrections as printed_coactive
from research.papers.corrections import corrections
from research.papers.thesis import bound_corrections as printed_bounds
from research.papers.thesis import learner_corrections as printed_learning

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
    assert {claim.word for claim in claims if claim not in refuted} == {"partly"}


@pytest.mark.parametrize(("times", "word"), [(0.5, "cannot hold"), (2.0, "holds"), (50.0, "partly")])
def test_a_loose_bound_holds_partly(times: float, word: str) -> None:
    assert printed_bounds.l1_complexity(lambda *case: times * printed_bounds.covering_l1(*case)).word == word


def test_the_largest_loss_that_lemma_5_allows_solves_its_equation() -> None:
    told = printed_learning.missing_ratio().because
    allowed = float(told.split("a loss of ")[1].split(",")[0])
    weights = printed_learning.slam_weights(np.repeat(np.arange(5.0), 4))
    constant = 4 * weights.positive * weights.ratio
    assert allowed == pytest.approx(1000 + math.sqrt(constant * allowed), abs=1.0)
