"""Which column of a log is what: as named, or as usual names suggest."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest

# Usual names by role; of two columns for one thing (click, clicked) the name that stands first is taken.
CLICKS = ("reward", "click", "clicked", "clicks", "is_click")
POSITIONS = ("position", "place", "slot")
ADS = ("action", "ad", "item", "offer", "arm", "shown_ad", "ad_shown", "ad_id", "item_id", "offer_id", "banner")
QUERIES = ("query", "query_id", "qid", "user_query", "search_query", "search_term")
SESSIONS = ("session", "session_id", "visit", "visit_id", "sid")
USERS = ("user", "user_id", "client_id", "visitor", "visitor_id", "customer_id")  # no features of an item
LISTS = ("impression", "list", "impression_id", "list_id", "search_id", "request_id", "serp", "serp_id")
ITEMS = ("item", "item_id", "doc", "document", "doc_id", "document_id", "product_id", "product", "sku", "asin")
MORE_ITEMS = ("article_id", "article", "object_id", "ean", "gtin", "isbn", "offer_id", "url", "id")
# Names by which a role is known where it has no better one; columns with these names beside another stay features.
ALSO_POSITIONS = ("pos", "rank", "ordinal")
PURCHASES = ("purchased", "purchase", "bought", "is_purchase", "converted", "conversion", "is_conversion", "ordered")
REVENUES = ("revenue", "order_value", "gmv", "turnover")
PRICES = ("price", "unit_price", "sale_price", "item_price")
CLICK_WEIGHTS = ("click_weight",)  # what a click counts: more where it led to a purchase
ALSO_CLICKS = ("is_clicked", "was_clicked", "has_click")
GUESSES = {  # in a log of single choices
    "action": ADS,
    "reward": CLICKS,
    "propensity": ("propensity", "propensity_score", "pscore", "probability", "prob"),
    "target": ("target", "target_probability", "evaluation_probability"),
    "position": POSITIONS,
}
LIST_GUESSES = {  # in a log of lists
    "list": (*LISTS, *SESSIONS, "query_id", *QUERIES),
    "query": ("query", "user_query", "search_query", "search_term", "query_id", "qid"),
    "item": (*ITEMS, *MORE_ITEMS),
    "position": (*POSITIONS, *ALSO_POSITIONS),
    "click": (*CLICKS, *ALSO_CLICKS),
}
RAW_GUESSES = {  # in a log of lists in values as people have them
    **LIST_GUESSES,
    "time": ("timestamp", "time", "shown_at", "datetime", "at", "date"),
    "propensity": GUESSES["propensity"],
}
TAKEN = frozenset(name for usual in GUESSES.values() for name in usual)
NOT_CONTEXT = ("timestamp", "time", "date", "id")
NEEDED = {"action": "shown ad", "reward": "click", "propensity": "probability with which the ad was shown"}
NEEDED_OF_LISTS = ("list", "position", "click")
SURE_LISTS = ("impression", "list", "session", "query", "query_id", "qid")  # though there are propensities
NEVER_LOGGED = {"propensity": "; if it was never logged see docs/faq.md, 'My log has no propensities'"}


class Columns(NamedTuple):
    """Which column of a table is what; an empty name: the table has none."""

    action: str
    reward: str
    propensity: str
    target: str = ""
    position: str = ""
    context: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # named like a time, or like the click, the ad … beside the column that is it

    @property
    def unused(self) -> str:
        """What was left out, to be added to a line; empty: nothing."""
        return f"; not context, by their names: {', '.join(self.left_out)}" if self.left_out else ""


class ListColumns(NamedTuple):
    """Which column of a table of shown lists is what; an empty name: the table has none."""

    list: str
    query: str
    item: str
    position: str
    click: str
    features: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # no features: named like a time, or like the click, the item … that another one is


class RawColumns(NamedTuple):
    """Which column of a table of shown lists is what; an empty name: the table has none."""

    list: str
    query: str
    item: str
    position: str
    click: str
    time: str = ""
    propensity: str = ""  # of the whole list
    others: tuple[str, ...] = ()  # what may be learned from
    left_out: tuple[str, ...] = ()  # other usual names of the click, the item …


def columns_of(names: Sequence[str], named: Mapping[str, str], where: str) -> Columns:
    """The columns of a log of single choices as named, or as their names suggest.

    Another usual name for what a column is taken for is no context: it would tell what is to be predicted.
    """
    refuse_twice(names, where)
    _refuse_unknown([name for name in named.values() if name], names, where)
    found = {role: named.get(role) or named_like(names, usual) for role, usual in GUESSES.items()}
    for role in NEEDED:
        if not found[role]:
            raise InvalidInput(
                f"{where} has no column that is clearly the {NEEDED[role]} (such as {', '.join(GUESSES[role][:3])}); "
                f"it has {', '.join(names)}: add --column {role}=NAME "
                f'(in Python {role}="NAME"){NEVER_LOGGED.get(role, "")}'
            )
    context, left_out = _others(names, found.values(), TAKEN)
    return Columns(**found, context=context, left_out=left_out)


def list_columns_of(names: Sequence[str], without: Sequence[str], named: Mapping[str, str], where: str) -> ListColumns:
    """The columns of a log of lists as named, or as their names suggest, those in `without` left alone."""
    found, free = _list_roles(names, without, named, where, LIST_GUESSES)
    features, left_out = _others(free, found.values(), {*TAKEN, *LIST_GUESSES["list"], *ITEMS, *CLICK_WEIGHTS, *USERS})
    return ListColumns(**found, features=features, left_out=left_out)


def raw_columns_of(names: Sequence[str], without: Sequence[str], named: Mapping[str, str], where: str) -> RawColumns:
    """The same for values as people have them: times are no nuisance here, and ids can be learned from."""
    refuse_twice(names, where)
    found, free = _list_roles(names, without, named, where, RAW_GUESSES)
    known = {*found.values()}
    others = [name for name in free if plain_name(name) and name not in known]
    usual = {*CLICKS, *CLICK_WEIGHTS, *POSITIONS, *SESSIONS, *RAW_GUESSES["propensity"]}
    left_out = tuple(name for name in others if plain_name(name) in usual)
    return RawColumns(**found, others=tuple(name for name in others if name not in left_out), left_out=left_out)


def _list_roles(
    names: Sequence[str],
    without: Sequence[str],
    named: Mapping[str, str],
    where: str,
    guesses: Mapping[str, Sequence[str]],
) -> tuple[dict[str, str], list[str]]:
    """The columns by role, and those that no role was named for."""
    unknown = next((role for role in named if role not in guesses), None)
    if unknown is not None:
        raise InvalidInput(f"a column is one of {', '.join(guesses)}, not {unknown!r}")
    _refuse_unknown([*without, *named.values()], names, where)
    known = [name for name in names if name not in without]
    free = [name for name in known if name not in named.values()]
    found = {role: named.get(role) or named_like(free, usual) for role, usual in guesses.items()}
    for role in NEEDED_OF_LISTS:
        if not found[role]:
            raise InvalidInput(
                f"{where} has no column for the {role} ({', '.join(guesses[role])}); it has {', '.join(known)}: "
                f'add --column {role}=NAME (in Python columns={{"{role}": "NAME"}})'
            )
    return found, free


def columns_said(columns: ListColumns | RawColumns) -> str:
    """One line: which column was taken for what, and how to say otherwise."""
    roles = {role: name for role, name in columns._asdict().items() if isinstance(name, str) and name}
    taken = ", ".join(f"{role} is {name}" for role, name in roles.items())
    return f"columns: {taken} (say otherwise with --column ROLE=NAME)"


def named_like(names: Sequence[str], usual: Sequence[str]) -> str:
    """The column with the usual name that stands first in `usual`; empty: none has one."""
    return next((name for guess in usual for name in names if plain_name(name) == guess), "")


def holds_lists(names: Sequence[str], named: Mapping[str, str]) -> bool:
    """Whether a table looks like a log of lists rather than of single choices, each with its propensity."""
    sure = LIST_GUESSES | {"list": SURE_LISTS}
    lists = all(named.get(role) or named_like(names, sure[role]) for role in NEEDED_OF_LISTS)
    return lists or not all(named.get(role) or named_like(names, GUESSES[role]) for role in NEEDED)


def named_columns(given: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """The columns that `--column ROLE=NAME` names, by their roles, of which these are `known`."""
    roles = dict(part.partition("=")[::2] for part in given)
    for role, name in roles.items():
        if role not in known or not name:
            said = f"--column {role}={name}" if name else f"--column {role}"
            raise InvalidInput(f"{said}: write one of {', '.join(known)}, then =, then a column")
    return roles


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Refuse a table in which a name does not say which column is meant."""
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"{where} has two columns {twice!r}: give each its own name")


def _refuse_unknown(given: Sequence[str], names: Sequence[str], where: str) -> None:
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise InvalidInput(f"{where} has no column {unknown!r}{nearest(unknown, names)}")


def _others(
    names: Sequence[str], found: Collection[str], usual: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that have no role: those to learn from, and those left out by their names."""
    rest = [name for name in names if plain_name(name) and name not in found]
    left_out = tuple(name for name in rest if plain_name(name) in usual or plain_name(name) in NOT_CONTEXT)
    return tuple(name for name in rest if name not in left_out), left_out


def plain_name(name: str) -> str:
    """So that "Shown Ad" and "shown-ad" are known as shown_ad."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")
