"""The figures on clicks: found, computed on small streams, with claims that can fail."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.registry import build
from rankloop.engine import Here
from rankloop.experiments.analysis.curves import Curves
from rankloop.learners.preference_perceptron import PreferencePerceptron
from research.options import Options
from research.papers.coactive import click_streams, figures, swaps, warm_start
from research.papers.coactive import online_rankers as rankers
from research.papers.coactive import ranker_goals as goals
from research.papers.coactive import user_study as study_module
from research.papers.coactive.click_streams import (
    CLEAN_GRADER,
    GRADER,
    LETOR_STREAMS,
    ClickStream,
    Plan,
    available_streams,
)
from research.papers.coactive.toy import (
    PERCEPTRON,
    PERTURBED_ARM,
    PRINTED_RANKS,
    TOP_TWO,
    Toy,
    _as_printed,
    highest_possible_rank,
    highest_rank_with_swaps,
    perturbed_ranks,
    perturbed_run,
    ranks,
)
from research.registry import Setting, everything, reproduce
from research.verdicts import is_above
from tests.feedback import clicks

IDS = {f"coactive-{name}" for name in ("toy", "table-1", "ten", "warm", "4-early", *range(1, 8))} | {"online-rankers"}
STREAM = {"kind": "web_search", "n_items": 8, "n_features": 5, "n_queries": 50}
SMALL = ClickStream("small", STREAM, GRADER, CLEAN_GRADER, 4)


@pytest.fixture
def setting(tmp_path, monkeypatch):
    monkeypatch.setattr(click_streams, "available_streams", lambda wanted: ([SMALL], ""))
    monkeypatch.setattr(rankers, "available_streams", lambda wanted: ([SMALL], ""))
    monkeypatch.setattr(click_streams, "QUICK_SHARE", 100)
    monkeypatch.setattr(rankers, "QUICK_HORIZON", 150)
    monkeypatch.setattr(figures, "SVMS", dict(list(figures.SVMS.items())[3:5]))
    return Setting(tmp_path, Here(), lambda finished, of: None, quick=True)


def test_all_figures_are_known():
    assert set(everything()) >= IDS


def test_streams_that_are_missing_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    found, notice = available_streams(LETOR_STREAMS[:1])
    assert [stream.name for stream in found] == ["web search, simulated"]
    assert "MQ2007" in notice


@pytest.mark.parametrize(
    "figure",
    [
        figures.learning_curves,
        figures.noise,
        figures.presented_and_predicted,
        swaps.swap_probabilities,
        swaps.swap_over_time,
        warm_start.warm_start,
    ],
)
def test_figures_on_a_small_stream(figure, setting):
    finding = figure(setting)
    assert finding.claims
    assert finding.charts
    assert {claim.word for claim in finding.claims} <= {"holds", "partly", "does not hold"}
    assert all(claim.subject == ("small",) for claim in finding.claims)
    assert len({claim.text for claim in finding.claims}) == len(finding.claims)


def test_online_rankers_on_a_small_stream(setting, monkeypatch):
    monkeypatch.setattr(rankers, "CONDITIONS", ("perfect", "drift"))
    monkeypatch.setattr(rankers, "QUICK_HORIZON", 400)
    finding = rankers.online_rankers(setting)
    others = [name for name in rankers.RANKERS if name != goals.OURS]
    assert [row[0] for row in finding.tables[0].rows] == others
    titles = [table.title.split(": ")[0] for table in finding.tables[1:]]
    assert titles == [f"small, {quantity.words}" for quantity in goals.QUANTITIES]
    by_title = dict(zip(titles, finding.tables[1:]))
    last, new = by_title["small, shown in the last tenth"], by_title["small, new queries at the end"]
    assert (last.header, new.header) == (("", "perfect", "drift"), ("", "perfect"))
    assert [row[0] for row in last.rows] == [*rankers.RANKERS, *rankers.IN_DRIFT]
    assert [row[0] for row in new.rows] == list(rankers.RANKERS)
    assert sum(claim.subject == ("goal",) for claim in finding.claims) == 8
    assert sum(claim.subject[:1] == ("small",) for claim in finding.claims) == 2 * len(goals.COMPARED_RANKERS)


def run_of(seed, arm, first, alarms):
    """What a run of two checkpoints has: quality, new queries, alarms."""
    values = {"recent": [first, 0.7], "average": [first, 0.6], "new_queries": [0.4, 0.5]}
    return SimpleNamespace(
        key=("stream", arm, seed),
        stream="stream",
        arm=arm,
        seed=seed,
        checkpoints=[50, 1000],
        values={click_streams.MEASURE: values},
        reports={"alarms": [0.0, alarms]} if arm == goals.OURS else {},
    )


def test_goals_by_hand():
    runs = [run_of(seed, goals.OURS, 0.5 - 0.2 * seed, float(seed)) for seed in (0, 1)]
    runs += [run_of(seed, goals.FAIR, 0.45, 0.0) for seed in (0, 1)]
    cells = {("stream", "perfect"): Curves(SimpleNamespace(horizon=1000), runs)}
    assert goals.pooled(cells, goals.OURS, goals.FIRST_TWENTIETH).tolist() == [0.5, 0.3]
    assert (goals.behind(cells, goals.OURS), goals.behind(cells, goals.FAIR)) == (1, 0)  # .3 is .15 behind .45
    assert goals._alarms(cells) == (1, 2)
    assert goals.pooled_table(cells).rows[0][:2] == ("fair pairs", "0.0000 ± 0.0000")
    assert [goals.AFTER_CHANGE.round_of(horizon) for horizon in (20_000, 150)] == [12_000, 90]


def test_the_study_teaches_with_half_of_the_visits(monkeypatch):
    monkeypatch.setattr(study_module, "STREAM", STREAM)
    found = study_module.study.__wrapped__("3PR", 0, 900)
    assert found.rounds.tolist() == [100, 200, 300]
    assert np.all((found.common >= 0) & (found.common <= 8))
    assert np.all(np.isfinite(found.score_agreement))


def test_the_toy_oscillates_within_what_is_possible():
    assert highest_possible_rank() == pytest.approx(6.56, abs=0.01)
    found = ranks(("preference perceptron", 0))
    assert set(found) == {1, 10}
    assert 3 < np.mean(found) < 8.5


def test_swapping_the_first_two_is_a_random_walk_with_a_lead_of_three_steps():
    ever_lost = (0.02 / 0.32) ** 3
    assert highest_rank_with_swaps() == pytest.approx(1.5 * (1 - ever_lost) + 10 * ever_lost)
    assert set(ranks((TOP_TWO, 0))) == {1, 2}


def test_what_is_printed_can_hold_be_missed_or_be_impossible():
    printed, found = PRINTED_RANKS[PERCEPTRON], np.array([5.9, 5.95, 6.0])
    assert _as_printed(PERCEPTRON, found, limit=6.56).word == "cannot hold"
    assert "at most 6.56" in _as_printed(PERCEPTRON, found, limit=6.56).argument
    assert _as_printed(PERCEPTRON, found, limit=9.5).word == "does not hold"
    assert _as_printed(PERCEPTRON, np.full(3, printed), limit=9.5).word == "holds"
    literal = _as_printed(PERTURBED_ARM, np.array([1.49, 1.5, 2.17]), limit=np.inf)
    assert (literal.word, literal.argument, literal.paper) == ("does not hold", "", "section 5: 2.08")
    assert literal.because.endswith("the largest of 3 runs 2.170")


def test_the_perturbed_perceptron_goes_as_the_learner_does():
    """Section 5 to the letter: the preference perceptron, shown with its first two swapped by a coin."""
    draws = np.random.default_rng(5).random((1000, 11))
    learner = PreferencePerceptron(clicks_to="swap_first", start=(1.0, -1.0))
    query = next(iter(Toy().rounds(np.random.default_rng(0))))[0]
    state, ranks_ = learner.init(Toy.problem), []
    for row in draws:
        decision = learner.rank(state, query, None)
        shown = decision.ranking.copy()
        if row[10] < 0.5:
            shown[[0, 1]] = shown[[1, 0]]
        ranks_.append(int(np.argmin(shown)) + 1)
        clicked = shown[np.flatnonzero((row[:10] < 0.8) == (shown == 0))[:1]]
        state = learner.learn(state, query, decision._replace(ranking=shown), clicks(clicked))
    assert perturbed_ranks(draws).tolist() == ranks_


def test_section_5_to_the_letter_gives_1_51():
    means = np.array([perturbed_run(seed).mean() for seed in range(2000)])
    assert means.mean() == pytest.approx(1.512, abs=0.003)
    assert 1.9 < means.max() < 3.0  # what is printed is far out, not impossible


class FakeCurves:
    """Curves that say what a test wants."""

    def __init__(self, **finals):
        self.finals, self.streams, self.seeds = finals, ["stream"], [0, 1, 2]
        self.experiment = SimpleNamespace(measures=(click_streams.MEASURE,))

    def of(self, stream, arm, measure, quantity):
        return np.full((3, 1), self.finals[arm.replace(" ", "_").replace(".", "_")]) + np.array([[0.0], [1e-4], [2e-4]])

    def at(self, arm, measure, quantity, stream="", column=-1):
        return self.of(stream, arm, measure, quantity)[:, column]


def test_the_dynamic_probability_is_held_against_the_best_fixed_one():
    fixed = {"swap_0": 0.3, "swap_0_25": 0.6, "swap_0_5": 0.5, "swap_0_75": 0.4, "swap_1": 0.2}
    near = swaps._near_the_best(FakeCurves(**fixed, **{"3PR,_dynamic": 0.595}))
    far = swaps._near_the_best(FakeCurves(**fixed, **{"3PR,_dynamic": 0.585}))
    assert (near.word, far.word) == ("holds", "does not hold")
    assert "the best is swap 0.25" in near.because


def test_the_first_tenth_alone_is_the_first_tenth_of_figure_4(tmp_path):
    """No learner knows how many rounds follow, so short runs are the beginnings of long ones."""
    options = Options(seeds=2, data=("Simulated",))
    setting = Setting(tmp_path, Here(), lambda finished, of: None, options=options)

    def arms(stream):
        learners = {figures.THREE: ("3pr", GRADER), figures.ALL_GRADES_ARM: ("structured_perceptron", "full")}
        return [click_streams.arm(name, {"kind": kind}, users) for name, (kind, users) in learners.items()]

    long, short = (
        click_streams.compared(Plan(f"of-{rounds}", "", arms, [], horizon=rounds), setting)[1]["web search, simulated"]
        for rounds in (300, 30)
    )
    for name in (figures.THREE, figures.ALL_GRADES_ARM):
        first_tenth = click_streams.at_start(long, name)
        assert click_streams.at_the_end(short, name, "average") == pytest.approx(first_tenth, abs=1e-12)
    found = figures.first_tenth(setting._replace(options=options._replace(rounds=30)))
    [verdict] = found.claims
    assert (verdict.text, verdict.subject) == (figures.FASTER_TEXT, ("web search, simulated",))
    assert verdict.difference.n == 2


def test_failing_is_what_is_left_of_the_gain_over_random():
    ends = {"clicks_to_the_top": 0.5, "pairs": 0.65, "3PR": 0.7, "random_order": 0.3}
    curves = FakeCurves(**ends)
    assert figures.gain_left(curves, figures.TOP) == pytest.approx(np.full(3, 0.2 / 0.4), abs=1e-3)
    assert figures.gain_left(curves, figures.PAIR) == pytest.approx(np.full(3, 0.35 / 0.4), abs=1e-3)
    words = {}
    for top in (0.35, 0.45, 0.55):
        left = figures.gain_left(FakeCurves(**ends | {"clicks_to_the_top": top}), figures.TOP)
        words[top] = figures._at_most("top fails", left, figures.FAILS, "section 8.1").word
    assert words == {0.35: "holds", 0.45: "holds", 0.55: "does not hold"}


def test_the_ranking_svm_is_tuned_over_seven_decades():
    strengths = [learner["regularisation"] for learner in figures.SVMS.values()]
    assert strengths == pytest.approx([10.0**power for power in range(-4, 4)])


TEXTS = {"sport": "ball goal team", "space": "orbit moon star", "rare": "fish"}


@pytest.fixture
def collection(tmp_path):
    lines = []
    for i in range(60):
        group = "rare" if i == 7 else ("sport", "space")[i % 2]
        lines.append(json.dumps({"split": "train", "group": group, "text": f"common always {TEXTS[group]}"}))
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_every_topic_of_a_collection_is_a_person(tmp_path, collection, monkeypatch):
    monkeypatch.setattr(click_streams, "QUICK_SHARE", 100)
    options = Options(data=(str(collection),), topics=("all",), items=6, rounds=40, empty="zero")
    setting = Setting(tmp_path / "r", Here(), lambda finished, of: None, quick=True, options=options)
    finding = figures.presented_and_predicted(setting)
    assert dict(finding.facts)["rounds"] == "own: 3 topics of 40"
    assert len(finding.claims) == 4
    [(_, curves)] = click_streams.compared(Plan("again", "", swaps_arms, []), setting)[1].items()
    assert curves.seeds == [0, 1, 2]
    assert curves.measures == ["nDCG@5"]  # which counts empty lists as zero
    assert {stream["candidates"] for stream in curves.experiment.streams.values()} == {6}
    assert [stream["topic"] for stream in curves.experiment.streams.values()] == ["rare", "space", "sport"]


def test_lists_of_ten_count_empty_ones_as_zero(tmp_path, collection, monkeypatch):
    own = click_streams._topics("20 Newsgroups, lists of ten", str(collection), share=0.1)
    own = own._replace(stream=own.stream | {"candidates": 10}, empty=click_streams.EMPTY_ZERO)
    monkeypatch.setattr(figures, "SHORT_TEXT_STREAMS", (own,))
    monkeypatch.setattr(click_streams, "NAMED_STREAMS", (own,))
    setting = Setting(tmp_path / "r", Here(), lambda *_: None, quick=True, options=Options(rounds=60))
    finding = figures.lists_of_ten(setting)
    assert dict(finding.facts)["rounds"] == "20 Newsgroups, lists of ten: 2 topics of 60"
    assert len(finding.claims) == 12
    assert {stream.stream["candidates"] for stream in click_streams.SHORT_TEXT_STREAMS} == {10}
    assert {stream.empty for stream in click_streams.SHORT_TEXT_STREAMS} == {"zero"}


def test_claims_about_perceptrons_turn_with_the_numbers(monkeypatch):
    monkeypatch.setattr(figures, "at_start", lambda curves, name: figures.at_the_end(curves, name))
    three, full = "3PR", "structured_perceptron,_all_grades"
    ends = {"clicks_to_the_top": 0.35, "pairs": 0.4, three: 0.7, full: 0.6, "random_order": 0.3}
    words = [claim.word for claim in figures._about_perceptrons(FakeCurves(**ends))]
    assert words == ["holds", "does not hold", "holds", "holds"]
    ends |= {full: 0.8, "clicks_to_the_top": 0.69, "pairs": 0.69}
    words = [claim.word for claim in figures._about_perceptrons(FakeCurves(**ends))]
    assert words == ["does not hold", "holds", "does not hold", "does not hold"]


def swaps_arms(stream):
    return [click_streams.arm("3PR", {"kind": "3pr"}, stream.users)]


def test_rare_topics_are_left_out_unless_asked_for(collection):
    one = click_streams._topics("own", str(collection), share=0.1)
    assert list(click_streams.topics_of(one, Options(), quick=False)) == ["space", "sport"]
    assert list(click_streams.topics_of(one, Options(topics=("Rare",)), quick=False)) == ["rare"]
    assert list(click_streams.topics_of(one, Options(topics=("all",)), quick=True)) == ["rare", "space", "sport"]
    with pytest.raises(InvalidInput, match="no topic 'fishing'"):
        click_streams.topics_of(one, Options(topics=("fishing",)), quick=False)


def test_lists_are_as_long_as_asked(tmp_path):
    file = tmp_path / "own.txt"
    file.write_text("".join(f"{i % 3} qid:{q} 1:{i} 2:{q}\n" for q in range(4) for i in range(12)))
    found, _ = click_streams.asked_streams(Options(data=("Simulated", str(file)), items=9))
    assert [one.name for one in found] == ["web search, simulated", "own"]
    assert found[0].stream["n_items"] == 9
    assert (found[1].stream["candidates"], found[1].stream["min_items"], found[1].max_grade) == (9, 9, 2)


def test_the_papers_own_data_are_read_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    with pytest.raises(NotFound, match="Yahoo is not on this machine"):
        click_streams.asked_streams(Options(data=("yahoo",)))
    (tmp_path / "yahoo").mkdir()
    (tmp_path / "yahoo" / "set1.train.txt").write_text("2 qid:1 10:0.89028 11:0.75\n0 qid:1 3:0.1\n")
    [yahoo], notice = click_streams.asked_streams(Options(data=("yahoo",)))
    assert (yahoo.rounds, notice) == (28_000, "")
    queries = build(yahoo.stream, "stream").dataset()
    assert queries.sizes.tolist() == [2]  # no query is too short, as in the paper
    assert str(tmp_path) not in available_streams(LETOR_STREAMS[:1])[1]  # results that are kept name no folder


def test_an_option_that_a_figure_does_not_have_is_refused(tmp_path):
    setting = Setting(tmp_path, Here(), lambda finished, of: None, quick=True, options=Options(topics=("all",)))
    with pytest.raises(InvalidInput, match=r"thesis-3\.4 has no option 'topics': it takes data, rounds, seeds"):
        reproduce(everything()["thesis-3.4"], setting)
    for wrong in (Options(rounds=0), Options(empty="half")):
        with pytest.raises(InvalidInput, match=r"rounds = 0 must be|empty = "):
            reproduce(everything()["coactive-4"], setting._replace(options=wrong))


def test_rising_and_falling_are_told_apart():
    rounds = np.array(swaps.checkpoints_for(20_000))
    assert rounds[:20].tolist() == list(range(1, 21))
    assert rounds[-1] == 20_000
    shape = np.where(rounds <= 20, 0.2, np.where(rounds <= 1000, 0.6, 0.4)) + np.array([[0.0], [0.01], [0.02]])
    swapped = {("here", swaps.NOISY): shape, ("here", swaps.CLEAN): 0.9 - shape}
    rises, falls, upside_down, later_up, higher = swaps._about_swaps("here", rounds, swapped)
    assert [rises.word, falls.word] == ["holds", "holds"]
    assert [upside_down.word, later_up.word] == ["does not hold", "does not hold"]
    assert higher.word == "does not hold"
    assert rises.because.startswith("0.6100 ± 0.0058 against 0.2100 ± 0.0058: difference 0.4000")


def test_short_runs_have_all_three_windows():
    for horizon in (30, 200, 2000):
        rounds = np.array(swaps.checkpoints_for(horizon))
        assert all(np.isfinite(part).all() for part in swaps.windows(rounds, np.ones((2, len(rounds)))))


def test_a_verdict_flips_with_the_data():
    more, less = np.array([0.5, 0.52, 0.51]), np.array([0.4, 0.41, 0.43])
    assert is_above("", more, less).word == "holds"
    assert is_above("", less, more).word == "does not hold"
    assert is_above("", np.array([0.5, 0.1, 0.6]), np.array([0.4, 0.2, 0.3])).word == "partly"
    assert is_above("", less, more, by=-0.2).word == "holds"
    assert is_above("", more, less, by=0.2, paper="table 1").word == "does not hold"
    assert is_above("", np.array([np.nan, 0.5]), np.array([0.1, 0.2])).word == "holds"
