"""Roles of the columns of a log: as named, or as usual names suggest."""

import math
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.types import Floats

COLUMN_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _names(names: Sequence[str]) -> Iterator[str]:
    """Yield names, with those of a group in place of "@group" and each ending in place of "*"."""
    for name in names:
        if name.startswith("@"):
            yield from _names(COLUMN_TABLES["names"][name[1:]])
        else:
            endings = COLUMN_TABLES["endings"] if "*" in name else [""]
            yield from (name.replace("*", ending) for ending in endings)


def _names_by_role(table: str) -> dict[str, tuple[str, ...]]:
    """Return the lists of names in a table of the file."""
    return {role: tuple(_names(names)) for role, names in COLUMN_TABLES[table].items()}


USUAL_NAMES = _names_by_role("names")
CHOICE_GUESSES, LIST_GUESSES, SECOND_ROLES = map(_names_by_role, ("roles_of_choices", "roles_of_lists", "second_roles"))
LIST_ROLES = (*LIST_GUESSES, *SECOND_ROLES)
ALL_ROLES = tuple(dict.fromkeys((*LIST_ROLES, *CHOICE_GUESSES)))
CHOICE_NAMES = frozenset(name for usual in CHOICE_GUESSES.values() for name in usual)
NO_FEATURES = CHOICE_NAMES | {name for group in ("item", "click_weight", "user") for name in USUAL_NAMES[group]}
NO_FEATURES |= set(LIST_GUESSES["list"])
NOT_CONTEXT = ("timestamp", "time", "date", "id")
NEEDED_OF_CHOICES = {"action": "shown ad", "reward": "click", "propensity": "probability with which the ad was shown"}
NEEDED_OF_LISTS = ("list", "position", "click")
SURE_LISTS = (*USUAL_NAMES["list"], "session", "query", "query_id", "qid")  # though there are propensities
UBI_COLUMNS = {"query_response_hit_ids", "event_attributes"}
JOIN_UBI = "join its queries and events by `rankloop import-log ubi`, and read the result"
NEVER_LOGGED = {"propensity": "; if it was never logged see docs/faq.md, 'My log has no propensities'"}
CLICK, FLAG = "a number (0 or 1)", "0 or 1"  # what columns of clicks and of purchases should hold
YES_NO = (CLICK, FLAG)  # of these columns a cell may also be a text of `FLAGS`
FLAG_VALUES = dict.fromkeys(("yes", "y", "true", "t", "ja"), 1.0)
FLAG_VALUES |= dict.fromkeys(("no", "n", "false", "f", "nein"), 0.0)
CURRENCY = r"(?:[$€£¥₹₺₽₩]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|kr|zł|Kč)"
GROUPS = r"[1-9]\d{0,2}(?:(?P<mark>[.,'’ \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*"  # of three digits
DECIMALS = r"(?:(?!(?P=mark))[.,](?P<decimals>\d+))?"  # after another mark than that of the groups
AMOUNT = re.compile(rf"(?P<minus>-?){CURRENCY}?\s?(?P<digits>{GROUPS}|\d+){DECIMALS}\s?{CURRENCY}?")
SIGN_OF_AMOUNTS = re.compile(rf"{CURRENCY}|[.,]\d\d?$")  # without it, groups of digits may be names: 12 345
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class ChoiceColumns(NamedTuple):
    """Columns of a log of single choices by role; an empty name: the table has none."""

    action: str
    reward: str
    propensity: str
    target: str = ""
    position: str = ""
    context: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # named like a time, or like the click, the ad … beside the column that is it

    @classmethod
    def of(cls, names: Sequence[str], named: Mapping[str, str], where: str) -> "ChoiceColumns":
        """Return the columns as named by role, or as their names suggest; `where` is the file, for messages.

        Another usual name for what a column is taken for is no context: it would tell what is to be predicted.
        """
        _check_named(named, list(CHOICE_GUESSES), [name for name in named.values() if name], names, where)
        roles = {role: named.get(role) or named_like(names, usual) for role, usual in CHOICE_GUESSES.items()}
        for role in NEEDED_OF_CHOICES:
            if not roles[role]:
                thing, usual = NEEDED_OF_CHOICES[role], ", ".join(CHOICE_GUESSES[role][:3])
                fault = f"{where} has no column that is clearly the {thing} (such as {usual})"
                advice = f'add --column {role}=NAME (in Python {role}="NAME"){NEVER_LOGGED.get(role, "")}'
                raise InvalidInput(f"{fault}; it has {', '.join(names)}: {advice}")
        context, left_out = learned_from(names, roles.values(), CHOICE_NAMES)
        return cls(**roles, context=context, left_out=left_out)

    @property
    def unused(self) -> str:
        """Text about the columns left out, to be added to a line."""
        return f"; not context, by their names: {', '.join(self.left_out)}" if self.left_out else ""


class ListColumns(NamedTuple):
    """Columns of a log of lists by role; an empty name: the table has none."""

    list: str = ""
    query: str = ""
    item: str = ""
    position: str = ""
    click: str = ""
    time: str = ""
    propensity: str = ""  # of the whole list
    session: str = ""
    user: str = ""
    weight: str = ""
    purchase: str = ""
    revenue: str = ""
    price: str = ""
    others: tuple[str, ...] = ()  # what may be learned from
    left_out: tuple[str, ...] = ()  # other usual names of the click, the position …

    @classmethod
    def of(cls, names: Sequence[str], without: Sequence[str], named: Mapping[str, str], where: str) -> "ListColumns":
        """Return the columns as named by role, or as their names suggest, but those left alone (`without`)."""
        _check_named(named, LIST_ROLES, [*without, *named.values()], names, where)
        usable = [name for name in names if name not in without]
        taken = [named[role] for role in LIST_GUESSES if role in named]
        free = [name for name in usable if name not in taken]
        roles = {role: named.get(role) or named_like(free, usual) for role, usual in LIST_GUESSES.items()}
        missing = [role for role in NEEDED_OF_LISTS if not roles[role]]
        if missing and UBI_COLUMNS.intersection(names):
            raise InvalidInput(f"{where} holds documents of User Behavior Insights: {JOIN_UBI}")
        if missing:
            usual_names = ", the ".join(f"{role} ({', '.join(LIST_GUESSES[role])})" for role in missing)
            options, in_python = " ".join(f"--column {role}=NAME" for role in missing), dict.fromkeys(missing, "NAME")
            fault = f"{where} has no column for the {usual_names}; it has {', '.join(usable)}"
            raise InvalidInput(f"{fault}: add {options} (in Python columns={in_python})")
        more = {role: named.get(role) or named_like(usable, usual) for role, usual in SECOND_ROLES.items()}
        others = [name for name in free if plain_name(name) and name not in roles.values()]
        groups = ("click", "click_weight", "position", "session", "propensity")
        left_out = tuple(name for name in others if any(plain_name(name) in USUAL_NAMES[group] for group in groups))
        return cls(**roles, **more, others=tuple(name for name in others if name not in left_out), left_out=left_out)

    def __str__(self) -> str:
        roles = {role: getattr(self, role) for role in LIST_ROLES if role != "session" or self.session != self.list}
        taken = ", ".join(f"{role} is {name}" for role, name in roles.items() if name)
        return f"columns: {taken} (say otherwise with --column ROLE=NAME)"


def named_like(names: Sequence[str], usual: Sequence[str]) -> str:
    """Return the column with the usual name that stands first in `usual`; empty: none has one.

    Args:
      names: The columns of the table.
      usual: Usual names, the best first.
    """
    return next((name for guess in usual for name in names if plain_name(name) == guess), "")


def named_columns(texts: Sequence[str], roles: Sequence[str] = ALL_ROLES) -> dict[str, str]:
    """Return the columns that `--column ROLE=NAME` names, by their roles.

    Args:
      texts: Texts `ROLE=NAME`.
      roles: The roles that are allowed.
    """
    named = dict(part.partition("=")[::2] for part in texts)
    for role, name in named.items():
        if role not in roles or not name:
            option = f"--column {role}={name}" if name else f"--column {role}"
            raise InvalidInput(f"{option}: write one of {', '.join(roles)}, then =, then a column")
    return named


def refuse_twice(names: Sequence[str], where: str, used: Collection[str] | None = None) -> None:
    """Refuse a table in which two columns have one name.

    Args:
      names: The columns of the table.
      where: The file, for messages.
      used: The columns that count; None for all.
    """
    column_names = names if used is None else [name for name in names if name in used]
    twice = next((name for name in column_names if name and column_names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"{where} has two columns {twice!r}: give each its own name")


def learned_from(
    names: Sequence[str], roles: Collection[str], usual: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns without a role that may be learned from, and those left out by their names.

    Args:
      names: The columns of the table.
      roles: Columns that have a role.
      usual: Usual names of roles, which are left out.
    """
    others = [name for name in names if plain_name(name) and name not in roles]
    left_out = tuple(name for name in others if plain_name(name) in (*usual, *NOT_CONTEXT))
    return tuple(name for name in others if name not in left_out), left_out


def plain_name(name: str) -> str:
    """Spell a name so that "Shown Ad", "shown-ad" and "ShownAd" are shown_ad."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[ -]", "_", name.strip()).lower()


def click_number(value: Any) -> Any:
    """Return what a cell of a column of clicks says, where it says yes or no; any other value as it is."""
    return FLAG_VALUES.get(value.strip().lower(), value) if isinstance(value, str) else value


def numbers_in(cells: Sequence[Any], name: str, where: str, right: str = "a number", if_empty: str = "") -> Floats:
    """Return a column of finite numbers, or refuse the first row that holds none; clicks may also be yes or no.

    Args:
      cells: The cells.
      name: The name of the column.
      where: The file, for messages.
      right: The values that are allowed, for messages.
      if_empty: Text that follows the message about an empty cell.
    """
    missing = next((row for row, cell in enumerate(cells) if cell is None or cell == "" or cell != cell), None)
    if missing is not None:
        raise InvalidInput(f"{where}, row {missing + 1}: {name} is missing{if_empty}")
    numbers = np.array([number_of(click_number(cell) if right in YES_NO else cell) for cell in cells], dtype=np.float64)
    for row in np.flatnonzero(~np.isfinite(numbers))[:1].tolist():
        raise InvalidInput(f"{where}, row {row + 1}: {name} is {cells[row]!r}; it must be {right}")
    return numbers


def number_of(value: Any, decimal: str = ".") -> float:
    """Return a cell as a number, nan where it is none; the number of an amount such as "1.299,00 €" or "$1,299.00".

    Args:
      value: The cell.
      decimal: The decimal mark of plain numbers. That of an amount follows from its groups of three digits.
    """
    try:
        return float(value.replace(decimal, ".") if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        amount = AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if amount is None:
        return math.nan
    digits = re.sub(r"\D", "", amount["digits"])
    return float(f"{amount['minus']}{digits}.{amount['decimals'] or 0}")


def are_amounts(values: Sequence[Any]) -> bool:
    """Return whether all values that are not missing are texts of amounts."""
    texts = [value for value in values if value is not None]
    if not all(isinstance(text, str) and AMOUNT.fullmatch(text.strip()) for text in texts):
        return False
    return any(map(SIGN_OF_AMOUNTS.search, texts))


def _check_named(
    named: Mapping[str, str], roles: Sequence[str], used: Sequence[str], names: Sequence[str], where: str
) -> None:
    refuse_twice(names, where)
    unknown_role = next((role for role in named if role not in roles), None)
    if unknown_role is not None:
        raise InvalidInput(f"a column is one of {', '.join(roles)}, not {unknown_role!r}")
    unknown = next((name for name in used if name not in names), None)
    if unknown is not None:
        raise InvalidInput(f"{where} has no column {unknown!r}{nearest(unknown, names)}")
