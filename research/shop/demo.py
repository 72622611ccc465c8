"""What a shop asks first: clicks per page, beside the orders that it could have without us."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np

from rankloop.core.types import Floats
from rankloop.experiments.report.charts import Line, Role, chart
from rankloop.experiments.report.model import Finding, Table
from research.shop.players import Arm, Logistic, Popularity, RandomOrder, Rankloop
from research.shop.world import N_CANDIDATES, SHOWN, Shop, Visit

DEFAULT_VISITS = 3_000
CURVE_POINTS = 10  # of the visits, for the curves
ROLES: dict[str, Role] = {"random order": "floor", "best possible": "ceiling"}
PEER = "VowpalWabbit"
TITLE = "A shop: clicks per page"
PLAYERS: dict[str, Callable[[int], Arm]] = {
    "random order": RandomOrder,
    "most clicked first": Popularity,
    PEER: Logistic,
    "rankloop": Rankloop,
}
TEXT = (
    f"Simulated visitors of a shop see {SHOWN} of {N_CANDIDATES} products and click what they like and notice. Every "
    "side gets the same raw rows (title, brand, price, rating, sku …), the same visitors and their clicks. The best "
    "order, which nobody can know, is the ceiling."
)
PEER_MISSING_TEXT = f"{PEER} is not installed: pip install vowpalwabbit, and it plays too"


def play(arm: Arm, visits: Sequence[Visit], step: Callable[[], None] = lambda: None) -> Floats:
    """The expected clicks of every page: they vary less than clicks."""
    clicks = np.empty(len(visits))
    for t, visit in enumerate(visits):
        order = arm.rank(visit.candidates, visit.context)
        clicks[t] = visit.expected(order)
        arm.learn(order, visit.clicks(order))
        step()
    return clicks


def shop_finding(
    seed: int = 0, n_visits: int = DEFAULT_VISITS, progress: Callable[[int, int], None] = lambda finished, of: None
) -> Finding:
    """Everybody who can play here, on the same visits."""
    visits = list(Shop(seed).visits(n_visits))
    players = {name: make for name, make in PLAYERS.items() if name != PEER or find_spec("vowpalwabbit")}
    clicks_by_player, done = dict[str, Floats](), 0

    def step() -> None:
        nonlocal done
        done += 1
        if done % 50 == 0:
            progress(done, n_visits * len(players))

    for name, make in players.items():
        clicks_by_player[name] = play(make(seed), visits, step)
    clicks_by_player["best possible"] = np.array([visit.expected(visit.best()) for visit in visits])
    return _finding(clicks_by_player, () if PEER in players else (PEER_MISSING_TEXT,))


def _finding(clicks_by_player: dict[str, Floats], missing: tuple[str, ...]) -> Finding:
    part = max(1, len(clicks_by_player["rankloop"]) // CURVE_POINTS)
    blind = clicks_by_player["random order"].mean()
    rows = [
        (
            name,
            f"{clicks.mean():.2f}",
            f"{clicks[-part:].mean():.2f}",
            "" if name == "random order" else f"{100 * (clicks[-part:].mean() / blind - 1):+.0f} %",
        )
        for name, clicks in clicks_by_player.items()
    ]
    header = "who ranks", "clicks per page", f"last {part:,} pages", "against random order"
    table = Table(TITLE, header, rows)
    ends = np.arange(part, len(clicks_by_player["rankloop"]) + 1, part)
    lines = [
        Line(name, np.array([[clicks[end - part : end].mean() for end in ends]]), colour, ROLES.get(name, "arm"))
        for colour, (name, clicks) in enumerate(clicks_by_player.items())
    ]
    picture = chart("shop", TITLE, ends, lines, caption=TEXT, x_label="pages", y_label="clicks per page")
    return Finding("shop", TITLE, TEXT, charts=(picture,), tables=(table,), missing=missing)
