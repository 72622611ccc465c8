"""Names of 0.1 that go on working beside the ones that took their place: modules that moved, keywords that changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
MOVED = {
    "ads": "bandits",
    "ads.auc_loss": "bandits.auc_loss",
    "ads.auc_policy": "bandits.auc_policy",
    "ads.auc_ranker": "bandits.auc_ranker",
    "ads.bandit_data": "bandits.campaigns.labelled_logs",
    "ads.baselines": "bandits.campaigns.baselines",
    "ads.campaign": "bandits.campaigns.campaign",
    "ads.click_log": "click_logs.reader",
    "ads.click_weights": "click_logs.ips_weights",
    "ads.context_columns": "logs.context_columns",
    "ads.contexts": "logs.context",
    "ads.estimator": "core.estimator",
    "ads.first_item": "bandits.first_item",
    "ads.judging": "bandits",
    "ads.linear_ucb": "bandits.linear_ucb",
    "ads.plot": "bandits",
    "ads.policies": "bandits.policies",
    "ads.position_bias": "click_logs.position_bias",
    "ads.reward_model": "bandits.reward_model",
    "ads.saved_policy": "bandits.saved_policy",
    "ads.streaming": "bandits.stream_ranker",
    "ads.thresholds": "bandits.thresholds",
    "ads.training": "bandits.train",
    "batch.risk": "batch.risks.base",
    "batch.training": "batch.solution_path",
    "choices": "advice",
    "core.feedback_checks": "core.session",
    "core.learning": "core.learner",
    "core.rankings": "core.kernels",
    "core.restoring": "core.saved_session",
    "core.saving": "core.saved_session",
    "core.source": "core.files",
    "core.specs": "core.registry.specs",
    "core.wire": "core.plain",
    "data.fetch": "data.download",
    "data.fixed_items": "data.streams.fixed_items",
    "data.letor": "data.readers.letor.file",
    "data.letor_stream": "data.streams.letor",
    "data.linear_gaussian": "data.streams.linear_gaussian",
    "data.pool": "data.streams.pool",
    "data.separable": "data.streams.separable",
    "data.text": "data.readers.text",
    "data.topics": "data.streams.topics",
    "data.web_search": "data.streams.web_search",
    "data.whole_pool": "learners._shared.compiled_rounds",
    "evaluation.exploration": "evaluation.ranking.exploration",
    "evaluation.impressions": "logs.impressions",
    "evaluation.log_columns": "logs.columns",
    "evaluation.log_table": "logs.table",
    "evaluation.score": "evaluation.ranking.score",
    "evaluation.stability": "evaluation.ranking.stability",
    "evaluation.trec": "evaluation.ranking.trec",
    "experiments.charts": "experiments.report.charts",
    "experiments.claims": "experiments.analysis.verdicts",
    "experiments.curves": "experiments.analysis.curves",
    "experiments.findings": "experiments.report.model",
    "experiments.front_page": "experiments.report.html",
    "experiments.plan": "experiments.run.tasks",
    "experiments.reading": "experiments.spec.load",
    "experiments.record": "experiments.papers.record",
    "experiments.reproducing": "experiments.papers.registry",
    "experiments.reproductions": "experiments.papers",
    "experiments.reproductions.click_worlds": "experiments.papers.coactive.click_streams",
    "experiments.reproductions.online_rankers": "experiments.papers.coactive.online_rankers",
    "experiments.results": "experiments.run.store",
    "experiments.running": "experiments.run.runner",
    "experiments.small_multiples": "experiments.report.charts",
    "experiments.summary": "experiments.analysis.summary",
    "learners.perturbation": "learners._shared.perturbation",
    "learners.plackett_luce": "learners._shared.plackett_luce",
    "shown": "impression",
    "simulate.rounds": "simulate.round",
    "simulate.warm": "simulate.compiled.warm_up",
    "simulate.whole_queries": "simulate.compiled.whole_run",
    "simulate.whole_run": "simulate.compiled.whole_run",
    "surrogates.calibrated_squared": "surrogates.calibrated_squared_loss",
    "surrogates.squared": "surrogates.squared_loss",
}


class MovedModule(ModuleType):
    """A module under its name in 0.1; the one that took its place is imported when something of it is asked for."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"rankloop.{old}", f"Moved to `rankloop.{new}`.")
        self._new = f"rankloop.{new}"
        self.__path__: list[str] = []  # what moved out of a package is in the table too

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # tools that look at every module need not import this one
            raise AttributeError(name)
        return getattr(import_module(self._new), name)


def keep_moved_modules() -> None:
    """Let `import` find the modules of 0.1; nothing is loaded before it is used."""
    for old, new in MOVED.items():
        sys.modules.setdefault(f"rankloop.{old}", MovedModule(old, new))


def renamed(**old: str) -> Callable[[F], F]:
    """Let a function be called with the keywords that it had before: `@renamed(places="positions")`."""

    def with_old(function: F) -> F:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            return function(*given, **{old.get(name, name): value for name, value in named.items()})

        return cast("F", called)

    return with_old
