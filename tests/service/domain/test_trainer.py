"""The trainer: an update that a replay makes is not missing because the machine failed for a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rankloop.service.application.served_ranker import ServedRanker
from rankloop.service.domain.configuration import config_of
from rankloop.service.domain.trainer import Trainer
from rankloop.service.records import FeedbackReceived, Ranked
from tests.service.cases import SHOP
from tests.service.domain.test_projection import World, body_of


def _shown() -> tuple[Ranked, FeedbackReceived, Callable[[], Trainer]]:
    config = config_of(body_of(SHOP))
    ranked: Any = World(ServedRanker("ranker/r", config, b"")).event_of("rank", [], [])
    return ranked, FeedbackReceived(ranked.impression, "clicks", [ranked.order[1]], [1.0]), lambda: Trainer(config)


def _fail(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, times: int, error: Exception) -> None:
    """Let the first updates of a trainer fail."""
    failures, learn = [error] * times, trainer.session.learn

    def failing(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return learn(*arguments)

    monkeypatch.setattr(trainer.session, "learn", failing)


def test_an_update_that_fails_by_accident_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked, feedback, trainer_of = _shown()
    expected, trainer = trainer_of(), trainer_of()
    _fail(trainer, monkeypatch, 1, MemoryError("no memory now"))
    for each in (expected, trainer):
        each.learn(ranked, feedback)
    assert (trainer.number, trainer.rejected) == (1, 0)
    assert trainer.digest() == expected.digest() != trainer_of().digest()


@pytest.mark.parametrize("error", [RuntimeError("a defect"), TypeError("another one")])
def test_a_defect_of_a_learner_is_counted_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ranked, feedback, trainer_of = _shown()
    trainer = trainer_of()
    _fail(trainer, monkeypatch, 2, error)
    trainer.learn(ranked, feedback)
    assert (trainer.number, trainer.rejected) == (0, 1)
    assert trainer.digest() == trainer_of().digest()
    trainer.learn(ranked, feedback)
    assert (trainer.number, trainer.rejected) == (1, 1)
