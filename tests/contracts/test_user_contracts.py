"""Every kind of people, and every delivery, keeps the rules of the loop."""

import copy

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.contracts.cases import _first_difference
from rankloop.contracts.rank_contracts import CountingGenerator
from rankloop.core.registry import Entry, build, entries
from rankloop.core.session import Session
from rankloop.core.types import Decision, Problem, Query
from tests.contracts.examples import examples_of

users = pytest.mark.parametrize("entry", entries("feedback"), ids=lambda entry: entry.kind)
deliveries = pytest.mark.parametrize("entry", entries("delivery"), ids=lambda entry: entry.kind)
SIZES = (1, 2, 5, 12)


def rounds(n_items: int, n_rounds: int = 20):
    rng = default_rng(0)
    for _ in range(n_rounds):
        yield rng.permutation(n_items), rng.integers(0, 3, n_items).astype(float)


@users
def test_feedback_fits_what_was_shown(entry: Entry):
    for model in examples_of(entry.cls):
        problem = Problem(n_features=0, shown=model.shown, depth=model.depth, max_grade=2)
        session = Session(build("random_order"), problem)  # it accepts every kind, the session checks the fit
        for n_items in SIZES:
            for ranking, relevance in rounds(n_items):
                feedback = model.observe(ranking, relevance, default_rng(1))
                session.learn(Query.of(np.empty((n_items, 0))), Decision(ranking, 0.0, ()), feedback)


@users
def test_the_number_of_draws_is_fixed(entry: Entry):
    for model in examples_of(entry.cls):
        for n_items in SIZES:
            taken = set()
            for seed, (ranking, relevance) in enumerate(rounds(n_items)):
                draws = CountingGenerator(seed)
                model.observe(ranking, relevance, draws)
                taken.add(draws.n_drawn)
            assert len(taken) == 1, f"{model} takes {sorted(taken)} doubles for {n_items} items"


@users
def test_people_are_pure_and_seeded(entry: Entry):
    for model in examples_of(entry.cls):
        for ranking, relevance in rounds(6):
            before = copy.deepcopy((ranking, relevance))
            one, other = (model.observe(ranking, relevance, default_rng(3)) for _ in range(2))
            assert not _first_difference((ranking, relevance), before)
            assert type(one) is type(other)
            assert not _first_difference(one, other)


@deliveries
def test_feedback_does_not_arrive_before_it_is_given(entry: Entry):
    for delivery in examples_of(entry.cls):
        taken = set()
        for seed in range(30):
            draws = CountingGenerator(seed)
            assert all(arrives >= 7 for arrives in delivery.route(7, draws))
            taken.add(draws.n_drawn)
        assert len(taken) == 1
