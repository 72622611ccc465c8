"""One of five ads for each visitor, and only its click comes back: a policy of ours beside those of three libraries."""

from __future__ import annotations

from benchmarks.bandit_loop import Ours, Side, compared
from benchmarks.bandit_peers import MABWiser, RiverBandit, VowpalWabbit
from benchmarks.measurement import Row
from rankloop import Query, Reward, build

ROUNDS, N_ADS = 5000, 5
OURS = "linear_ucb(width=0.1, epsilon=0.0)"
SQUARE_CB = "--cb_explore_adf -q ca --squarecb --gamma_scale 100"


def run() -> list[Row]:
    """Clicks per visitor of a simulated campaign; the settings of each side were the best of a few on other seeds."""
    stream = build("campaign(taste=1.5)", "stream")
    ours = Ours(OURS, stream.problem, lambda ad, click: Reward(click))
    sides = [
        Side("VowpalWabbit", SQUARE_CB, VowpalWabbit(SQUARE_CB, lines)),
        Side("river", "LinUCBDisjoint(beta=30)", RiverBandit(beta=30.0)),
        Side("MABWiser", "LinUCB(alpha=1)", MABWiser("LinUCB", alpha=1.0)),
    ]
    return list(compared("one of five ads (synthetic)", "clicks per visitor", stream, ROUNDS, ours, sides))


def lines(query: Query) -> list[str]:
    """The visitor's features are shared; an ad is its name."""
    visitor = " ".join(f"{j}:{value:.5f}" for j, value in enumerate(query.context.tolist()))
    return [f"shared |c {visitor}", *(f"|a ad{ad}" for ad in range(N_ADS))]
