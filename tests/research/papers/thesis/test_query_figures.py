"""The figures on queries with features: step sizes chosen elsewhere, data sets found or not, claims that can fail."""

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.engine import Here
from research.options import Options
from research.papers.thesis import smoothing_schedule as annealing
from research.papers.thesis.query_figures import (
    KL,
    LIST_NET,
    PERCEPTRON_ARMS,
    RESIDUAL_ARM,
    SLAM,
    SMOOTH,
    SQUARED,
    SVM,
    TOP_K,
    Plan,
    _closer,
    _compared,
    as_printed,
    claim,
    comparison,
)
from research.papers.thesis.query_sets import SEPARABLE_SET, SPLITS_BY_NAME, QuerySet, available_sets
from research.papers.thesis.step_sizes import (
    TUNING_SEEDS,
    Choice,
    Contender,
    _chosen,
    _finalists,
    best_choice,
    with_chosen_rates,
)
from research.registry import Setting, everything

SMALL = {"kind": "linear_gaussian", "n_items": 6, "n_features": 4, "n_queries": 60}


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path, Here(), lambda finished, of: None, quick=True)


def test_all_four_figures_can_be_reproduced():
    assert {"thesis-2.1", "thesis-2.2", "thesis-3.4", "thesis-3.5", "thesis-3.4-annealing"} <= set(everything())


def test_published_sets_are_compared_on_other_files_than_those_of_the_step_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    folder = tmp_path / "MSLR-WEB10K" / "Fold1"
    folder.mkdir(parents=True)
    for query, part in enumerate(("train", "vali", "test")):
        (folder / f"{part}.txt").write_text(f"2 qid:{query} 1:1 2:0\n0 qid:{query} 1:0 2:1\n")
    [mslr], notice = available_sets((), ("MSLR-WEB10K",))
    compared, tuned = (build(thing, "stream").dataset().query_ids for thing in (mslr.stream, mslr.tuning))
    assert (compared, tuned, notice) == (("0", "2"), ("1",), "")


def test_the_step_size_with_the_best_average_is_chosen(setting):
    bad, good = 1e-9, 0.1  # after a start that points away, a tiny step learns nothing
    who = Contender("ListNet", {"kind": "online_gradient", "start": [5.0, 5.0, 5.0, 5.0]}, "full", (bad, good))
    [(arms, table)] = with_chosen_rates((who,), {"choice": (SMALL, 300)}, setting)
    assert arms[0].learner["learning_rate"] == good
    assert float(table.rows[0][2]) > float(table.rows[0][1])
    assert table.rows[0][-1] == "0.1"


def test_the_radius_is_chosen_with_the_step_size(setting):
    far = (3.0, 0.0, 0.0, 0.0)
    learner = {"kind": "topk_gradient", "surrogate": "squared", "start": far}
    who = Contender("squared", learner, {"kind": "top_k", "depth": 1}, (1e-9, 0.1), (0.5, 10.0))
    [(arms, table)] = with_chosen_rates((who,), {"choice": (SMALL, 300)}, setting)
    values = np.array([[float(cell) for cell in row[1:3]] for row in table.rows])
    row, column = np.unravel_index(values.argmax(), values.shape)
    assert arms[0].learner["radius"] == who.radii[row]
    assert arms[0].learner["learning_rate"] == who.rates[column]
    assert [row[0] for row in table.rows] == ["squared, radius 0.5", "squared, radius 10"]
    assert [row[-1] != "" for row in table.rows].count(True) == 1


def test_the_thesis_is_reproduced_with_the_estimator_that_it_prints():
    arms = {who.name: who for who in TOP_K}
    assert arms[SQUARED].learner["surrogate"]["divided"] == "grade"
    assert arms[as_printed(SQUARED)].learner["surrogate"]["divided"] == "grade"
    assert arms[RESIDUAL_ARM].learner["surrogate"]["divided"] == "residual"
    assert arms[as_printed(SMOOTH)].learner["surrogate"]["smoothing"] == 0.01
    printed = [who for name, who in arms.items() if name.endswith("as printed")]
    assert len(printed) == 5
    assert all(who.choices == [Choice(0.01)] for who in printed)
    learner = build(arms[as_printed(KL)].learner | {"learning_rate": 0.01}, "learner")
    assert (learner.exploration, learner.exploration_decay, learner.learning_rate_decay) == (0.1, 1 / 3, 2 / 3)


def test_claims_of_the_thesis_are_about_its_settings_and_ours_about_tuned_steps():
    ours, theirs = comparison("below", "A is below B", "figure 0", SMOOTH, right=SQUARED)[::-1]
    assert (theirs["left"], theirs["right"], theirs["paper"]) == (as_printed(SMOOTH), as_printed(SQUARED), "figure 0")
    assert (ours["left"], ours["right"], ours["paper"]) == (SMOOTH, SQUARED, "")


def test_a_contender_with_one_choice_is_not_tuned(setting):
    fixed = Contender("fixed", {"kind": "online_gradient"}, "full", (0.01,))
    tuned = Contender("tuned", {"kind": "online_gradient"}, "full", (1e-9, 0.1))
    [(arms, table)] = with_chosen_rates((fixed, tuned), {"choice": (SMALL, 100)}, setting)
    assert [(arm.name, arm.learner["learning_rate"]) for arm in arms][1] == ("fixed", 0.01)
    assert [row[0] for row in table.rows] == ["tuned"]


def test_of_equal_balls_the_smallest_is_chosen():
    choices = [Choice(0.1, 1.0), Choice(1.0, 1.0), Choice(0.1, 10.0), Choice(1.0, 10.0)]
    assert best_choice(dict(zip(choices, [0.4996, 0.4999, 0.5, 0.3]))) == Choice(0.1, 1.0)
    assert best_choice(dict(zip(choices, [0.4980, 0.4999, 0.5, 0.3]))) == Choice(0.1, 10.0)


def test_a_step_that_is_best_at_first_must_last(setting):
    learner = {"kind": "online_gradient", "surrogate": "list_net", "schedule": "root"}
    who = Contender("ListNet", learner, "full", (1e-3, 1e-2, 0.3, 3.0))
    [(arms, table)] = with_chosen_rates((who,), {"choice": (SMALL, 3000)}, setting)
    [row] = table.rows
    heat = dict(zip(who.rates, map(float, row[1:5])))
    finals = {float(rate): float(value) for rate, value in (one.split(": ") for one in row[5].split("; "))}
    assert set(finals) == set(sorted(heat, key=lambda rate: -heat[rate])[:2])
    assert arms[0].learner["learning_rate"] == max(finals, key=lambda rate: finals[rate])
    assert row[-1] == f"{arms[0].learner['learning_rate']:g}"


def test_the_verdict_of_the_finals_counts():
    who = Contender("KL", {}, rates=(0.001, 0.01, 0.1), radii=(1.0, 10.0))
    values = [0.30, 0.37, 0.10, 0.31, 0.3705, 0.09]
    tried = {who.name: dict(zip(who.choices, values))}
    assert [arm["name"] for arm in _finalists(who, tried[who.name])] == [
        "KL, 0.01 in radius 1",
        "KL, 0.001 in radius 10",
    ]
    lasting = {who.name: {Choice(0.001, 10.0): 0.35, Choice(0.01, 1.0): 0.33}}
    arms, table = _chosen((who,), tried, lasting, 1000)
    assert arms[0].learner == {"learning_rate": 0.001, "radius": 10.0}
    assert [row[-2:] for row in table.rows] == [("0.01: 0.3300", ""), ("0.001: 0.3500", "0.001")]
    arms, _ = _chosen((who,), tried, None, 1000)
    assert arms[0].learner == {"learning_rate": 0.01, "radius": 1.0}


def test_rounds_seeds_and_data_are_options(setting):
    plan = Plan("figure", untuned(PERCEPTRON_ARMS[:1]), [], 200, 200, 2)
    asked = setting._replace(options=Options(rounds=60, seeds=3))
    [(_, curves)] = _compared(plan, {"figure": QuerySet("small", SMALL, SMALL)}, asked)
    assert (curves.experiment.horizon, curves.seeds) == (60, [0, 1, 2])
    [(_, curves)] = _compared(plan, {"short": QuerySet("small", SMALL, SMALL, enough=50)}, setting)
    assert curves.experiment.horizon == 50
    assert [one.name for one in available_sets(("MQ2008",), ("Simulated",))[0]] == ["simulated"]
    with pytest.raises(InvalidInput, match="did you mean 'MQ2008'"):
        available_sets(("MQ2008",), ("MQ2009",))


def test_step_sizes_are_chosen_on_other_draws_than_the_comparison(setting):
    two = tuple(who._replace(rates=(0.1, 1.0)) for who in PERCEPTRON_ARMS)
    plan = Plan("figure", two, [claim("above", "learns", "figure 0", SLAM, right="random order")], 200, 200, 2)
    [(finding, curves)] = _compared(plan, {"figure": QuerySet("small", SMALL, SMALL)}, setting)
    assert not set(curves.seeds) & set(TUNING_SEEDS)
    assert finding.claims[0].word in ("holds", "partly")
    assert finding.claims[0].paper == "figure 0"
    assert [arm.name for arm in curves.experiment.arms] == [who.name for who in PERCEPTRON_ARMS]


def untuned(contenders):
    """One rate and one radius each: choosing is tested elsewhere."""
    return tuple(who._replace(rates=(0.1,), radii=who.radii[:1]) for who in contenders)


def test_every_top_k_arm_runs(setting):
    plan = Plan("figure", untuned(TOP_K), [], 120, 120, 2)
    [(_, curves)] = _compared(plan, {"figure": QuerySet("small", SMALL, SMALL)}, setting)
    assert curves.arms == [*(who.name for who in TOP_K), "random order"]
    assert curves.seeds == [0, 1]


def test_annealing_is_compared_with_a_smoothing_that_stays(setting):
    small = Plan("annealing", untuned(annealing.CONTENDERS), [], 60, 60, 2)
    [(_, curves)] = _compared(small, {"annealing": QuerySet("small", SMALL, SMALL)}, setting)
    decays = {arm.name: arm.learner["smoothing_decay"] for arm in curves.experiment.arms}
    assert decays == {annealing.FIXED: 0.0, annealing.SHARP: 0.0, annealing.SLOW: 0.1, annealing.FAST: 0.2}
    rows = {name: curves.of(curves.streams[0], name, "nDCG@10", "average") for name in decays}
    assert not np.array_equal(rows[annealing.SLOW], rows[annealing.FIXED])


class Curves:
    """Two seeds of given end values."""

    streams = ("only",)

    def __init__(self, **ends):
        self.ends = ends

    def of(self, stream, arm, measure, quantity):
        return np.array(self.ends[arm])[:, None]

    def at(self, arm, measure, quantity):
        return np.array(self.ends[arm])


@pytest.mark.parametrize(
    ("ours", "word"), [((0.8, 0.9), "holds"), ((0.4, 0.9), "partly"), ((0.3, 0.4), "does not hold")]
)
@pytest.mark.parametrize("arm", [SVM, KL, SQUARED])
def test_the_verdict_follows_the_data(arm, ours, word):
    ends = {"random order": (0.0, 0.0)}
    tuned = Curves(**ends | {arm: ours, LIST_NET: (1.0, 1.0)})
    printed = Curves(**ends | {as_printed(arm): ours, as_printed(LIST_NET): (1.0, 1.0)})
    assert _closer(tuned, arm, printed=False).word == _closer(printed, arm, printed=True).word == word
    assert not _closer(tuned, arm, printed=False).paper


def test_absent_data_sets_leave_a_notice(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    found, notice = available_sets(("MQ2008", "MQ2007"))
    assert [one.name for one in found] == ["simulated"]
    assert "MQ2008, MQ2007" in notice
    assert "RANKLOOP_DATA" in notice


def test_present_data_sets_are_split(tmp_path, monkeypatch):
    split = SPLITS_BY_NAME["MQ2008"]
    for file, ending in zip((*split.files, *split.tuning), (".gz", "", ".gz", "", "")):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{file}{ending}").write_bytes(b"")
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    found, notice = available_sets(("MQ2008",))
    assert notice == ""
    assert found[1].stream["path"][0].endswith(".gz")
    assert not set(found[1].stream["path"]) & set(found[1].tuning["path"])


def test_the_bounds_are_drawn_above_what_is_lost(setting, monkeypatch):
    from research.papers.thesis import query_figures

    drawn = []
    monkeypatch.setattr(query_figures, "chart", lambda name, title, rounds, lines, **more: drawn.extend(lines))
    queries = SEPARABLE_SET._replace(
        stream={"kind": "separable", "n_queries": 50}, tuning={"kind": "separable", "n_queries": 50}
    )
    plan = Plan("figure", untuned(PERCEPTRON_ARMS), [], 200, 200, 2)
    [(_, curves)] = _compared(plan, {"figure": queries}, setting)
    query_figures.bounds_chart(curves)
    lost, bounds = drawn[:2], drawn[2:]
    assert max(line.rows.max() for line in lost) < min(line.rows.min() for line in bounds)
