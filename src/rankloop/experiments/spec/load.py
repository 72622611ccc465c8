"""Read experiments from TOML, with one-line errors that name the wrong field."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

import rankloop  # noqa: F401  (names the packages in which kinds are registered)
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import UnknownKind, build
from rankloop.core.registry.specs import nearest
from rankloop.experiments.run.regret import BRUTE_FORCE_UP_TO
from rankloop.experiments.run.tasks import checkpoint_rounds, measure_name, seeds_of, with_horizon, without_regret
from rankloop.experiments.spec.model import CEILING, FLOOR, Arm, Claim, Experiment, Exponent, Figures, Quick
from rankloop.experiments.spec.plugins import import_modules

MAX_ROUNDS, MAX_RUNS = 10**9, 10**6
REGRET_REQUIREMENT = (
    f"regret needs a fixed set of items, and a measure that is a sum over items or at most {BRUTE_FORCE_UP_TO} items"
)
NESTED_TABLES: dict[str, tuple[Any, ...]] = {
    "arms": (Arm,),
    "claims": get_args(Claim),
    "figures": (Figures,),
    "quick": (Quick,),
}


class FieldError(InvalidInput):
    """Error in a field of an experiment.

    Attributes:
      position: The path of the field, such as `arms[1].learner`; "" for the table itself.
    """

    def __init__(self, position: str, message: str) -> None:
        super().__init__(message)
        self.position = position


def _check_types(table: dict[str, Any], kinds: tuple[Any, ...] = (Experiment,), position: str = "") -> None:
    """Raise `FieldError` for the first field of a table that is unknown, missing or not of its type."""
    start, inside = (f"{position}.", f" in {position}") if position else ("", "")
    tag_field = kinds[0].__struct_config__.tag_field
    tagged = {str(kind.__struct_config__.tag): kind for kind in kinds}
    if tag_field in table:
        _check_one_of(str(table[tag_field]), tagged, f"{start}{tag_field}")
    fields = {field.name: field for field in msgspec.structs.fields(tagged.get(str(table.get(tag_field)), kinds[0]))}
    names = [*filter(None, [tag_field]), *fields]
    for name in table:
        if name not in names:
            raise FieldError(f"{start}{name}", f"no field {name!r}{inside}{nearest(name, names)}")
    for name in names:
        if name in table and name in fields:
            _check_field(table[name], fields[name], f"{start}{name}")
        elif name not in table and (name == tag_field or fields[name].required):
            raise FieldError(position, f"the field {name!r} is missing{inside}")


def _check_field(value: Any, field: msgspec.structs.FieldInfo, position: str) -> None:
    for index, part in enumerate(value if isinstance(value, list | tuple) else [value]):
        if field.name in NESTED_TABLES and isinstance(part, dict):
            inner = f"{position}[{index}]" if isinstance(value, list | tuple) else position
            _check_types(part, NESTED_TABLES[field.name], inner)
    try:
        msgspec.convert(value, field.type)
    except msgspec.ValidationError as error:
        choices = nearest(str(value), get_args(field.type)) if get_origin(field.type) is Literal else ""
        raise FieldError(position, f"{position} = {value!r:.40}: {error}{choices}") from None


def _check(experiment: Experiment) -> None:
    """Raise `FieldError` for the first field that is wrong."""
    name = experiment.name
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
        message = f"name = {name!r} cannot name a folder: use letters, digits, '-', '_' and '.'"
        raise FieldError("name", message)
    _check_numbers(experiment)
    if (experiment.stream is None) == (not experiment.streams):
        raise FieldError("", 'give one stream, as in stream = "web_search", or several in a table [streams]')
    for name, stream in experiment.all_streams.items():
        _build(stream, "stream", f"streams.{name}" if experiment.streams else "stream", experiment)
    if not experiment.measures:
        raise FieldError("measures", 'measures is empty; give at least one, as in measures = ["nDCG@10"]')
    for position, measure in enumerate(experiment.measures):
        _build(measure, "measure", f"measures[{position}]", experiment)
    _check_arms(experiment)
    if experiment.regret and len(without_regret(experiment)) == len(experiment.measures):
        raise FieldError("regret", f"regret = true: {REGRET_REQUIREMENT}")
    for position, claim in enumerate(experiment.claims):
        _check_claim(claim, f"claims[{position}]", experiment)


def _check_numbers(experiment: Experiment) -> None:
    horizon, rounds = experiment.horizon, experiment.checkpoints
    _require(1 <= horizon <= MAX_ROUNDS, "horizon", horizon, f"give a number from 1 to {MAX_ROUNDS:,}")
    for name, value in (("seeds", experiment.seeds), ("checkpoints", rounds)):
        too_many = isinstance(value, int) and value > MAX_RUNS
        _require(not too_many, name, value, f"give at most {MAX_RUNS:,}")
    seeds = seeds_of(experiment)
    valid = bool(seeds) and min(seeds) >= 0 and len(set(seeds)) == len(seeds)
    _require(valid, "seeds", experiment.seeds, "give a number from 1, or a list of different seeds from 0")
    within = rounds >= 1 if isinstance(rounds, int) else bool(rounds) and _within(rounds, horizon)
    _require(within, "checkpoints", rounds, f"give a number, or a list of rounds from 1 to the horizon, {horizon}")
    late = experiment.new_queries
    _require(_within(late, horizon), "new_queries", late, f"give rounds from 1 to the horizon, {horizon}")
    window, factor = experiment.window, experiment.regret_factor
    _require(0.0 < window <= 1.0, "window", window, "give a share of the horizon, above 0 and at most 1")
    _require(0.0 <= factor < math.inf, "regret_factor", factor, "give a finite number from 0")


def _within(rounds: tuple[int, ...], horizon: int) -> bool:
    return all(1 <= t <= horizon for t in rounds)


def _require(valid: bool, name: str, value: Any, message: str) -> None:
    if not valid:
        raise FieldError(name, f"{name} = {value}: {message}")


def _check_arms(experiment: Experiment) -> None:
    if not experiment.arms:
        raise FieldError("arms", "there are no arms; add at least one [[arms]] with a name and a learner")
    names = [arm.name for arm in experiment.arms]
    for index, arm in enumerate(experiment.arms):
        position = f"arms[{index}]"
        if names.count(arm.name) > 1:
            raise FieldError(
                f"{position}.name", f"{position}.name = {arm.name!r}: another arm has this name; choose another name"
            )
        if arm.name in (FLOOR, CEILING):
            message = f"{position}.name = {arm.name!r} is reserved for the baselines; choose another name"
            raise FieldError(f"{position}.name", message)
        _build(arm.learner, "learner", f"{position}.learner", experiment)
        _build(arm.feedback, "feedback", f"{position}.feedback", experiment)
        if arm.delivery is not None:
            _build(arm.delivery, "delivery", f"{position}.delivery", experiment)


def _check_claim(claim: Claim, position: str, experiment: Experiment) -> None:
    arms = [arm.name for arm in experiment.all_arms] + ([CEILING] if experiment.ceiling else [])
    _check_one_of(claim.left, arms, f"{position}.left")
    _check_one_of(claim.measure, [measure_name(measure) for measure in experiment.measures], f"{position}.measure")
    if claim.at is not None:
        _check_one_of(str(claim.at), map(str, checkpoint_rounds(experiment)), f"{position}.at")
    recorded = {"regret": experiment.regret, "predicted": experiment.predicted}
    if not recorded.get(claim.quantity, True):
        raise FieldError(
            position, f"{position} is about {claim.quantity}: add {claim.quantity} = true to the experiment"
        )
    if claim.quantity == "regret" and claim.measure in without_regret(experiment):
        raise FieldError(
            position, f"{position}: the regret of {claim.measure} cannot be computed: {REGRET_REQUIREMENT}"
        )
    if claim.quantity in recorded and CEILING in (claim.left, getattr(claim, "right", None)):
        raise FieldError(position, f"{position}: {CEILING!r} has no {claim.quantity}; use average or recent")
    if isinstance(claim, Exponent):
        return
    if (claim.right is None) == (claim.value is None):
        raise FieldError(position, f"{position}: give either right (an arm) or value (a number)")
    if claim.right is not None:
        _check_one_of(claim.right, arms, f"{position}.right")


def _check_one_of(name: str, valid: Iterable[str], position: str) -> None:
    names = list(valid)
    if name not in names:
        raise FieldError(position, f"{position} = {name!r} does not exist{nearest(name, names)}")


def _build(thing: Any, category: str, position: str, experiment: Experiment) -> None:
    try:
        build(with_horizon(thing, experiment.horizon), category)
    except InvalidInput as error:
        unknown = isinstance(error, UnknownKind) and not experiment.imports
        hint = '; for your own kind add imports = ["MODULE"]' if unknown else ""
        raise FieldError(position, f"{position}: {error}{hint}") from None


MAX_SEARCHED_LINES = 2000  # longer files are not searched, because every beginning of the file is parsed


def read_spec(path: Path) -> Experiment:
    """Read an experiment; without a name it takes the file's, and its `imports` are looked for beside it.

    Returns:
      The experiment, every part of it built once, so that what is wrong is found before anything runs.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not TOML: it is not text in UTF-8") from None
    return read_spec_text(text, str(path), path.stem, path.parent)


def read_spec_text(text: str, source: str, name: str, folder: Path = Path()) -> Experiment:
    """Read an experiment from a TOML text.

    Args:
      text: The text.
      source: The name of the text in error messages.
      name: The experiment's name unless the text has one.
      folder: The folder of the modules in `imports`.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{source} is not TOML: {error}") from None
    return parse_spec(table, source, name, folder, text)


def parse_spec(
    table: dict[str, Any], source: str, name: str = "experiment", folder: Path = Path(), text: str = ""
) -> Experiment:
    """Make an experiment of a table.

    Args:
      table: The table.
      source: The name of the table in error messages.
      name: The experiment's name unless the table has one.
      folder: The folder of the modules in `imports`.
      text: The TOML text, for line numbers in error messages.
    """
    table = {"name": name} | table
    with _with_place(source, text):
        _check_types(table)
        experiment = msgspec.convert(table, Experiment)
    with _with_place(source, text, "imports"):
        import_modules(experiment.imports, folder)
    with _with_place(source, text):
        _check(experiment)
    return experiment


@contextmanager
def _with_place(source: str, text: str, position: str = "") -> Iterator[None]:
    """Start the message of an error with the file and the line; `position` is the field if the error has none."""
    try:
        yield
    except FieldError as error:
        raise InvalidInput(f"{_with_line(source, text, error.position)}: {error}") from None
    except (InvalidInput, NotFound, msgspec.ValidationError) as error:
        kind = NotFound if isinstance(error, NotFound) and not isinstance(error, InvalidInput) else InvalidInput
        field = f"{position}: " if position else ""
        raise kind(f"{_with_line(source, text, position)}: {field}{error}") from None


def _with_line(source: str, text: str, position: str) -> str:
    """Return the name of a file and the line where a field, or else the nearest thing around it, begins."""
    path, lines = re.findall(r"[^.\[\]]+", position), text.splitlines()
    deepest, line, begin = 0, None, 1
    for end in range(1, len(lines) + 1 if len(lines) <= MAX_SEARCHED_LINES else 1):
        try:
            depth = _depth(tomllib.loads("\n".join(lines[:end])), path)
        except tomllib.TOMLDecodeError:
            continue  # the line ends inside a list or a text
        if depth > deepest:
            deepest, line = depth, begin
        begin = end + 1
    return source if line is None else f"{source}, line {line}"


def _depth(table: Any, path: list[str]) -> int:
    """Return the number of path parts that exist in the table."""
    for depth, part in enumerate(path):
        try:
            table = table[int(part)] if isinstance(table, list) else table[part]
        except (LookupError, TypeError, ValueError):
            return depth
    return len(path)
