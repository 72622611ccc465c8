"""Simulated logs of which the truth is known, for `benchmarks.log_answers`: kinds of users and of logged orders.

Each kind was written down before it was played. `KINDS` and `SECOND_KINDS` were looked at while the estimators were
built; `THIRD_KINDS`, `FOURTH_KINDS` and `FIFTH_KINDS` were written down afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from rankloop.data.folder import data_path
from rankloop.logs.list_log import ClickArrays
from rankloop.logs.reader import lists_in

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
STEEP = (1.0, 0.7, 0.5, 0.37, 0.28, 0.22, 0.18, 0.15, 0.12, 0.1)
CLARA_CURVE = (0.75, 0.45, 0.30, 0.25, 0.22, 0.2, 0.18, 0.16, 0.15)


class Users(Protocol):
    """Users who click on a page of items with these attractions, from the top."""

    def click(self, attraction: Floats, items: Ints, rng: Generator, page: "Page") -> Floats:
        """Draw the clicks."""

    def expected(self, attraction: Floats, items: Ints, page: "Page") -> float:
        """Return the expected number of clicks."""


class Page(NamedTuple):
    """What users and orders may depend on: the query, the time from 0 to 1, the device, and the user."""

    query: int
    time: float
    device: int
    user: int = 0


@dataclass(frozen=True)
class PositionUsers:
    """Examination by position; on mobile devices the curve to a power; trust lifts any item at high positions."""

    curve: tuple[float, ...] = STEEP
    mobile_power: float = 1.0
    trust: tuple[float, ...] = ()

    def rates(self, attraction: Floats, page: Page) -> Floats:
        """Return the click probabilities."""
        curve = np.array(self.curve[: len(attraction)]) ** (self.mobile_power if page.device else 1.0)
        if self.trust:
            lift = np.array(self.trust[: len(attraction)])
            attraction = attraction + lift * (1.0 - attraction)
        rates: Floats = curve * attraction
        return rates

    def click(self, attraction: Floats, items: Ints, rng: Generator, page: Page) -> Floats:
        """Draw the clicks."""
        return (rng.random(len(attraction)) < self.rates(attraction, page)).astype(np.float64)

    def expected(self, attraction: Floats, items: Ints, page: Page) -> float:
        """Return the expected number of clicks."""
        return float(self.rates(attraction, page).sum())


@dataclass(frozen=True)
class NavigationalUsers(PositionUsers):
    """Examination by position; for every third query, users look for one page and read much less far."""

    navigational_power: float = 2.5

    def rates(self, attraction: Floats, page: Page) -> Floats:
        """Return the click probabilities."""
        power = self.navigational_power if page.query % 3 == 0 else 1.0
        rates: Floats = np.array(self.curve[: len(attraction)]) ** power * attraction
        return rates


@dataclass(frozen=True)
class UsersOfArms(PositionUsers):
    """Examination by position; every second user sees another layout, or reads farther for a reason of their own."""

    other_power: float = 0.3

    def rates(self, attraction: Floats, page: Page) -> Floats:
        """Return the click probabilities."""
        power = self.other_power if page.user % 2 else 1.0
        rates: Floats = np.array(self.curve[: len(attraction)]) ** power * attraction
        return rates


@dataclass(frozen=True)
class UsersWithLostClicks(PositionUsers):
    """Examination by position; every fourth browser loses all clicks, and every fifth most of those on the first."""

    def rates(self, attraction: Floats, page: Page) -> Floats:
        """Return the probabilities of clicks that are logged."""
        rates = super().rates(attraction, page)
        if page.user % 5 == 0:
            rates[0] *= 0.3
        return rates * (page.user % 4 != 0)


@dataclass(frozen=True)
class ChoosingUsers:
    """Users read to a depth that the curve tells, and choose one of the items that they read, or none (logit)."""

    curve: tuple[float, ...] = STEEP

    def _stops(self, n: int) -> Floats:
        stops: Floats = -np.diff(np.append(self.curve[:n], 0.0))
        return stops

    def click(self, attraction: Floats, items: Ints, rng: Generator, page: Page) -> Floats:
        """Draw the clicks."""
        n_read = 1 + int(rng.choice(len(attraction), p=self._stops(len(attraction))))
        odds = np.append(attraction[:n_read] / (1.0 - attraction[:n_read]), 1.0)
        chosen = int(rng.choice(n_read + 1, p=odds / odds.sum()))
        return (np.arange(len(attraction)) == (chosen if chosen < n_read else -1)).astype(np.float64)

    def expected(self, attraction: Floats, items: Ints, page: Page) -> float:
        """Return the expected number of clicks."""
        odds = np.cumsum(attraction / (1.0 - attraction))
        return float((self._stops(len(attraction)) * odds / (1.0 + odds)).sum())


@dataclass(frozen=True)
class StoppingUsers:
    """Users read from the top; after a click they stop with `stop` (plus `by_item` times attraction), else go on."""

    stop: float = 1.0
    by_item: float = 0.0
    persistence: float = 1.0

    def _stops(self, attraction: Floats) -> Floats:
        stops: Floats = np.clip(self.stop + self.by_item * attraction, 0.0, 1.0)
        return stops

    def click(self, attraction: Floats, items: Ints, rng: Generator, page: Page) -> Floats:
        """Draw the clicks."""
        clicks, stops = np.zeros(len(attraction)), self._stops(attraction)
        for position, a in enumerate(attraction):
            if rng.random() < a:
                clicks[position] = 1.0
                if rng.random() < stops[position]:
                    break
            if rng.random() >= self.persistence:
                break
        return clicks

    def expected(self, attraction: Floats, items: Ints, page: Page) -> float:
        """Return the expected number of clicks."""
        reading = np.cumprod(self.persistence * (1.0 - attraction * self._stops(attraction)))
        return float((np.append(1.0, reading[:-1]) * attraction).sum())


@dataclass(frozen=True)
class BrowsingUsers:
    """Examination by position and by the distance to the last click."""

    curve: tuple[float, ...] = STEEP
    near: float = 1.5
    far: float = 0.6

    def _factor(self, distance: int) -> float:
        return 1.0 if distance <= 0 else self.near if distance == 1 else self.far

    def click(self, attraction: Floats, items: Ints, rng: Generator, page: Page) -> Floats:
        """Draw the clicks."""
        clicks, last = np.zeros(len(attraction)), -1
        for position, a in enumerate(attraction):
            factor = self._factor(position - last if last >= 0 else 0)
            if rng.random() < min(1.0, self.curve[position] * factor) * a:
                clicks[position], last = 1.0, position
        return clicks

    def expected(self, attraction: Floats, items: Ints, page: Page) -> float:
        """Return the expected number of clicks."""
        states, total = {-1: 1.0}, 0.0
        for position, a in enumerate(attraction):
            hits = 0.0
            for last in list(states):
                factor = self._factor(position - last if last >= 0 else 0)
                click = min(1.0, self.curve[position] * factor) * a
                hits += states[last] * click
                states[last] *= 1.0 - click
            states[position] = hits
            total += hits
        return total


@dataclass(frozen=True)
class DuplicateUsers:
    """Items come in pairs that are nearly the same (2k and 2k + 1); who clicked one does not click the other."""

    curve: tuple[float, ...] = STEEP

    def click(self, attraction: Floats, items: Ints, rng: Generator, page: Page) -> Floats:
        """Draw the clicks."""
        clicks, clicked = np.zeros(len(attraction)), set[int]()
        for position, (a, item) in enumerate(zip(attraction, items.tolist())):
            if item // 2 not in clicked and rng.random() < self.curve[position] * a:
                clicks[position] = 1.0
                clicked.add(item // 2)
        return clicks

    def expected(self, attraction: Floats, items: Ints, page: Page) -> float:
        """Return the expected number of clicks."""
        total, first = 0.0, dict[int, float]()
        for position, (a, item) in enumerate(zip(attraction, items.tolist())):
            click = self.curve[position] * a * (1.0 - first.get(item // 2, 0.0))
            first[item // 2] = click
            total += click
        return total


@dataclass(frozen=True)
class UsersAndBots:
    """Users by position, and a share of bots that click anything anywhere with one probability."""

    users: PositionUsers = PositionUsers()
    bot_share: float = 0.1
    bot_rate: float = 0.15

    def click(self, attraction: Floats, items: Ints, rng: Generator, page: Page) -> Floats:
        """Draw the clicks."""
        if rng.random() < self.bot_share:
            return (rng.random(len(attraction)) < self.bot_rate).astype(np.float64)
        return self.users.click(attraction, items, rng, page)

    def expected(self, attraction: Floats, items: Ints, page: Page) -> float:
        """Return the expected number of clicks."""
        by_users = self.users.expected(attraction, items, page)
        return (1.0 - self.bot_share) * by_users + self.bot_share * self.bot_rate * len(attraction)


Order = Callable[["OrderState", Page, Generator], Ints]


class OrderState(NamedTuple):
    """What an order may know: the attractions of the query now, its clicks so far, and its last order."""

    attraction: Floats
    clicks: Floats
    shown: Floats
    memory: dict[str, Any]


def good(noise: float, share: float = 1.0) -> Order:
    """Sort by attraction with log-normal noise, drawn anew for a share of the pages."""

    def order(state: OrderState, page: Page, rng: Generator) -> Ints:
        logs = np.log(state.attraction) + state.memory.setdefault("taste", 0.5 * rng.standard_normal(len(state.clicks)))
        if rng.random() < share:
            logs = logs + noise * rng.standard_normal(len(logs))
        return np.argsort(-logs)

    return order


def swapped(probability: float) -> Order:
    """Swap neighbours of a good order at random."""

    def order(state: OrderState, page: Page, rng: Generator) -> Ints:
        ranking = good(0.0)(state, page, rng)
        for first in range(int(rng.integers(2)), len(ranking) - 1, 2):
            if rng.random() < probability:
                ranking[[first, first + 1]] = ranking[[first + 1, first]]
        return ranking

    return order


def by_clicks(periods: int, noise: float = 0.0) -> Order:
    """Sort anew in each period by the click rates so far: positions react to clicks."""

    def order(state: OrderState, page: Page, rng: Generator) -> Ints:
        period = int(page.time * periods)
        if state.memory.get("period") != period:
            rates = (state.clicks + 0.3) / (state.shown + 3.0)
            prior = state.memory.setdefault("taste", 0.3 * rng.standard_normal(len(rates)))
            state.memory["ranking"] = np.argsort(-(np.log(rates) + prior + noise * rng.standard_normal(len(rates))))
            state.memory["period"] = period
        return np.asarray(state.memory["ranking"]).copy()

    return order


def lucky_first(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Put whatever was clicked last on top."""
    ranking = state.memory.setdefault("ranking", np.argsort(-state.attraction * np.exp(rng.standard_normal(10))))
    last = state.memory.get("last_click")
    if last is not None:
        ranking = np.concatenate([[last], ranking[ranking != last]])
        state.memory["ranking"] = ranking
    return np.asarray(ranking).copy()


def worst_first(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Sort by falling unattractiveness, with noise."""
    return good(0.5)(state, page, rng)[::-1].copy()


def weekly_quality(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Sort anew each week by a new noisy measurement of quality, which does not look at clicks."""
    period = int(page.time * 8)
    if state.memory.get("period") != period:
        state.memory["ranking"] = np.argsort(-(np.log(state.attraction) + 0.7 * rng.standard_normal(len(state.clicks))))
        state.memory["period"] = period
    return np.asarray(state.memory["ranking"]).copy()


def two_rankers(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Draw one of two fixed orders for each page."""
    if "rankings" not in state.memory:
        logs = np.log(state.attraction)
        state.memory["rankings"] = [np.argsort(-(logs + 0.8 * rng.standard_normal(len(logs)))) for _ in range(2)]
    return np.asarray(state.memory["rankings"][int(rng.integers(2))]).copy()


def shuffled(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Shuffle."""
    return rng.permutation(len(state.attraction))


def top_shuffled(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Shuffle the first four of a fixed order."""
    ranking = good(0.0)(state, page, rng)
    ranking[:4] = rng.permutation(ranking[:4])
    return ranking


def pinned(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Pin another item on top in each of twelve campaigns, for a third of the queries, above a good order."""
    ranking = good(0.3)(state, page, rng)
    if page.query % 3 == 0:
        promoted = (page.query + int(page.time * 12)) % len(ranking)
        ranking = np.concatenate([[promoted], ranking[ranking != promoted]])
    return ranking


def by_device(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Sort each device's pages by an order of its own."""
    if "rankings" not in state.memory:
        logs = np.log(state.attraction)
        state.memory["rankings"] = [np.argsort(-(logs + 0.7 * rng.standard_normal(len(logs)))) for _ in range(2)]
    return np.asarray(state.memory["rankings"][page.device]).copy()


def moved_elsewhere(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Leave every third query in a fixed order, and sort the others with noise."""
    return good(0.0 if page.query % 3 == 0 else 0.8)(state, page, rng)


def by_arm(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Show one of two fixed orders, the same to a user on all visits."""
    if "rankings" not in state.memory:
        logs = np.log(state.attraction)
        state.memory["rankings"] = [
            np.argsort(-(logs + noise * rng.standard_normal(len(logs)))) for noise in (0.5, 1.5)
        ]
    return np.asarray(state.memory["rankings"][page.user % 2]).copy()


def sorted_by_users(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Sort by a weekly quality; every second user sorts by a price instead."""
    price = state.memory.setdefault("price", rng.standard_normal(len(state.clicks)))
    return np.argsort(price) if page.user % 2 else weekly_quality(state, page, rng)


def in_pages(state: OrderState, page: Page, rng: Generator) -> Ints:
    """Show ten items, and ten more to users who turn the page."""
    return weekly_quality(state, page, rng)[: 20 if page.device else 10]


def beta_attraction(rng: Generator, shape: tuple[int, int]) -> Floats:
    """Draw moderate attractions."""
    return np.clip(rng.beta(0.8, 5.0, shape), 0.005, 0.95)


def heavy_attraction(rng: Generator, shape: tuple[int, int]) -> Floats:
    """Draw attractions of which few are large."""
    return np.clip(0.02 * np.exp(1.4 * rng.standard_normal(shape)), 0.002, 0.9)


def rare_attraction(rng: Generator, shape: tuple[int, int]) -> Floats:
    """Draw low attractions."""
    return 0.3 * beta_attraction(rng, shape)


def twin_attraction(rng: Generator, shape: tuple[int, int]) -> Floats:
    """Draw attractions that neighbours in number share."""
    return np.repeat(beta_attraction(rng, (shape[0], (shape[1] + 1) // 2)), 2, axis=1)[:, : shape[1]]


GOOD_ORDER = good(0.4)
MILD_TRUST = (0.1, 0.05, 0.02, *(0.01,) * 7)
SECOND_PAGE = tuple((1.0 / np.arange(1.0, 21.0)).tolist())
FLAT = (1.0, 0.95, 0.9, 0.86, 0.82, 0.79, 0.76, 0.74, 0.72, 0.7)


@dataclass(frozen=True)
class Kind:
    """A kind of log: users, order, sizes. `has_evidence` says whether such a log can be expected to answer."""

    users: Users = PositionUsers()
    order: Order = GOOD_ORDER
    attraction: Callable[[Generator, tuple[int, int]], Floats] = beta_attraction
    n_pages: int = 3000
    n_queries: int = 60
    n_items: int = 10
    drift: float = 0.0  # standard deviation of the log attraction from one of eight weeks to the next
    mobile_share: float = 0.0
    same_devices: bool = False  # devices have the same shares in all queries
    has_evidence: bool = True
    clara: bool = False
    mix_shift: bool = False  # the popularity of queries is reversed over time
    n_users: int = 0  # who come back; 0: nobody does
    taste: float = 0.0  # standard deviation of the log attraction between users
    season: float = 0.0  # amplitude of the log attraction of each item over time
    repeats: float = 0.0  # the share of pages that are logged twice, clicks included


KINDS: dict[str, Kind] = {
    "good order, few moves": Kind(order=good(0.8, share=0.15)),
    "weekly re-ranking by clicks": Kind(order=by_clicks(8), n_queries=40),
    "randomised neighbours": Kind(order=swapped(0.5)),
    "cascade": Kind(users=StoppingUsers(1.0)),
    "stop after some clicks": Kind(users=StoppingUsers(0.3, by_item=0.8, persistence=0.93)),
    "trust bias": Kind(users=PositionUsers(trust=(0.2, 0.1, 0.06, 0.04, 0.03, 0.02, 0.02, 0.01, 0.01, 0.01))),
    "examination by device": Kind(users=PositionUsers(mobile_power=1.8), mobile_share=0.5),
    "heavy-tailed items": Kind(attraction=heavy_attraction, n_queries=150),
    "near-duplicates": Kind(users=DuplicateUsers(), attraction=twin_attraction),
    "drifting": Kind(drift=0.4, order=good(0.5)),
    "sparse": Kind(n_queries=1500, has_evidence=False),
    "tiny": Kind(n_pages=300, n_queries=10, has_evidence=False),
    "lucky items on top": Kind(order=lucky_first, n_queries=80),
    "worst first": Kind(order=worst_first),
    "CLARA2 pages, drawn clicks": Kind(users=PositionUsers(curve=(1.0, *CLARA_CURVE)), clara=True),
}
SECOND_KINDS: dict[str, Kind] = {
    "user browsing": Kind(users=BrowsingUsers(), order=good(0.5), n_queries=50),
    "weekly quality": Kind(order=weekly_quality, n_queries=90),
    "two rankers": Kind(order=two_rankers, n_queries=70, users=PositionUsers(trust=MILD_TRUST)),
    "shuffled": Kind(order=shuffled, n_queries=200),
    "fixed order": Kind(order=good(0.0), has_evidence=False),
    "daily re-ranking by clicks with noise": Kind(order=by_clicks(30, noise=0.4), n_queries=50),
    "one query": Kind(order=good(0.4), n_queries=1, n_items=10, n_pages=2500),
    "flat examination": Kind(users=PositionUsers(curve=FLAT), order=good(0.6)),
    "mostly one click, mobile": Kind(users=StoppingUsers(0.85, persistence=0.97), order=swapped(0.3), n_queries=100),
    "drifting and reacting": Kind(drift=0.25, order=by_clicks(12, noise=0.3)),
    "few items": Kind(n_items=4, order=good(0.5), n_queries=120),
    "few clicks": Kind(attraction=rare_attraction, n_queries=80, has_evidence=False),
}


THIRD_KINDS: dict[str, Kind] = {
    "promotions pinned on top": Kind(order=pinned),
    "an order for each device": Kind(users=PositionUsers(mobile_power=1.5), order=by_device, mobile_share=0.5),
    "queries of the season": Kind(order=good(0.5), n_queries=80, mix_shift=True),
    "bots": Kind(users=UsersAndBots(), order=good(0.5)),
    "satisfied by good items": Kind(users=StoppingUsers(0.1, by_item=1.2, persistence=0.98), order=good(0.6)),
    "hourly re-ranking by clicks": Kind(order=by_clicks(150, noise=0.2), n_queries=40),
}


FOURTH_KINDS: dict[str, Kind] = {
    "an order for each user": Kind(order=good(0.2), n_users=150, taste=0.8),
    "an order by users' visits": Kind(order=good(0.5), n_users=150),
    "items rise and fall": Kind(order=good(0.0), season=0.8, n_queries=40),
    "items rise and fall, noisy order": Kind(order=good(0.5), season=0.6, n_queries=40),
    "navigational queries": Kind(users=NavigationalUsers(), order=good(0.5)),
    "tiles": Kind(users=PositionUsers(curve=(1.0, 0.8, 0.6, 0.9, 0.7, 0.5, 0.6, 0.45, 0.3, 0.4)), order=good(0.6)),
    "first four shuffled": Kind(order=top_shuffled, has_evidence=False),
}


FIFTH_KINDS: dict[str, Kind] = {
    "navigational queries never move": Kind(users=NavigationalUsers(), order=moved_elsewhere, n_queries=40),
    "a test of two orders": Kind(order=by_arm, n_users=400, n_queries=40),
    "a test of two layouts": Kind(users=UsersOfArms(), order=by_arm, n_users=400, n_queries=40),
    "users who sort by price": Kind(users=UsersOfArms(other_power=0.5), order=sorted_by_users, n_users=400),
    "second pages": Kind(
        users=PositionUsers(curve=SECOND_PAGE, mobile_power=0.4),
        order=in_pages,
        n_queries=30,
        n_items=20,
        mobile_share=0.16,
        same_devices=True,
    ),
    "one choice of those read": Kind(users=ChoosingUsers(), order=weekly_quality, n_queries=40),
    "lost clicks": Kind(users=UsersWithLostClicks(), order=good(0.5), n_users=400),
    "pages logged twice": Kind(order=weekly_quality, repeats=0.3),
}


class World(NamedTuple):
    """A log in two halves, and what is needed to tell the truth of any order of the second one."""

    kind: Kind
    pages: list[Page]  # of the second half
    items: list[Ints]  # in the order shown
    attraction: list[Floats]  # by page, of the items by number
    first: ClickArrays
    second: ClickArrays

    def truth(self, orders: list[Ints]) -> float:
        """Return the expected clicks per page of showing these items."""
        values = [
            self.kind.users.expected(rates[order], order, page)
            for page, rates, order in zip(self.pages, self.attraction, orders)
        ]
        return float(np.mean(values))


def build_world(kind: Kind, seed: int) -> World:
    """Play users and order for all pages."""
    rng = np.random.default_rng([seed, 77])
    if kind.clara:
        return _clara_world(kind, rng)
    rows = play_pages(kind, rng)
    half = len(rows) // 2
    return World(
        kind=kind,
        pages=[row[0] for row in rows[half:]],
        items=[row[1] for row in rows[half:]],
        attraction=[row[3] for row in rows[half:]],
        first=_log(rows[:half], kind.n_users > 0),
        second=_log(rows[half:], kind.n_users > 0),
    )


def play_pages(kind: Kind, rng: Generator) -> list[tuple[Page, Ints, Floats, Floats]]:
    """Return by page its circumstances, the order, the clicks, and the attraction of items by number."""
    attraction = kind.attraction(rng, (kind.n_queries, kind.n_items))
    popularity = (1.0 + np.arange(kind.n_queries)) ** -0.7
    popularity /= popularity.sum()
    spread = 0.0 if kind.same_devices else 0.3
    mobile = np.clip(kind.mobile_share + spread * rng.standard_normal(kind.n_queries), 0.05, 0.95)
    mobile = mobile * (kind.mobile_share > 0)
    clicks, shown = np.zeros((2, kind.n_queries, kind.n_items))
    memories: list[dict[str, Any]] = [{} for _ in range(kind.n_queries)]
    tastes = kind.taste * rng.standard_normal((kind.n_users, kind.n_queries, kind.n_items))
    phases = rng.random(attraction.shape) if kind.season else attraction
    rows: list[tuple[Page, Ints, Floats, Floats]] = []
    week, now = 0, attraction
    for number in range(kind.n_pages):
        time = number / kind.n_pages
        if kind.drift and int(8 * time) > week:
            week = int(8 * time)
            now = np.clip(now * np.exp(kind.drift * rng.standard_normal(now.shape)), 0.003, 0.95)
        mix = (1.0 - time) * popularity + time * popularity[::-1] if kind.mix_shift else popularity
        query = int(rng.choice(kind.n_queries, p=mix))
        user = int(rng.integers(kind.n_users)) if kind.n_users else 0
        page = Page(query, time, int(rng.random() < mobile[query]), user)
        rates = now[query].copy()
        if kind.taste:
            rates = np.clip(rates * np.exp(tastes[user, query]), 0.003, 0.95)
        if kind.season:
            rates = np.clip(rates * np.exp(kind.season * np.sin(2 * np.pi * (3.0 * time + phases[query]))), 0.003, 0.95)
        state = OrderState(rates, clicks[query], shown[query], memories[query])
        order = kind.order(state, page, rng)
        hits = kind.users.click(rates[order], order, rng, page)
        clicks[query, order] += hits
        shown[query, order] += 1.0
        if hits.any():
            memories[query]["last_click"] = int(order[np.flatnonzero(hits)[-1]])
        rows += [(page, order, hits, rates)] * (2 if kind.repeats and rng.random() < kind.repeats else 1)
    return rows


def _log(rows: list[tuple[Page, Ints, Floats, Floats]], has_users: bool = False) -> ClickArrays:
    sizes = [len(row[1]) for row in rows]
    return ClickArrays.of(
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([np.arange(size) for size in sizes]),
        np.concatenate([row[2] for row in rows]),
        [str(row[0].query) for row in rows for _ in row[1]],
        [f"{row[0].query}:{item}" for row in rows for item in row[1]],
        [row[0].user for row in rows] if has_users else None,
    )


def _clara_world(kind: Kind, rng: Generator) -> World:
    """Real pages of CLARA2 with clicks of known users; attraction by grade, with noise by (query, url)."""
    log = lists_in(data_path("clicks/clara2-half.csv.gz"), without=["grade"])
    rates: dict[tuple[str, str], float] = {}
    rows: list[tuple[Page, Ints, Floats, Floats]] = []
    start = int(rng.integers(max(1, log.n_pages - 6000)))
    items = log.item or []
    grades = lists_in(data_path("clicks/clara2-half.csv.gz")).values["grade"]
    names: dict[str, int] = {}
    for page_number in range(start, min(start + 6000, log.n_pages)):
        page_rows = log.order[log.offsets[page_number] : log.offsets[page_number + 1]].tolist()
        query, urls = log.query[page_rows[0]], [str(items[row]) for row in page_rows]
        page = Page(int(query), page_number / log.n_pages, 0)
        for row, url in zip(page_rows, urls):
            if (query, url) not in rates:
                rate = (0.03 + 0.05 * (grades[row] or 0)) * np.exp(0.7 * rng.standard_normal())
                rates[query, url] = float(np.clip(rate, 0.005, 0.9))
        attraction = np.array([rates[query, url] for url in urls])
        hits = kind.users.click(attraction, np.arange(len(urls)), rng, page)
        numbers = np.array([names.setdefault(url, len(names)) for url in urls])
        rows.append((page, numbers, hits, attraction))
    half = len(rows) // 2
    # Here items are known by their place in the page, and attraction stands in the order shown.
    return World(
        kind=kind,
        pages=[row[0] for row in rows[half:]],
        items=[np.arange(len(row[1])) for row in rows[half:]],
        attraction=[row[3] for row in rows[half:]],
        first=_log(rows[:half]),
        second=_log(rows[half:]),
    )
