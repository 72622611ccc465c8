"""The names of 0.1: modules in every way in which a program may import them, arguments and fields."""

import subprocess
import sys
from importlib import import_module
from inspect import ismodule

import numpy as np
import pytest
from rankloop.ads import Campaign
from rankloop.ads.click_log import ClickLog
from rankloop.ads.judging import judge, teach, trained_policy, verdicts
from rankloop.ads.saved_policy import save_policy
from rankloop.evaluation.log_table import LogTable

from rankloop.aliases import moved_modules


@pytest.mark.parametrize("old", moved_modules())
def test_a_moved_module_is_found_under_its_old_name(old):
    new = import_module(f"rankloop.{moved_modules()[old]}")
    names = [name for name, value in vars(new).items() if not name.startswith("_") and not ismodule(value)]
    assert all(getattr(import_module(f"rankloop.{old}"), name) is getattr(new, name) for name in names)


PROGRAM = """
import rankloop.data.letor; rankloop.data.letor.read_letor
from rankloop.evaluation.off_policy import ips; from rankloop.games.thresholds import Thresholds
from rankloop.experiments.spec import Experiment; from rankloop.experiments.run import run_one
import rankloop.games.advice; rankloop.games.advice.advise
import rankloop.ads.training; rankloop.ads.training.fit_rankers
import rankloop.evaluation.log_table as table; table.LogTable
from rankloop.evaluation import log_table; log_table.LogTable
from rankloop.ads import *; AUCRanker, judge
import rankloop; rankloop.ads.AUCRanker
import rankloop.ads; assert 'AUCRanker' in dir(rankloop.ads)
"""


def test_old_names_are_imported_as_any_modules():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_nothing_is_loaded_before_it_is_used():
    program = "import sys, rankloop.ads.training; assert 'rankloop.bandits' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_words_of_0_1_still_name_arguments_and_fields(tmp_path):
    log = tmp_path / "ads.csv"
    rows = [f"{i % 40 + 20},{'ab'[i % 2]},{int(i % 5 == 0)},0.5" for i in range(400)]
    log.write_text("age,ad,click,propensity\n" + "\n".join(rows))
    table = LogTable(log)
    taught = teach(table, seed=0)
    policies = {"trained": trained_policy(taught=taught, epsilon=0.1)}
    judgement = judge(table, taught.encoding, policies, seed=0)
    assert 0 < judgement.n_taught == judgement.n_training < 400
    assert verdicts(judgement=judgement) == verdicts(judgement)
    save_policy(taught=taught, epsilon=0.1, path=tmp_path / "ads.rankloop")

    clicks = ClickLog(np.zeros((2, 1)), np.array([0, 2]), np.arange(2), np.ones(2), np.arange(2), np.zeros(2, int))
    assert clicks.relevance(looked_at=np.array([1.0, 0.5])).tolist() == [1.0, 2.0]
    assert clicks.place.tolist() == clicks.impressions().place.tolist() == [0, 1]

    campaign, contexts = Campaign(), np.zeros((1, Campaign().n_context))
    assert np.array_equal(campaign.chances(contexts), campaign.click_probabilities(contexts))
