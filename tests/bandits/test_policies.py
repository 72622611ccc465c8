"""Thresholds against brute force, policies' probabilities, bandit data, baselines and training."""

import numpy as np
import pytest

from rankloop.bandits.ad_log import AdLog
from rankloop.bandits.campaign import CLICK_RATES
from rankloop.bandits.policies import NEVER_CLICKED_THRESHOLD, EpsilonGreedy, LinearScorer, Softmax, Uniform
from rankloop.bandits.train import fit_rankers
from rankloop.core.errors import InvalidInput
from research.datasets.labelled import LabelledSet
from research.papers.thesis_ads.baselines import fit_cost_sensitive, fit_forest, fit_logistic
from research.papers.thesis_ads.labelled_logs import (
    bandit_log,
    information_gain,
    most_informative,
    most_shown,
    only_ads,
    split,
    undersampled,
)
from research.papers.thesis_ads.logged_campaign import LoggedCampaign, choose

SCORER = LinearScorer(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.array([0.5, 0.0, 0.0]))
PEOPLE = np.array([[2.0, 1.0], [0.0, 0.0], [-1.0, -1.0]])


def uniform_log(contexts, ads, rewards):
    """Return the log of a policy that shows every ad alike."""
    ads = np.asarray(ads)
    n_ads = int(ads.max()) + 1
    return AdLog(contexts, ads, np.asarray(rewards), np.full(len(ads), 1.0 / n_ads), n_ads)


def test_scores_are_equation_5_2():
    np.testing.assert_allclose(SCORER.scores(PEOPLE), [[1.5, 1.0, 0.0], [-0.5, 0.0, 0.0], [-1.5, -1.0, 0.0]])


def test_the_probabilities_of_each_policy():
    greedy = EpsilonGreedy(scorer=SCORER, epsilon=0.2).probabilities(PEOPLE)
    np.testing.assert_allclose(greedy, [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    soft = Softmax(scorer=SCORER, temperature=0.5).probabilities(PEOPLE)
    np.testing.assert_allclose(soft[0], np.exp([3, 2, 0]) / np.exp([3, 2, 0]).sum())
    assert Uniform(n_ads=4).probabilities(PEOPLE).tolist() == [[0.25] * 4] * 3
    alone = LinearScorer(np.ones((1, 2)), np.zeros(1))
    assert EpsilonGreedy(scorer=alone, epsilon=0.2).probabilities(PEOPLE).tolist() == [[1.0]] * 3


def test_choices_follow_the_probabilities():
    probabilities = np.tile([0.1, 0.0, 0.6, 0.3], (40_000, 1))
    shares = np.bincount(choose(probabilities, np.random.default_rng(0)), minlength=4) / 40_000
    assert shares[1] == 0
    assert np.abs(shares - probabilities[0]).max() < 4 * np.sqrt(0.6 * 0.4 / 40_000)


def test_bandit_conversion():
    rng = np.random.default_rng(0)
    labelled = LabelledSet(rng.normal(size=(9000, 2)), rng.integers(0, 3, 9000), ("a", "b", "c"))
    log = bandit_log(labelled, rng)
    np.testing.assert_array_equal(log.rewards, log.ads == labelled.labels)
    assert np.abs(np.bincount(log.ads) / 9000 - 1 / 3).max() < 0.02
    assert (log.propensities == 1 / 3).all()
    train, test = split(labelled, rng)
    assert (len(train.labels), len(test.labels)) == (6300, 2700)
    both = np.sort(np.concatenate([train.features[:, 0], test.features[:, 0]]))
    np.testing.assert_array_equal(both, np.sort(labelled.features[:, 0]))


def test_under_sampling_keeps_every_click():
    clicked = np.zeros(1000)
    clicked[::100] = 1
    rows = undersampled(clicked, 2.0, np.random.default_rng(0))
    assert clicked[rows].sum() == 10
    assert len(rows) == 30
    assert (np.diff(rows) > 0).all()
    assert len(undersampled(clicked, 1e6, np.random.default_rng(0))) == 1000


def test_information_gain_by_hand():
    clicked = np.array([1, 1, 0, 0])
    useless, perfect = np.array([0.0, 1.0, 0.0, 1.0]), np.array([3.0, 3.0, 1.0, 1.0])
    np.testing.assert_allclose(information_gain(np.column_stack([useless, perfect]), clicked), [0, 1], atol=1e-12)
    quarter = np.array([1.0, 0.0, 0.0, 0.0])  # H(1/2) − (3/4) · H(1/3)
    expected = 1 - 0.75 * (-(1 / 3) * np.log2(1 / 3) - (2 / 3) * np.log2(2 / 3))
    assert information_gain(quarter[:, None], clicked, bins=4)[0] == pytest.approx(expected)
    assert most_informative(np.column_stack([useless, perfect, useless]), clicked).tolist() == [1]


def test_the_most_shown_ads():
    log = uniform_log(np.zeros((7, 1)), [2, 2, 2, 0, 0, 1, 3], np.arange(7.0))
    assert most_shown(log.ads, 2).tolist() == [2, 0]
    kept = only_ads(log, most_shown(log.ads, 2))
    assert kept.ads.tolist() == [0, 0, 0, 1, 1]
    assert kept.rewards.tolist() == [0, 1, 2, 3, 4]
    assert kept.n_ads == 2


def test_the_campaign_has_the_click_rates_of_its_domain():
    rng = np.random.default_rng(0)
    for domain in CLICK_RATES:
        campaign = LoggedCampaign(domain=domain)
        mean = campaign.click_probabilities(rng.normal(size=(200_000, 20))).mean(axis=0)
        np.testing.assert_allclose(mean, campaign.rates, rtol=0.03)
    log = campaign.log(Uniform(n_ads=5), 1000, rng)
    assert log.n_ads == 5
    assert (log.propensities == 0.2).all()


def test_policies_learned_from_a_log_beat_the_uniform_one():
    campaign = LoggedCampaign(domain="hotel", n_context=6, informative=6, taste=1.5)
    rng = np.random.default_rng(0)
    log = campaign.log(Uniform(n_ads=5), 8000, rng)
    scorers = {
        "rankers": fit_rankers(log),
        "logistic": fit_logistic(log, rng=rng),
        "balanced": fit_logistic(log, ratio=1.0, rng=rng),
        "forest": fit_forest(log, n_trees=20, ratio=2.0, rng=rng),
        "cost": fit_cost_sensitive(log),
    }
    uniform = campaign.value(Uniform(n_ads=5), 20_000, np.random.default_rng(1))
    for name, scorer in scorers.items():
        value = campaign.value(EpsilonGreedy(scorer=scorer), 20_000, np.random.default_rng(1))
        assert value > 1.4 * uniform, name
    predicted = log.reward_model().predict(log.contexts)
    assert predicted.mean() == pytest.approx(log.rewards.mean(), rel=0.2)
    assert predicted.min() >= 0


def test_ads_without_clicks_or_always_clicked():
    contexts = np.random.default_rng(0).normal(size=(30, 2))
    ads = np.arange(30) % 3
    rewards = np.where(ads == 0, 0.0, np.where(ads == 1, 1.0, (contexts[:, 0] > 0).astype(float)))
    scorer = fit_rankers(uniform_log(contexts, ads, rewards))
    assert scorer.thresholds[0] == NEVER_CLICKED_THRESHOLD
    assert scorer.thresholds[1] == pytest.approx(0, abs=1e-8)
    assert 0 not in np.argmax(scorer.scores(contexts), axis=1)


@pytest.mark.parametrize("criterion", ["f1", "midpoint", "click_rate"])
def test_without_a_context_the_ad_of_the_best_click_rate_is_shown(criterion):
    ads = np.repeat([0, 1, 2], 100)
    clicks = np.concatenate([np.arange(100) < share for share in (10, 30, 20)]).astype(float)
    scorer = fit_rankers(uniform_log(np.ones((300, 1)), ads, clicks), criterion=criterion)
    assert np.argmax(scorer.scores(np.ones((1, 1)))[0]) == 1


def test_refusals():
    with pytest.raises(InvalidInput, match="epsilon"):
        EpsilonGreedy(scorer=SCORER, epsilon=2)
