"""What is wrong with a table is found before anything runs, in one line that names the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.experiments.run.tasks import checkpoint_rounds, deciding_fields, quick_version, tasks_of, window_of
from rankloop.experiments.spec.load import parse_spec, read_spec
from rankloop.experiments.spec.model import Experiment
from tests.experiments.cases import small, table

ABOVE = {"text": "t", "check": "above", "left": "leader", "right": "still", "measure": "DCG"}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"horizn": 5}, "no field 'horizn'; did you mean 'horizon'"),
    ({"arms": [{"name": "a", "lerner": "ftpl"}]}, r"no field 'lerner' in arms\[0\]; did you mean 'learner'"),
    ({"arms": [{"name": "a"}]}, r"the field 'learner' is missing in arms\[0\]"),
    ({"arms": []}, "there are no arms"),
    ({"arms": [{"name": "a", "learner": "ftlp"}]}, r"arms\[0\].learner: no learner 'ftlp'; did you mean 'ftpl'"),
    ({"arms": [{"name": "a", "learner": {"kind": "3pr", "swop": 1}}]}, r"'3pr': no parameter 'swop'.*'swap'"),
    ({"arms": [{"name": "a", "learner": "ftpl", "feedback": "ful"}]}, r"arms\[0\].feedback: .*'full'"),
    ({"arms": [{"name": "a", "learner": "3pr", "delivery": "latr"}]}, r"arms\[0\].delivery: .*'late'"),
    ({"arms": [{"name": "random order", "learner": "3pr"}]}, "is reserved for the baselines"),
    ({"arms": [{"name": "a", "learner": "3pr"}, {"name": "a", "learner": "3pr"}]}, r"arms\[0\].name.*another arm"),
    ({"measures": ["nDGC@10"]}, r"measures\[0\]: no measure 'nDGC'; did you mean 'nDCG'"),
    ({"measures": []}, "measures is empty"),
    ({"stream": "nosuch"}, "stream: no stream 'nosuch'.*for your own kind add imports = "),
    ({"stream": None}, "give one stream"),
    ({"streams": {"a": "web_search"}}, "give one stream"),
    ({"horizon": 0}, "horizon = 0"),
    ({"horizon": "many"}, "horizon = 'many': Expected `int`"),
    ({"seeds": 0.5}, r"seeds = 0.5: Expected `int \| array`, got `float`"),
    ({"measures": "DCG"}, "measures = 'DCG': Expected `array`"),
    ({"measures": [3]}, r"measures = \[3\]: Expected `str \| object`"),
    ({"streams": {"a": 3}, "stream": None}, r"streams = .*: Expected `str \| object`, got `int`"),
    ({"predicted": "yes"}, "predicted = 'yes': Expected `bool`"),
    ({"arms": {"name": "a"}}, "the field 'learner' is missing in arms"),
    ({"quick": {"horizon": "few"}}, r"quick.horizon = 'few': Expected `int \| null`"),
    ({"arms": [{"name": 3, "learner": "ftpl"}]}, r"arms\[0\].name = 3: Expected `str`"),
    ({"figures": {"quantities": ["regrets"]}}, "figures.quantities = .*: Invalid enum value 'regrets'"),
    ({"seeds": 0}, "seeds = 0"),
    ({"seeds": [1, 1]}, "seeds = .*different"),
    ({"seeds": [-1]}, "seeds = "),
    ({"checkpoints": [1, 201]}, "checkpoints = .*to the horizon, 200"),
    ({"checkpoints": 0}, "checkpoints = 0"),
    ({"window": 0.0}, "window = 0.0"),
    ({"spacing": "sqrt"}, "spacing = 'sqrt': .*; there is linear, log"),
    ({"name": "../evil"}, "cannot name a folder"),
    ({"regret_factor": -1.0}, "regret_factor"),
    ({"stream": "web_search", "arms": [{"name": "a", "learner": "3pr"}]}, "regret = true: regret needs a fixed set"),
    ({"claims": [ABOVE | {"left": "leder"}]}, r"claims\[0\].left = 'leder' does not exist; did you mean 'leader'"),
    ({"claims": [ABOVE | {"measure": "AP"}]}, r"claims\[0\].measure = 'AP' does not exist"),
    ({"claims": [ABOVE | {"at": 11}]}, r"claims\[0\].at = '11' does not exist"),
    ({"claims": [ABOVE | {"value": 1.0}]}, "either right .an arm. or value"),
    ({"claims": [ABOVE | {"quantity": "predicted"}]}, "add predicted = true"),
    ({"claims": [ABOVE | {"quantity": "regret", "right": "best possible"}]}, "'best possible' has no regret"),
    ({"claims": [ABOVE | {"bye": 1.0}]}, r"no field 'bye' in claims\[0\]; did you mean 'by'"),
    ({"claims": [ABOVE | {"check": "eval"}]}, r"claims\[0\].check = 'eval' does not exist; there is above, "),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        parse_spec(table(**changes), "small.toml")
    assert str(caught.value).startswith("small.toml: ")


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        read_spec(tmp_path / "nosuch.toml")
    (tmp_path / "bad.toml").write_text("horizon = = 3")
    with pytest.raises(InvalidInput, match="is not TOML"):
        read_spec(tmp_path / "bad.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="is not text"):
        read_spec(tmp_path / "binary.toml")


def test_checkpoints_are_distinct_and_hold_the_first_window_and_the_end() -> None:
    assert checkpoint_rounds(small()).tolist() == [1, 10, 20, 50, 200]
    for spacing in ("log", "linear"):
        rounds = checkpoint_rounds(small(checkpoints=30, spacing=spacing))
        assert np.all(np.diff(rounds) > 0)
        assert {1, 20, 200} <= set(rounds.tolist())


def test_every_arm_meets_every_seed_and_the_floor_and_the_ceiling_are_among_them() -> None:
    tasks = tasks_of(small(seeds=[3, 8]))
    assert [(task.arm, task.seed) for task in tasks[:4]] == [
        ("leader", 3),
        ("still", 3),
        ("random order", 3),
        ("best possible", 3),
    ]
    assert len(tasks) == 8
    assert len(tasks_of(small(floor=False, ceiling=False))) == 4


def test_the_deciding_fields_survive_the_way_to_the_disk_and_to_another_process() -> None:
    experiment = small()
    assert deciding_fields(msgspec.json.decode(msgspec.json.encode(experiment), type=Experiment)) == deciding_fields(
        experiment
    )
    assert deciding_fields(small(window=0.1)) == deciding_fields(small())


def test_only_what_changes_the_numbers_changes_the_deciding_fields() -> None:
    plain = deciding_fields(small())
    assert deciding_fields(small(seeds=9, title="other", claims=[ABOVE], figures={"log_y": True})) == plain
    for change in (
        {"horizon": 201},
        {"measures": ["DCG"]},
        {"window": 0.2},
        {"regret_factor": 0.5},
        {"predicted": True},
    ):
        assert deciding_fields(small(**change)) != plain


def test_quick_is_smaller_and_stays_valid() -> None:
    quick = quick_version(small(claims=[ABOVE | {"at": 50}], quick={"horizon": 20, "seeds": 1}))
    assert (quick.horizon, quick.seeds, quick.claims[0].at) == (20, 1, None)
    assert checkpoint_rounds(quick)[-1] == 20
    assert quick_version(small(horizon=4000)).horizon == 200
    assert window_of(quick) == 2
