"""Specs as texts, and the nearest name where one is unknown."""

import pytest

from rankloop.core.registry import entries
from rankloop.core.specs import nearest, parse_spec


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("perceptrn", "; did you mean 'perceptron'?"),
        ("gradient", "; did you mean 'topk_gradient' or 'online_gradient'?"),
        ("my_learner", ""),
        ("nosuch", ""),
        ("lambdamart", ""),
    ],
)
def test_only_what_is_near_is_offered(name, end):
    assert nearest(name, [entry.kind for entry in entries("learner")]) == end


def test_few_names_are_all_told_and_many_alike_are_none():
    assert nearest("zebra", ["fast", "slow"]) == "; there is fast, slow"
    assert nearest("figure-9", [f"figure-{number}" for number in range(8)]).startswith("; there is figure-0, figure-1")
    assert nearest("anything", []) == ""


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a", {"kind": "a"}),
        ("a@10", {"kind": "a", "cutoff": 10}),
        ("a(gain='linear')@3", {"kind": "a", "gain": "linear", "cutoff": 3}),
        ("a(b={kind='c', d=[1, 2]}, e=true)", {"kind": "a", "b": {"kind": "c", "d": [1, 2]}, "e": True}),
        ("a(text='x@y')", {"kind": "a", "text": "x@y"}),
    ],
)
def test_short_specs(text, table):
    assert parse_spec(text) == table
