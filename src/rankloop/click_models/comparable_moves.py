"""Which moves of items can be compared: orders made for each user, and positions that move smoothly with attraction."""

from itertools import pairwise

import numpy as np

from rankloop.core.types import Ints
from rankloop.logs.list_log import ClickArrays, numbers_of

SHORT_EPOCHS = 16  # parts of the log within which positions are compared where they move smoothly
# Of squared moves to the next part and to the second next: 1 where drawn anew, ½ in steps, ¼ smoothly.
MAX_SMOOTH_RATIO = 0.41
MIN_MOVES = 50  # by which that is judged
MIN_USER_Z = 4.0  # standard errors at which positions are taken to follow users
MIN_PAGES_BY_USER = 3  # on average, from which segments of users are looked for
MIN_SEGMENT_SHARE = 0.1  # of the pages, in one segment
MIN_SEGMENTED_SHARE = 0.9  # of the pages, in all of them together
MAX_SHARED_LISTS = 0.1  # of successive pages of a query; more of them show segments or variants, not single users


def pairs_by_viewer(log: ClickArrays, viewer: Ints) -> ClickArrays:
    """Return the log with a pair for each viewer who saw it: the attraction of an item may differ between them.

    Args:
      log: What was shown and clicked.
      viewer: By page, the number of the user, or of the segment of users.
    """
    keys, pair = np.unique(viewer[log.page] * log.n_pairs + log.pair, return_inverse=True)
    old = (keys % log.n_pairs).tolist()
    names = tuple(log.query_ids[number] for number in old), tuple(log.items[number] for number in old)
    return log._replace(pair=pair.astype(np.int64), query_ids=names[0], items=names[1])


def queries_of(log: ClickArrays) -> Ints:
    """Return by page the number of its query."""
    return numbers_of([log.query_ids[pair] for pair in log.pair[log.offsets[:-1]].tolist()])


def lists_of(log: ClickArrays) -> Ints:
    """Return by page the number of its list of pairs."""
    return numbers_of([log.pair[start:end].tobytes() for start, end in pairwise(log.offsets.tolist())])


def segments_of_users(log: ClickArrays) -> Ints | None:
    """Number by page the segments of users, such as the arms of a test; None if users do not fall into several.

    Users who got the same list are of one segment, and so are those who share a list with one of them.
    """
    lists, n_users = lists_of(log), int(log.session.max()) + 1
    if log.n_pages < MIN_PAGES_BY_USER * n_users:
        return None  # pages of unnamed users are linked by their lists alone
    segment, is_settled = np.arange(n_users), False
    while not is_settled:
        lowest, merged = np.full(int(lists.max()) + 1, n_users), segment.copy()
        np.minimum.at(lowest, lists, segment[log.session])
        np.minimum.at(merged, log.session, lowest[lists])
        is_settled, segment = np.array_equal(merged, segment), merged
    of_page = segment[log.session]
    is_large = np.bincount(of_page, minlength=n_users) >= MIN_SEGMENT_SHARE * log.n_pages
    if is_large.sum() < 2 or is_large[of_page].mean() < MIN_SEGMENTED_SHARE:
        return None
    return np.unique(np.where(is_large[of_page], of_page, n_users), return_inverse=True)[1].astype(np.int64)


def positions_follow_users(log: ClickArrays) -> bool:
    """Return true if every user gets an order of their own, of the same items for the same query."""
    # An order that follows the taste of users makes items look better at high positions than they are, and nothing in
    # clicks shows it. Orders that only change with time put an item, between two visits of a user, as near to both as
    # these are to each other. Where they do not, orders differ by user; where pages of different users are often the
    # same, they differ by segment or by the variant of a test.
    page = log.page
    order = np.lexsort((page, log.pair))
    pair, user, height = log.pair[order], log.session[page[order]], np.log1p(log.position[order])
    visits = np.lexsort((np.arange(len(order)), user, pair))
    same = (np.diff(pair[visits]) == 0) & (np.diff(user[visits]) == 0) & (np.diff(visits) > 1)
    first, last = visits[:-1][same], visits[1:][same]
    if not len(first):
        return False
    sums = np.cumsum(np.column_stack([np.ones(len(height)), height, height**2]), axis=0)
    count, total, squares = (sums[last - 1] - sums[first]).T
    distances = [squares / count - 2.0 * height[end] * total / count + height[end] ** 2 for end in (first, last)]
    excess = 0.5 * (distances[0] + distances[1]) - (height[first] - height[last]) ** 2
    by_user = np.bincount(user[first], excess)
    if by_user.sum() < MIN_USER_Z * np.sqrt((by_user**2).sum()):
        return False
    lists, query = lists_of(log), queries_of(log)
    pages = np.lexsort((np.arange(log.n_pages), query))
    successive = (np.diff(query[pages]) == 0) & (np.diff(log.session[pages]) != 0)
    shared = (np.diff(lists[pages]) == 0)[successive]
    return bool(len(shared) and shared.mean() < MAX_SHARED_LISTS)


def moves_smoothly(log: ClickArrays) -> bool:
    """Return true if items change their heights smoothly over time, as those that follow a trend do."""
    # From one part of the log to the next ones, the squares of moves stay alike where heights are drawn anew, grow with
    # the distance in time where they change in steps, and with its square where they change smoothly. What makes an
    # item rise and fall so slowly may make it attractive, too, and then its clicks at several heights cannot be
    # compared.
    return any(_is_smooth(log, log.page * parts // log.n_pages, parts) for parts in (SHORT_EPOCHS, 2 * SHORT_EPOCHS))


def _is_smooth(log: ClickArrays, part: Ints, n_parts: int) -> bool:
    """Return true if the squares of moves to the second next part are far more than twice those to the next part."""
    shape, key = (log.n_pairs, n_parts), log.pair * n_parts + part
    times = np.bincount(key, minlength=log.n_pairs * n_parts).reshape(shape)
    sums = np.bincount(key, np.log1p(log.position), log.n_pairs * n_parts).reshape(shape)
    height = np.where(times > 0, sums / np.maximum(times, 1), np.nan)
    squares = [(height[:, lag:] - height[:, :-lag]) ** 2 for lag in (1, 2)]
    next_one, second = (moves[np.isfinite(moves)] for moves in squares)
    has_moves = min(len(next_one), len(second)) >= MIN_MOVES
    return bool(has_moves and next_one.mean() < MAX_SMOOTH_RATIO * second.mean())
