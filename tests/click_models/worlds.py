"""Logs whose people are known."""

import numpy as np

from rankloop.logs.list_log import ClickArrays
from rankloop.simulate.users.fitted_users import FittedUsers

PEOPLE = {
    "pbm": FittedUsers(model="pbm", by_grade=False, examination=((1.0,), (0.6,), (0.4,), (0.3,), (0.2,), (0.1,))),
    "ubm": FittedUsers(
        model="ubm", by_grade=False, examination=((1.0, 1, 1), (0.6, 0.9, 0.9), (0.4, 0.8, 0.6), (0.3, 0.7, 0.5))
    ),
    "cascade": FittedUsers(model="cascade", by_grade=False),
    "dcm": FittedUsers(model="dcm", by_grade=False, stop=(0.3, 0.5, 0.6, 0.7)),
    "sdbn": FittedUsers(model="sdbn", by_grade=False, attraction=(0.0, 0.5, 1.0), satisfaction=(0.3, 0.6, 0.9)),
    "dbn": FittedUsers(
        model="dbn", by_grade=False, attraction=(0.0, 0.5, 1.0), satisfaction=(0.2, 0.5, 0.8), persistence=0.8
    ),
}


def world(users: FittedUsers, n_pages=2000, n_queries=10, n_items=6, seed=0) -> tuple[ClickArrays, np.ndarray]:
    """Random orders shown to these people, three pages to a visit; and how attractive each pair truly is."""
    rng = np.random.default_rng(seed)
    attraction = rng.beta(1.5, 2.5, (n_queries, n_items))
    position, clicked, queries, items = [], [], [], []
    for _ in range(n_pages):
        query, order = int(rng.integers(n_queries)), rng.permutation(n_items)
        hits = users.observe(order, attraction[query], rng).items
        position += range(n_items)
        clicked += [float(item in hits) for item in order]
        queries += [str(query)] * n_items
        items += [str(item) for item in order]
    offsets = np.arange(n_pages + 1) * n_items
    sessions = [page // 3 for page in range(n_pages)]
    log = ClickArrays.of(offsets, np.array(position), np.array(clicked), queries, items, sessions)
    truth = np.array([attraction[int(query), int(item)] for query, item in zip(log.query_ids, log.items)])
    return log, truth
