"""What somebody may ask of a reproduction that is not as the paper has it: other data, longer runs, more seeds."""

from typing import NamedTuple

from rankloop.core.checks import check_at_least
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest

EMPTY_RULES = ("skip", "zero", "one")  # as in `nDCG(empty=…)`
ALL = "all"


class Options(NamedTuple):
    """None and () leave a reproduction as it is; `data` and `topics` are names, of which "all" means each there is."""

    rounds: int | None = None
    seeds: int | None = None
    data: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    items: int | None = None  # candidates in a list
    empty: str | None = None  # what a list without a relevant item counts

    @property
    def asked(self) -> dict[str, object]:
        """Those that are given, by name."""
        return {name: value for name, value in self._asdict().items() if value not in (None, ())}

    def __str__(self) -> str:
        return ", ".join(f"{name} {_text(value)}" for name, value in self.asked.items())


def check_options(id: str, options: Options, takes: frozenset[str]) -> None:
    """Refuse what a reproduction has no use for, and numbers that mean nothing."""
    for name in options.asked:
        if name not in takes:
            hint = f"it takes {', '.join(sorted(takes))}" if takes else "it takes none"
            raise InvalidInput(f"{id} has no option {name!r}: {hint}")
    if options.empty not in (None, *EMPTY_RULES):
        raise InvalidInput(f"empty = {options.empty!r} must be one of {', '.join(EMPTY_RULES)}")
    counts = {"rounds": options.rounds, "seeds": options.seeds, "items": options.items}
    check_at_least(1, **{name: value for name, value in counts.items() if value is not None})


def chosen_of(names: dict[str, str], requested: tuple[str, ...], noun: str) -> list[str]:
    """The names that are wanted, in any spelling of upper and lower case, out of known ones by lower case."""
    chosen = []
    for name in requested:
        if name.lower() not in names:
            raise InvalidInput(f"no {noun} {name!r}{nearest(name, names.values())}")
        chosen.append(names[name.lower()])
    return chosen


def _text(value: object) -> str:
    return " and ".join(map(str, value)) if isinstance(value, tuple) else str(value)
