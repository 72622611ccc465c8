"""`rankloop evaluate MODEL --log`: what a saved ranker would earn, from the rankings that a service logged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rankloop.cli.model_file import raw_ranker
from rankloop.core.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.cli.commands.evaluate_log import LogOptions
    from rankloop.evaluation.report import Judgement

BY_POSITION = ("cascade", "position_wise", "pseudo_inverse")


def judged_export(path: Path, model: Path | None, how: LogOptions) -> Judgement:
    """A saved ranker on an export of impressions, by the probabilities of whole rankings."""
    from rankloop.evaluation.off_policy.ranking_log import checked_first
    from rankloop.evaluation.report import judge_rankings
    from rankloop.logs.impressions import read_impressions

    if how.method in BY_POSITION:
        raise InvalidInput(
            f"{path.name} tells the probabilities of whole rankings only, and {how.method} needs those of places: give "
            "the folder of the service instead, in which the states are that drew the rankings"
        )
    ranker = _named_model(model, path.name)
    session, name = raw_ranker(ranker), f"ranker of {ranker.name}"
    shown = checked_first(read_impressions(path), lambda one: one.arrival().query, session, ranker.name)
    with _way_on("try --method position_wise, with the folder of the service instead of its export"):
        return judge_rankings(session, shown, name, cast("Any", how.method), how.options())


def judged_service(log: str, model: Path | None, how: LogOptions) -> Judgement:
    """A saved ranker on the log of a service, by the probabilities of places or of whole rankings."""
    from rankloop.cli.service_log import logged_rankings
    from rankloop.evaluation.off_policy.propensities import RankingPolicy
    from rankloop.evaluation.off_policy.ranking_log import checked_first
    from rankloop.evaluation.report import judge_logged

    ranker = _named_model(model, log)
    session, name = raw_ranker(ranker), f"ranker of {ranker.name}"
    rankings = checked_first(
        logged_rankings(log, how.ranker),
        lambda one: one.query,
        session,
        ranker.name,
        lambda: _names_in(log, how.ranker),
    )
    target, by_position = RankingPolicy(session.learner, session.state), how.method in BY_POSITION
    with _way_on("" if by_position else "try --method position_wise, which weighs places instead of whole rankings"):
        return judge_logged(target, rankings, name, cast("Any", how.method), how.options(), how.positions)


def _names_in(log: str, ranker: str) -> tuple[str, ...]:
    """What a ranker of a service calls the features of its items."""
    from rankloop.service.log.archive import whole
    from rankloop.service.log.replay import Replay
    from rankloop.service.log.stores.open import log_at

    with log_at(log) as opened:
        own = [stream for stream in opened.entities() if stream.startswith("ranker/")]
        first = next(whole(opened, f"ranker/{ranker}" if ranker else own[0], opened.folder))
    return Replay(first).trainer.config.problem.feature_names


@contextmanager
def _way_on(said: str) -> Iterator[None]:
    """Tell what to try where a ranker would never have shown what the log shows."""
    from rankloop.evaluation.off_policy.sums import NeverShown

    try:
        yield
    except NeverShown as error:
        raise InvalidInput(f"{error}; {said}" if said else str(error)) from None


def _named_model(model: Path | None, log: str) -> Path:
    if model is None:
        raise InvalidInput(f"{log} holds rankings: name the saved ranker to judge, before --log")
    return model
