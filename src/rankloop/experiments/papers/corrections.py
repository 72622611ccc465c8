"""What the papers print and cannot hold: each statement with the number that refutes it and the argument."""

from __future__ import annotations

from rankloop.experiments.papers.coactive import corrections as printed_coactive
from rankloop.experiments.papers.registry import Setting, reproduction
from rankloop.experiments.papers.thesis import bound_corrections as printed_bounds
from rankloop.experiments.papers.thesis import learner_corrections as printed_learning
from rankloop.experiments.report.model import Finding

TITLE = "Statements that cannot hold as printed"
TEXT = """Chaudhuri (2016), "Learning to rank"; a supplement on ranking losses for bundle methods; Raman, Joachims, \
Shivaswamy and Schnabel (2013), "Stable coactive learning via perturbation" (for its toy see coactive-toy). Most are \
slips that change no conclusion; the algorithms and bounds here follow the corrected versions. Where a bound is said \
to follow from something, it is held against that, so that a bound may be true and still not follow."""


@reproduction("corrections", title=TITLE)
def corrections(setting: Setting) -> Finding:
    """Every statement, judged by computation."""
    claims = printed_learning.claims() + printed_bounds.claims() + printed_coactive.claims()
    facts = (("seeds", "nothing is drawn"), ("data", "none needed"))
    return Finding(id="corrections", title=TITLE, text=TEXT, claims=claims, facts=facts)
