"""Read experiments from TOML, with one-line errors that name the wrong field."""

import math
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

import rankloop  # noqa: F401  (names the packages in which kinds are registered)
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import UnknownKind
from rankloop.core.registry.specs import nearest
from rankloop.experiments.run.regret import BRUTE_FORCE_UP_TO
from rankloop.experiments.run.tasks import checkpoint_rounds, measure_name, seeds_of, without_regret
from rankloop.experiments.spec.model import CEILING, FLOOR, Arm, Claim, Experiment, Exponent, Figures, Quick
from rankloop.experiments.spec.plugins import import_modules

MAX_ROUNDS, MAX_RUNS = 10**9, 10**6
REGRET_REQUIREMENT = (
    f"regret needs a fixed set of items, and a measure that is a sum over items or at most {BRUTE_FORCE_UP_TO} items"
)
NESTED_TABLES: dict[str, Any] = {"arms": (Arm,), "claims": get_args(Claim), "figures": (Figures,), "quick": (Quick,)}


def _check_types(table: dict[str, Any], kinds: tuple[Any, ...] = (Experiment,), position: str = "") -> None:
    """Raise `InvalidInput` for the first field of a table that is unknown, missing or not of its type."""
    start, inside = (f"{position}.", f" in {position}") if position else ("", "")
    tag_field = kinds[0].__struct_config__.tag_field
    tagged = {str(kind.__struct_config__.tag): kind for kind in kinds}
    if tag_field in table:
        _check_one_of(str(table[tag_field]), tagged, f"{start}{tag_field}")
    fields = {field.name: field for field in msgspec.structs.fields(tagged.get(str(table.get(tag_field)), kinds[0]))}
    names = [*filter(None, [tag_field]), *fields]
    for name in table:
        if name not in names:
            raise InvalidInput(f"no field {name!r}{inside}{nearest(name, names)}")
    for name in names:
        if name not in table:
            if name == tag_field or fields[name].required:
                raise InvalidInput(f"the field {name!r} is missing{inside}")
            continue
        value, place = table[name], f"{start}{name}"
        parts = [(place, value)]
        if isinstance(value, list | tuple):
            parts = [(f"{place}[{index}]", part) for index, part in enumerate(value)]
        for inner, part in parts:
            if name in NESTED_TABLES and isinstance(part, dict):
                _check_types(part, NESTED_TABLES[name], inner)
        if name in fields:
            expected = fields[name].type
            try:
                msgspec.convert(value, expected)
            except msgspec.ValidationError as error:
                choices = nearest(str(value), get_args(expected)) if get_origin(expected) is Literal else ""
                raise InvalidInput(f"{place} = {value!r:.40}: {error}{choices}") from None


def _check(experiment: Experiment) -> None:
    """Raise `InvalidInput` for the first field that is wrong."""
    name = experiment.name
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
        raise InvalidInput(f"name = {name!r} cannot name a folder: use letters, digits, '-', '_' and '.'")
    for field, valid, advice in _number_rules(experiment):
        if not valid:
            raise InvalidInput(f"{field} = {getattr(experiment, field)}: {advice}")
    if (experiment.stream is None) == (not experiment.streams):
        raise InvalidInput('give one stream, as in stream = "web_search", or several in a table [streams]')
    for name, stream in experiment.all_streams.items():
        _build(stream, "stream", f"streams.{name}" if experiment.streams else "stream", experiment)
    if not experiment.measures:
        raise InvalidInput('measures is empty; give at least one, as in measures = ["nDCG@10"]')
    for number, measure in enumerate(experiment.measures):
        _build(measure, "measure", f"measures[{number}]", experiment)
    if not experiment.arms:
        raise InvalidInput("there are no arms; add at least one [[arms]] with a name and a learner")
    names = [arm.name for arm in experiment.arms]
    for number, arm in enumerate(experiment.arms):
        position = f"arms[{number}]"
        if names.count(arm.name) > 1 or arm.name in (FLOOR, CEILING):
            reserved = arm.name in (FLOOR, CEILING) and names.count(arm.name) == 1
            problem = " is reserved for the baselines" if reserved else ": another arm has this name"
            raise InvalidInput(f"{position}.name = {arm.name!r}{problem}; choose another name")
        for category in ("learner", "feedback", "delivery"):
            if getattr(arm, category) is not None:
                _build(getattr(arm, category), category, f"{position}.{category}", experiment)
    if experiment.regret and len(without_regret(experiment)) == len(experiment.measures):
        raise InvalidInput(f"regret = true: {REGRET_REQUIREMENT}")
    for number, claim in enumerate(experiment.claims):
        _check_claim(claim, f"claims[{number}]", experiment)


def _number_rules(experiment: Experiment) -> Iterator[tuple[str, bool, str]]:
    """Yield fields that hold numbers, true if the value is valid, and what to give instead."""
    horizon, rounds = experiment.horizon, experiment.checkpoints

    def within(numbers: tuple[int, ...]) -> bool:
        return all(1 <= number <= horizon for number in numbers)

    yield "horizon", 1 <= horizon <= MAX_ROUNDS, f"give a number from 1 to {MAX_ROUNDS:,}"
    for name, value in (("seeds", experiment.seeds), ("checkpoints", rounds)):
        yield name, not isinstance(value, int) or value <= MAX_RUNS, f"give at most {MAX_RUNS:,}"
    seeds = seeds_of(experiment)
    distinct = bool(seeds) and min(seeds) >= 0 and len(set(seeds)) == len(seeds)
    yield "seeds", distinct, "give a number from 1, or a list of different seeds from 0"
    valid = rounds >= 1 if isinstance(rounds, int) else bool(rounds) and within(rounds)
    yield "checkpoints", valid, f"give a number, or a list of rounds from 1 to the horizon, {horizon}"
    yield "new_queries", within(experiment.new_queries), f"give rounds from 1 to the horizon, {horizon}"
    yield "window", 0.0 < experiment.window <= 1.0, "give a share of the horizon, above 0 and at most 1"
    yield "regret_factor", 0.0 <= experiment.regret_factor < math.inf, "give a finite number from 0"


def _check_claim(claim: Claim, position: str, experiment: Experiment) -> None:
    arms = [arm.name for arm in experiment.all_arms] + ([CEILING] if experiment.ceiling else [])
    _check_one_of(claim.left, arms, f"{position}.left")
    _check_one_of(claim.measure, [measure_name(measure) for measure in experiment.measures], f"{position}.measure")
    if claim.at is not None:
        _check_one_of(str(claim.at), map(str, checkpoint_rounds(experiment)), f"{position}.at")
    recorded = {"regret": experiment.regret, "predicted": experiment.predicted}
    if not recorded.get(claim.quantity, True):
        raise InvalidInput(f"{position} is about {claim.quantity}: add {claim.quantity} = true to the experiment")
    if claim.quantity == "regret" and claim.measure in without_regret(experiment):
        raise InvalidInput(f"{position}: the regret of {claim.measure} cannot be computed: {REGRET_REQUIREMENT}")
    if claim.quantity in recorded and CEILING in (claim.left, getattr(claim, "right", None)):
        raise InvalidInput(f"{position}: {CEILING!r} has no {claim.quantity}; use average or recent")
    if isinstance(claim, Exponent):
        return
    if (claim.right is None) == (claim.value is None):
        raise InvalidInput(f"{position}: give either right (an arm) or value (a number)")
    if claim.right is not None:
        _check_one_of(claim.right, arms, f"{position}.right")


def _check_one_of(name: str, valid: Iterable[str], position: str) -> None:
    names = list(valid)
    if name not in names:
        raise InvalidInput(f"{position} = {name!r} does not exist{nearest(name, names)}")


def _build(thing: Any, category: str, position: str, experiment: Experiment) -> None:
    try:
        experiment.build(thing, category)
    except InvalidInput as error:
        unknown = isinstance(error, UnknownKind) and not experiment.imports
        hint = '; for your own kind add imports = ["MODULE"]' if unknown else ""
        raise InvalidInput(f"{position}: {error}{hint}") from None


def read_spec(path: Path) -> Experiment:
    """Read an experiment; without a name it takes the file's, and its `imports` are looked for beside it."""
    # Every part of it is built once, so that what is wrong is found before anything runs.
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not TOML: it is not text in UTF-8") from None
    return parse_spec(text, str(path), path.stem, path.parent)


def parse_spec(table: dict[str, Any] | str, source: str, name: str = "experiment", folder: Path = Path()) -> Experiment:
    """Make an experiment of a table.

    Args:
      table: The table, or its TOML text.
      source: The name of the table in error messages.
      name: The experiment's name unless the table has one.
      folder: The folder of the modules in `imports`.
    """
    if isinstance(table, str):
        try:
            table = tomllib.loads(table)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InvalidInput(f"{source} is not TOML: {error}") from None
    with _named(source):
        _check_types({"name": name} | table)
        experiment = msgspec.convert({"name": name} | table, Experiment)
    with _named(f"{source}: imports"):
        import_modules(experiment.imports, folder)
    with _named(source):
        _check(experiment)
    return experiment


def demo_experiment(seed: int = 0, rounds: int | None = None) -> Experiment:
    """Return the experiment of `demo.toml`: learners that get all grades, some grades, or only clicks.

    Args:
      seed: The first seed.
      rounds: The number of rounds; by default that of the file.
    """
    experiment = parse_spec(Path(__file__).with_name("demo.toml").read_text(encoding="utf-8"), "demo.toml", "demo")
    seeds = tuple(seed + number for number in seeds_of(experiment))
    return msgspec.structs.replace(experiment, seeds=seeds, horizon=rounds or experiment.horizon)


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Start the message of an error with the place where it is."""
    try:
        yield
    except (InvalidInput, msgspec.ValidationError) as error:
        raise InvalidInput(f"{source}: {error}") from None
    except NotFound as error:
        raise NotFound(f"{source}: {error}") from None
