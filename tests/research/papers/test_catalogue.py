"""The figures on feedback on the first items are judged by the papers' own set-up."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import research.papers

FIGURES = ("thesis-3.1", "thesis-3.2", "thesis-3.3", "top1-1", "top1-2")
OURS = "(ours)"
PUBLISHED = {"filler": "random", "estimator": "exploration"}


def figure_of(id: str) -> dict[str, Any]:
    return tomllib.loads((Path(research.papers.__path__[0]) / "catalogue" / f"{id}.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("id", FIGURES)
def test_claims_of_the_papers_are_judged_by_arms_that_learn_in_exploring_rounds_only(id: str) -> None:
    figure = figure_of(id)
    learners = {arm["name"]: arm["learner"] for arm in figure["arms"]}
    judged = {
        claim[side] for claim in figure["claims"] if "paper" in claim for side in ("left", "right") if side in claim
    }
    published = {name for name, learner in learners.items() if learner["kind"] == "rtopk" and OURS not in name}
    assert published & judged == published
    assert not any(OURS in name for name in judged)
    for name in published:
        assert PUBLISHED.items() <= learners[name].items(), name


@pytest.mark.parametrize("id", FIGURES)
def test_an_arm_that_learns_in_all_rounds_is_called_ours(id: str) -> None:
    learners = {arm["name"]: arm["learner"] for arm in figure_of(id)["arms"] if arm["learner"]["kind"] == "rtopk"}
    ours = {name for name, learner in learners.items() if learner.get("estimator", "all") == "all"}
    assert ours == {name for name in learners if name.endswith(f"learns in all rounds {OURS}")}
    assert ours
