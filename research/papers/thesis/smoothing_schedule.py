"""Whether SmoothDCG learns better when its smoothing shrinks over the rounds, an open question of the thesis."""

from typing import Any

from rankloop.experiments.report.model import Finding
from research.papers.thesis.query_figures import ACCEPTED_OPTIONS, BALL_RADII, Plan, claim, on_all
from research.papers.thesis.step_sizes import Contender
from research.registry import Setting, reproduction

FIXED, SHARP = "smoothing 1", "smoothing 0.01"
SLOW, FAST = "annealed, t^(−0.1)", "annealed, t^(−0.2)"
TEXT = """Chaudhuri (2016), "Learning to rank", section 3.4.2: with SmoothDCG, Algorithm 5 performs poorly, perhaps \
for getting stuck in local minima; "in batch setting, such problem is avoided by an annealing technique that \
successively reduces ε. We are not aware of an analogue in an online setting." Here is one: the smoothing is t^(−a) \
in round t, beside a smoothing of 1 and the thesis' own, 0.01. Step size and radius of each are chosen on another part \
of the stream."""


def _contender(name: str, smoothing: float, decay: float = 0.0) -> Contender:
    learner: dict[str, Any] = {
        "kind": "topk_gradient",
        "surrogate": {"kind": "smooth_dcg", "smoothing": smoothing},
        "smoothing_decay": decay,
    }
    return Contender(name, learner, {"kind": "top_k", "depth": 1}, radii=BALL_RADII)


CONTENDERS = (_contender(FIXED, 1.0), _contender(SHARP, 0.01), _contender(SLOW, 1.0, 0.1), _contender(FAST, 1.0, 0.2))


@reproduction("thesis-3.4-annealing", takes=ACCEPTED_OPTIONS, title="SmoothDCG with a smoothing that shrinks")
def annealing(setting: Setting) -> Finding:
    """Compare schedules of the smoothing of SmoothDCG."""
    claims = [
        *(claim("above", f"Annealing helps: {arm} is above smoothing 1", "", arm, right=FIXED) for arm in (SLOW, FAST)),
        claim("above", "Annealing is above the thesis' smoothing of 0.01", "", SLOW, right=SHARP),
    ]
    plan = Plan("thesis-3.4-annealing", CONTENDERS, claims, horizon=20_000, quick_horizon=2000, seeds=10)
    return on_all(plan, ("MQ2008", "MQ2007"), TEXT, setting)
