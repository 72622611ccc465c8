"""A ranker judged on lists: the same to the last bit, here and by workers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from rankloop.bandits.ad_log import AdLog
from rankloop.bandits.auc_policy import AUCPolicy
from rankloop.bandits.policies import Uniform
from rankloop.bandits.train import SessionPolicy, TrainedPolicy, fit_rankers, load_policy
from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.saved_session import save
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Problem, Query, Reward
from rankloop.engine import Here, Threads
from rankloop.evaluation import ChoiceLog
from rankloop.evaluation.log_evaluation import evaluate
from rankloop.evaluation.off_policy.ranking_log import AskedRanker, session_rows
from rankloop.evaluation.propensity_evaluation import evaluate_policies, report_of_rows
from rankloop.evaluation.report import PER_PAGE, verdict
from rankloop.features.encoder import Encoder
from rankloop.logs.context import Encoding
from rankloop.simulate.play import play
from rankloop.training.policy import train_policy
from research.papers.thesis_ads.logged_campaign import LoggedCampaign
from tests.training.clicks.test_passes import SCHEMA, logged, train_with_schema


def test_every_engine_gives_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [one._replace(log_propensity=float(np.log(1 / 24))) for one in logged(700)]
    session = train_with_schema(lists[:100], SCHEMA, passes=1).session
    watched: list[int] = []
    engines = Here(), Threads(workers=2), Threads(workers=1)
    reports = [report_of_rows(AskedRanker(session, SCHEMA).rows(lists, one, watched.append), "mine") for one in engines]
    assert reports[0] == reports[1] == reports[2]
    assert watched.count(700) == 3
    encoder = Encoder(SCHEMA)
    plain = next(session_rows(session, (one.arrival(encoder) for one in lists)))
    (rows,) = AskedRanker(session, SCHEMA).rows(lists)
    for mine, expected in zip(rows[:3], plain[:3]):
        np.testing.assert_array_equal(mine, expected)
    assert rows.reward.sum() == sum(one.arrival(encoder).feedback.weights.sum() for one in lists)
    assert Clicks is type(lists[0].arrival(encoder).feedback)


@pytest.mark.parametrize("engine", [Here(), Threads(workers=2)], ids=str)
def test_a_fault_names_its_row_whichever_piece_it_is_in(engine) -> None:
    lists = [one._replace(log_propensity=float(np.log(1 / 24))) for one in logged(300)]
    session = train_with_schema(lists[:20], SCHEMA, passes=1).session
    lists[270] = lists[270]._replace(log_propensity=float("nan"))
    with pytest.raises(InvalidInput, match="row 270: the propensity is missing"):
        report_of_rows(AskedRanker(session, SCHEMA).rows(lists, engine), "mine")


CAMPAIGN = LoggedCampaign(domain="hotel", n_context=4, informative=4, taste=1.5)


def write_log(path: Path, n: int, seed: int = 0) -> Path:
    log = CAMPAIGN.log(Uniform(n_ads=5), n, np.random.default_rng(seed))
    lines = ["age,income,visits,city,ad,click,propensity"]
    for x, ad, click, p in zip(*log[:4]):
        city = "north" if x[3] > 0 else "south"
        lines.append(f"{x[0]:.3f},{x[1]:.3f},{x[2]:.3f},{city},ad{ad},{click:.0f},{p}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "ads.csv", 12_000)


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", *arguments])
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out, captured.err


def test_contexts_become_numbers(log):
    encoding = Encoding.of(ChoiceLog(log).pieces())
    assert encoding.ads == ("ad0", "ad1", "ad2", "ad3", "ad4")
    assert encoding.columns == ("age", "income", "visits", "city")
    assert encoding.values[3] == ("north", "south")
    piece = next(ChoiceLog(log).pieces())
    rows = encoding.contexts_of(piece)
    assert rows.shape == (12_000, encoding.n_context) == (12_000, 6)
    np.testing.assert_array_equal(rows[:, 3] + rows[:, 4], 1.0)
    assert Encoding.from_plain(json.loads(json.dumps(encoding.to_plain()))) == encoding
    with pytest.raises(InvalidInput, match="row 1: the ad 'ad"):
        encoding._replace(ads=("other",)).ads_of(piece, "ads.csv")


def test_the_halves_are_apart_and_the_gain_is_real(log):
    table = ChoiceLog(log)
    result = train_policy(table, seed=3)
    trained = result.trained
    found = evaluate_policies(table, trained.encoding, {"new": trained.policy}, seed=3)
    assert found.n_training == len(trained.log.ads)
    assert found.n_training + found.estimates["new"].n == found.n_rows == 12_000
    assert found.estimates["new"].gain_lower > 0.02
    assert found.estimates["ads at random"].value == pytest.approx(found.estimates["current"].value)
    assert result.report.estimates["trained policy"] == found.estimates["new"]
    assert (
        str(result).splitlines()[0]
        == f"ads.csv: 12,000 rows, {found.n_training:,} of them to learn from, 5 ads, {found.n_rewarded} rewarded"
    )
    plain = json.loads(json.dumps(result.to_json()))
    assert plain["columns"] == ["age", "income", "visits", "city"]
    assert plain["estimates"]["trained policy"]["value"] == found.estimates["new"].value
    untested = train_policy(table, share=1.0)
    assert untested.report is None
    assert str(untested).startswith("12,000 rows to learn from, 5 ads\ncontext: age (number)")
    assert list(untested.to_json()["ads"]) == ["ad0", "ad1", "ad2", "ad3", "ad4"]
    for method in ("ips", "doubly_robust"):
        other = evaluate_policies(
            table, trained.encoding, {"new": trained.policy}, method=method, model=trained.log.reward_model(), seed=3
        )
        assert other.estimates["new"].value == pytest.approx(found.estimates["new"].value, rel=0.15)


def test_a_saved_policy_shows_what_the_trained_one_shows(log, tmp_path):
    trained = train_policy(ChoiceLog(log), epsilon=0.1).trained
    path = tmp_path / "ads.rankloop"
    trained.save(path)
    policy, encoding = load_policy(path)
    assert encoding == trained.encoding
    users = trained.log.contexts[:20]
    expected = trained.policy.probabilities(users)
    np.testing.assert_allclose(policy.probabilities(users), expected)
    np.testing.assert_allclose(SessionPolicy(session=trained.session()).probabilities(users), expected)


@pytest.mark.parametrize("unit", [1.0, 1000.0], ids=["years", "milliyears"])
def test_going_on_does_not_undo_the_training(unit):
    """Columns come as they are; a step that suits numbers around 1 would forget a policy of ages in a few clicks."""
    rng = np.random.default_rng(1)
    ages, ads = rng.uniform(18, 80, 4000), rng.integers(0, 2, 4000)
    clicks = (rng.random(4000) < 0.2 + 0.2 * (2 * ads - 1) * (ages - 49) / 31).astype(float)
    log = AdLog(np.column_stack([ages * unit, np.ones(4000)]), ads, clicks, np.full(4000, 0.5), 2)
    session = TrainedPolicy(None, fit_rankers(log, criterion="click_rate"), log, epsilon=0.1).session()

    def right():
        grid = np.linspace(19, 79, 60)  # 49 is where the ads change
        chosen = [session.predict(Query.of(np.zeros((2, 0)), [age * unit, 1.0]))[0] for age in grid]
        return np.mean(chosen == (grid > 49))

    shares = [right()]
    for visit, (age, luck) in enumerate(zip(rng.uniform(18, 80, 300), rng.random(300))):
        query = Query.of(np.zeros((2, 0)), [age * unit, 1.0])
        decision = session.rank(query)
        probability = 0.2 + 0.2 * (2 * decision.ranking[0] - 1) * (age - 49) / 31
        session.learn(query, decision, Reward(float(luck < probability)))
        if visit % 20 == 19:
            shares.append(right())
    assert min(shares) > 0.85  # with the learner's own step it falls to 0.3


def test_a_session_without_closed_form_is_refused():
    session = Session(build("linear_thompson", "learner"), Problem(n_features=1, n_items=3, shown=1))
    with pytest.raises(InvalidInput, match="row 0: LinearThompson has no closed form"):
        SessionPolicy(session=session).probabilities(np.zeros((1, 0)))


def test_the_command(log, tmp_path, capsys):
    saved, plot = tmp_path / "ads.rankloop", tmp_path / "ads.png"
    train_policy(ChoiceLog(log)).save(saved)
    fresh = str(write_log(tmp_path / "new.csv", 3000, 1))
    code, out, _ = run(capsys, str(saved), "--log", fresh, "--plot", str(plot))
    assert code == 0
    assert "new.csv: 3,000 rows" in out
    assert re.search(
        r"earns [\d.]+ clicks per 100 rows instead of [\d.]+: at least [\d.]+ more \(95% confidence\)\.", out
    )
    assert "%" not in out.replace("95%", "")
    assert "context: age (number), income (number), visits (number), city (2 values)" in out.splitlines()
    assert out.splitlines()[-1] == f"plot: {plot}"
    assert plot.read_bytes().startswith(b"\x89PNG")
    code, out, _ = run(capsys, str(saved), "--log", fresh, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["n_rows"] == answer["estimates"]["policy of ads.rankloop"]["n"] == 3000
    assert answer["estimates"]["policy of ads.rankloop"]["lower"] > answer["estimates"]["current"]["value"]
    assert answer["verdicts"]


def test_the_command_says_when_the_log_is_too_small(log, tmp_path, capsys):
    saved = tmp_path / "ads.rankloop"
    train_policy(ChoiceLog(log)).save(saved)
    code, out, _ = run(capsys, str(saved), "--log", str(write_log(tmp_path / "few.csv", 300)))
    assert code == 0
    assert "too small to tell" in out
    assert "times as long might do" in out


@pytest.mark.parametrize("method", ["direct_method", "doubly_robust", "switch_dr"])
def test_a_saved_policy_is_judged_with_a_reward_model_of_half_the_rows(log, tmp_path, capsys, method):
    saved = tmp_path / "ads.rankloop"
    train_policy(ChoiceLog(log)).save(saved)
    fresh = write_log(tmp_path / "new.csv", 12_000, 7)
    _, out, _ = run(capsys, str(saved), "--log", str(fresh), "--estimator", "ips", "--json")
    plain = json.loads(out)
    code, out, err = run(capsys, str(saved), "--log", str(fresh), "--estimator", method, "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert 0 < answer["n_training"] < answer["n_rows"] == 12_000
    known, found = plain["estimates"]["policy of ads.rankloop"], answer["estimates"]["policy of ads.rankloop"]
    assert found["n"] == 12_000 - answer["n_training"]
    slack = 4 * np.hypot(known["standard_error"], found["standard_error"])
    assert abs(found["value"] - known["value"]) < slack + 0.1 * known["value"]  # a linear model is not the truth


def test_the_largest_reward_is_for_bounds_that_need_a_range(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("ad,reward,propensity,target\n" + "a,3,0.5,0.25\nb,0,0.25,0.5\n" * 100)
    with pytest.raises(InvalidInput, match="max_reward"):
        evaluate(None, path, estimator="ips", bound="hoeffding")
    found = evaluate(None, path, estimator="ips", bound="hoeffding", max_reward=3.0).to_json()["estimates"]["target"]
    # Summands from 0 to 3 / 0.25 in 200 rows: Hoeffding's width is 12 · √(ln 20 / 400).
    assert found["lower"] == pytest.approx(0.75 - 12 * np.sqrt(np.log(20) / 400))


def test_the_command_refuses_in_one_line(tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text("ad,click,propensity,target\na,1,0.5,0.5\nb,0,0,0.5\n")
    code, _, err = run(capsys, "--log", str(path))
    assert code == 2
    assert "bad.csv, row 2: the propensity is 0.0" in err
    code, out, err = run(capsys, "--log", str(path), "--plot", "x.xyz")
    assert (code, out) == (2, "")
    assert "rankloop: --plot x.xyz: the name must end with .png, .svg or .pdf" in err
    code, _, err = run(capsys, "--log", str(tmp_path / "nosuch.csv"))
    assert code == 2
    assert "there is no file" in err
    assert "RANKLOOP_DATA" not in err
    shop = tmp_path / "shop.rankloop"
    save(Session(build("pdgd", "learner"), Problem(n_features=2)), shop)
    code, _, err = run(capsys, str(shop), "--log", str(path))
    assert code == 2
    assert "shop.rankloop ranks items by features; this log is of single ads" in err
    code, _, err = run(capsys, "--log", str(path), "--column", "clicks=click")
    assert code == 2
    assert "--column" in err
    code, _, err = run(capsys)
    assert code == 2
    assert "--log" in err


def test_a_target_column_is_judged_as_it_is(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("ad,click,propensity,target\n" + "a,1,0.5,0.25\nb,0,0.25,0.5\n" * 100)
    code, out, _ = run(capsys, "--log", str(path), "--estimator", "ips", "--json")
    assert code == 0
    assert json.loads(out)["estimates"]["target"]["value"] == pytest.approx(0.25)


def test_sentences():
    found = judge_of(value=0.06, current=0.04, gain=0.02, gain_lower=0.0125)
    assert verdict("new policy", found) == (
        "The new policy earns 6.00 clicks per 100 rows instead of 4.00: at least 1.25 more (95% confidence)."
    )
    assert verdict("ranker", found._replace(value=1.067, current=1.0), PER_PAGE) == (
        "The ranker earns 1.067 per page instead of 1.000: at least 0.013 more (95% confidence)."
    )
    assert "not better" in verdict("new policy", judge_of(gain=-0.02, gain_lower=-0.1))
    unsure = verdict("new policy", judge_of(gain=0.02, gain_lower=-0.01))
    assert unsure.startswith("The gain of the new policy is not significant: ")
    assert unsure.endswith("A log 2.2 times as long might do.")  # (0.03 / 0.02)²
    hopeless = verdict("new policy", judge_of(gain=0.001, gain_lower=-0.01))  # (0.011 / 0.001)² = 121
    assert hopeless.endswith("No realistic log would do: it would have to be over 100 times as long.")


def test_a_log_that_cannot_tell_gives_no_verdict(tmp_path, capsys):
    """The gain looks sure, but the policy would mostly show what the log never shows."""
    path = tmp_path / "log.csv"
    path.write_text("ad,click,propensity,target\n" + "a,1,0.5,0.04\n" * 300 + "a,0,0.5,0.02\n" * 300)
    code, out, _ = run(capsys, "--log", str(path))
    assert code == 0
    assert out.splitlines()[-1] == (
        "This log cannot tell how good the target is: it seldom or never shows what the target would show (weights "
        "average 0.06, should be 1). Let today's ranker explore more, or compare the two live by interleaving."
    )
    row = next(line for line in out.splitlines() if line.startswith("target"))
    assert row.split()[:3] == ["target", "66.67", "unknown"]
    path.write_text("ad,click,propensity,target\n" + "a,1,0.1,0.2\nb,0,0.1,0.3\n" * 300)
    _, out, _ = run(capsys, "--log", str(path))
    assert "its propensities are too small to be true (weights average 2.5, should be 1)" in out


def test_rewards_that_are_no_clicks_stay_as_they_are(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("ad,reward,propensity,target\n" + "a,3,0.5,0.5\nb,0,0.5,0.5\n" * 100)
    _, out, _ = run(capsys, "--log", str(path))
    assert "is not better than the current one on this log: it earns 1.500 per row instead of 1.500." in out


def judge_of(**changed):
    from rankloop.evaluation import ips

    return ips(np.tile([0.0, 1.0], 100), np.full(200, 0.5), np.full(200, 0.5))._replace(**changed)


def test_the_learner_finds_the_better_ads():
    """Over its last rounds it earns clearly more than showing ads at random, from rewards of shown ads alone."""
    stream, users = CAMPAIGN, build("first_item_reward", "feedback")

    def earned(learner):
        rounds = play(learner, stream, users, horizon=6000, seed=0)
        return np.mean([r.relevance[r.decision.ranking[0]] for r in rounds if r.t > 3000])

    assert earned(AUCPolicy(epsilon=0.1)) > 1.3 * earned(build("random_order", "learner"))
