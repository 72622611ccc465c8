"""What the papers print and cannot hold: each statement with the number that refutes it and the argument."""

from rankloop.experiments.report.model import Finding
from research.papers.coactive import corrections as coactive
from research.papers.thesis import bound_corrections, learner_corrections
from research.registry import Setting, reproduction

TEXT = """Chaudhuri (2016), "Learning to rank"; a supplement on ranking losses for bundle methods; Raman, Joachims, \
Shivaswamy and Schnabel (2013), "Stable coactive learning via perturbation" (for its toy see coactive-toy). Most are \
slips that change no conclusion; the algorithms and bounds here follow the corrected versions. Where a bound is said \
to follow from something, it is held against that, so that a bound may be true and still not follow."""


@reproduction("corrections", title="Statements that cannot hold as printed")
def corrections(setting: Setting) -> Finding:
    """Every statement, judged by computation."""
    claims = learner_corrections.claims() + bound_corrections.claims() + coactive.claims()
    facts = (("seeds", "nothing is drawn"), ("data", "none needed"))
    return Finding(text=TEXT, claims=claims, facts=facts)
