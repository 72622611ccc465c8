"""Names of 0.1 that go on working beside the ones that took their place: modules that moved, keywords that changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
MOVED = {
    "ads": "bandits",
    "ads.baselines": "bandits.campaigns.baselines",
    "ads.campaign": "bandits.campaigns.campaign",
    "ads.click_log": "click_logs.reader",
    "ads.click_weights": "click_logs.ips_weights",
    "ads.context_columns": "logs.context_columns",
    "ads.contexts": "logs.context",
    "ads.judging": "bandits",
    "ads.position_bias": "click_logs.position_bias",
    "ads.streaming": "bandits.stream_ranker",
    "ads.training": "bandits.train",
    "batch.risk": "batch.risks.base",
    "batch.training": "batch.solution_path",
    "choices": "advice",
    "core.feedback_checks": "core.session",
    "core.restoring": "core.saved_session",
    "core.saving": "core.saved_session",
    "core.source": "core.files",
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
    "shown": "impression",
    "simulate.rounds": "simulate.round",
    "simulate.warm": "simulate.compiled.warm_up",
    "simulate.whole_queries": "simulate.compiled.queries",
    "simulate.whole_run": "simulate.compiled.fixed_set",
    "surrogates.calibrated_squared": "surrogates.calibrated_squared_loss",
    "surrogates.squared": "surrogates.squared_loss",
}


class MovedModules(MetaPathFinder, Loader):
    """Finds a module of 0.1 where it stands now: `import rankloop.ads` is `import rankloop.bandits`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        new = MOVED.get(name) if package == "rankloop" else None
        if new is None and name.startswith("ads."):
            new = f"bandits.{name.removeprefix('ads.')}"
        return ModuleSpec(fullname, self, origin=f"rankloop.{new}", is_package=True) if new else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already, under its own name, which it gets back."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def find_moved_modules() -> None:
    """Let `import` know the modules of 0.1; again changes nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())  # first: a moved package would find its own files a second time


def renamed(**old: str) -> Callable[[F], F]:
    """Let a function be called with the keywords that it had before: `@renamed(places="positions")`."""

    def with_old(function: F) -> F:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            return function(*given, **{old.get(name, name): value for name, value in named.items()})

        return cast("F", called)

    return with_old
