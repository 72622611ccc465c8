"""What a table must satisfy beyond its types, found before anything runs."""

import math
from collections.abc import Iterable
from typing import Any

import rankloop  # noqa: F401  (names the packages in which kinds are registered)
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import UnknownKind, build
from rankloop.core.registry.specs import nearest
from rankloop.experiments.run.regret import BRUTE_FORCE_UP_TO
from rankloop.experiments.run.tasks import checkpoint_rounds, measure_name, seeds_of, with_horizon, without_regret
from rankloop.experiments.spec.claims import Claim, Exponent
from rankloop.experiments.spec.model import CEILING, FLOOR, Experiment

MAX_ROUNDS, MAX_RUNS = 10**9, 10**6
NO_REGRET = (
    "the best fixed ranking is known for a fixed set of items only, and there for measures that add up over items, "
    f"or up to {BRUTE_FORCE_UP_TO} items"
)


def check(experiment: Experiment) -> None:
    """Raise `InvalidInput` naming the field that is wrong."""
    _check_name(experiment.name)
    _check_numbers(experiment)
    if (experiment.stream is None) == (not experiment.streams):
        raise InvalidInput('name one stream, as in stream = "web_search", or several in a table [streams]')
    for name, stream in experiment.all_streams.items():
        _build(stream, "stream", f"streams.{name}" if experiment.streams else "stream", experiment)
    if not experiment.measures:
        raise InvalidInput('measures is empty; name at least one, as in measures = ["nDCG@10"]')
    for position, measure in enumerate(experiment.measures):
        _build(measure, "measure", f"measures[{position}]", experiment)
    _check_arms(experiment)
    if experiment.regret and len(without_regret(experiment)) == len(experiment.measures):
        raise InvalidInput(f"regret = true: {NO_REGRET}")
    for position, claim in enumerate(experiment.claims):
        _check_claim(claim, f"claims[{position}]", experiment)


def _check_name(name: str) -> None:
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
        raise InvalidInput(f"name = {name!r}: a name is made of letters, digits, '-', '_' and '.'; it names a folder")


def _check_numbers(experiment: Experiment) -> None:
    if not 1 <= experiment.horizon <= MAX_ROUNDS:
        raise InvalidInput(f"horizon = {experiment.horizon}: from 1 to {MAX_ROUNDS:,} rounds can be played")
    for name, value in (("seeds", experiment.seeds), ("checkpoints", experiment.checkpoints)):
        if isinstance(value, int) and value > MAX_RUNS:
            raise InvalidInput(f"{name} = {value}: at most {MAX_RUNS:,} can be kept")
    seeds = seeds_of(experiment)
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InvalidInput(f"seeds = {experiment.seeds}: a number of seeds from 1, or a list of different ones from 0")
    rounds = experiment.checkpoints
    outside = rounds < 1 if isinstance(rounds, int) else [t for t in rounds if not 1 <= t <= experiment.horizon]
    if outside or not rounds:
        raise InvalidInput(f"checkpoints = {rounds}: how many, or rounds from 1 to the horizon, {experiment.horizon}")
    if any(not 1 <= t <= experiment.horizon for t in experiment.new_queries):
        raise InvalidInput(
            f"new_queries = {experiment.new_queries}: rounds from 1 to the horizon, {experiment.horizon}"
        )
    if not 0.0 < experiment.window <= 1.0:
        raise InvalidInput(f"window = {experiment.window}: a share of the horizon, above 0 and at most 1")
    if not 0.0 <= experiment.regret_factor < math.inf:
        raise InvalidInput(f"regret_factor = {experiment.regret_factor}: a finite number from 0")


def _check_arms(experiment: Experiment) -> None:
    if not experiment.arms:
        raise InvalidInput("there are no arms; add at least one [[arms]] with a name and a learner")
    names = [arm.name for arm in experiment.arms]
    for position, arm in enumerate(experiment.arms):
        if names.count(arm.name) > 1:
            raise InvalidInput(f"arms[{position}].name = {arm.name!r}: another arm has this name")
        if arm.name in (FLOOR, CEILING):
            raise InvalidInput(f"arms[{position}].name = {arm.name!r} is the floor's or the ceiling's; choose another")
        _build(arm.learner, "learner", f"arms[{position}].learner", experiment)
        _build(arm.feedback, "feedback", f"arms[{position}].feedback", experiment)
        if arm.delivery is not None:
            _build(arm.delivery, "delivery", f"arms[{position}].delivery", experiment)


def _check_claim(claim: Claim, position: str, experiment: Experiment) -> None:
    arms = [arm.name for arm in experiment.all_arms] + ([CEILING] if experiment.ceiling else [])
    _check_one_of(claim.left, arms, f"{position}.left")
    _check_one_of(claim.measure, [measure_name(measure) for measure in experiment.measures], f"{position}.measure")
    if claim.at is not None:
        _check_one_of(str(claim.at), map(str, checkpoint_rounds(experiment)), f"{position}.at")
    recorded = {"regret": experiment.regret, "predicted": experiment.predicted}
    if not recorded.get(claim.quantity, True):
        raise InvalidInput(f"{position}: it is about {claim.quantity}, which needs {claim.quantity} = true")
    if claim.quantity == "regret" and claim.measure in without_regret(experiment):
        raise InvalidInput(f"{position}: there is no regret of {claim.measure}: {NO_REGRET}")
    if claim.quantity in recorded and CEILING in (claim.left, getattr(claim, "right", None)):
        raise InvalidInput(f"{position}: {CEILING!r} has no {claim.quantity}, only average and recent")
    if isinstance(claim, Exponent):
        return
    if (claim.right is None) == (claim.value is None):
        raise InvalidInput(f"{position}: name either right, an arm, or value, a number")
    if claim.right is not None:
        _check_one_of(claim.right, arms, f"{position}.right")


def _check_one_of(name: str, valid: Iterable[str], field: str) -> None:
    names = list(valid)
    if name not in names:
        raise InvalidInput(f"{field} = {name!r} is not there{nearest(name, names)}")


def _build(thing: Any, category: str, field: str, experiment: Experiment) -> None:
    try:
        build(with_horizon(thing, experiment.horizon), category)
    except InvalidInput as error:
        strange = isinstance(error, UnknownKind) and "did you mean" not in str(error) and not experiment.imports
        hint = '; one of your own needs imports = ["its_module"]' if strange else ""
        raise InvalidInput(f"{field}: {error}{hint}") from None
