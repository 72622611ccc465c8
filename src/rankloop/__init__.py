"""Learning to rank while the ranking is used, from clicks, grades and other weak feedback."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankloop.core.errors import Conflict, IncompatibleFeedback, InvalidInput, NotFound, RankloopError, UnstableUpdate

if TYPE_CHECKING:
    from rankloop.click_models.fit import fit_users
    from rankloop.core.registry import build, register, spec_of
    from rankloop.core.saved_session import load, save
    from rankloop.core.session import Session
    from rankloop.core.types import Clicks, Decision, Preferred, Problem, Query, Relevances, Reward
    from rankloop.evaluation.log_evaluation import Evaluation, evaluate
    from rankloop.experiments.rehearsal.answer import rehearse
    from rankloop.features.schema import Schema
    from rankloop.impression import Impression
    from rankloop.logs.choice_log import ChoiceLog
    from rankloop.logs.list_log import ListLog
    from rankloop.logs.reader import read_log
    from rankloop.measures.base import parse_measure
    from rankloop.ranker import Ranker
    from rankloop.simulate.play import Round, play
    from rankloop.training.clicks.train import train_clicks
    from rankloop.training.policy import train_policy
    from rankloop.training.train import train

# Imported when first used: numba alone takes longer to import than the rest of a short command.
_HOMES = {
    "rankloop.click_models.fit": ("fit_users",),
    "rankloop.core.registry": ("build", "register", "spec_of"),
    "rankloop.core.saved_session": ("load", "save"),
    "rankloop.core.session": ("Session",),
    "rankloop.core.types": ("Clicks", "Decision", "Preferred", "Problem", "Query", "Relevances", "Reward"),
    "rankloop.evaluation.log_evaluation": ("Evaluation", "evaluate"),
    "rankloop.experiments.rehearsal.answer": ("rehearse",),
    "rankloop.features.schema": ("Schema",),
    "rankloop.impression": ("Impression",),
    "rankloop.logs.choice_log": ("ChoiceLog",),
    "rankloop.logs.list_log": ("ListLog",),
    "rankloop.logs.reader": ("read_log",),
    "rankloop.measures.base": ("parse_measure",),
    "rankloop.ranker": ("Ranker",),
    "rankloop.simulate.play": ("Round", "play"),
    "rankloop.training.clicks.train": ("train_clicks",),
    "rankloop.training.policy": ("train_policy",),
    "rankloop.training.train": ("train",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["Clicks", "Conflict", "Decision", "Impression", "IncompatibleFeedback", "InvalidInput", "NotFound"]
__all__ += ["Preferred", "Problem", "Query", "Ranker", "RankloopError", "Relevances", "Reward", "Round", "Schema"]
__all__ += ["Session", "UnstableUpdate", "build", "load", "parse_measure", "play", "register", "save"]
__all__ += ["ChoiceLog", "Evaluation", "ListLog", "evaluate", "fit_users", "read_log", "rehearse", "spec_of"]
__all__ += ["train", "train_clicks", "train_policy"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("rankloop")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    try:
        return import_module(f"rankloop.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"module 'rankloop' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(__all__)
