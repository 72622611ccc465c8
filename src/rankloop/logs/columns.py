"""Which column of a log is what: as named, or as usual names suggest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest

GUESSES = {
    "action": (
        "action",
        "ad",
        "item",
        "offer",
        "arm",
        "shown_ad",
        "ad_shown",
        "ad_id",
        "item_id",
        "offer_id",
        "banner",
    ),
    "reward": ("reward", "click", "clicked", "clicks", "is_click"),
    "propensity": ("propensity", "propensity_score", "pscore", "probability", "prob"),
    "target": ("target", "target_probability", "evaluation_probability"),
    "position": ("position", "place", "slot"),
}
TAKEN = frozenset(name for usual in GUESSES.values() for name in usual)
ROLES = {"action": "shown ad", "reward": "click", "propensity": "probability with which the ad was shown"}
NEVER = {"propensity": "; if it was never logged see docs/faq.md, 'My log has no propensities'"}
NOT_CONTEXT = ("timestamp", "time", "date", "id")


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
    def said(self) -> str:
        """What was left out, to be added to a line; empty: nothing."""
        return f"; not context, by their names: {', '.join(self.left_out)}" if self.left_out else ""


def columns_of(names: Sequence[str], named: Mapping[str, str], where: str) -> Columns:
    """The columns as named, or as their names suggest.

    Of two names for one thing (click, clicked) the one that `GUESSES` has first is taken. The other is no context: it
    would tell what is to be predicted.
    """
    refuse_twice(names, where)
    unknown = next((given for given in named.values() if given and given not in names), None)
    if unknown is not None:
        raise InvalidInput(f"{where} has no column {unknown!r}{nearest(unknown, names)}")
    found = {role: named.get(role) or guess(names, usual) for role, usual in GUESSES.items()}
    for role in ("action", "reward", "propensity"):
        if not found[role]:
            raise InvalidInput(
                f"{where} has no column that is clearly the {ROLES[role]} (such as {', '.join(GUESSES[role][:3])}); it "
                f'has {", ".join(names)}: add --column {role}=NAME (in Python {role}="NAME"){NEVER.get(role, "")}'
            )
    rest = [name for name in names if plain(name) and name not in found.values()]
    left_out = tuple(name for name in rest if plain(name) in TAKEN or plain(name) in NOT_CONTEXT)
    return Columns(**found, context=tuple(name for name in rest if name not in left_out), left_out=left_out)


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


def guess(names: Sequence[str], usual: Sequence[str]) -> str:
    """The column with the usual name that stands first in `usual`; empty: none has one."""
    return next((name for guess in usual for name in names if plain(name) == guess), "")


def plain(name: str) -> str:
    """So that "Shown Ad" and "shown-ad" are known as shown_ad."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")
