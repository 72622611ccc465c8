"""The Open Bandit Dataset: the verdict follows the numbers."""

import numpy as np
import pytest

from rankloop.data.folder import data_folder
from rankloop.evaluation import ips
from rankloop.experiments.papers import open_bandit

needs_data = pytest.mark.skipif(data_folder() is None, reason="the data sets are not on this machine (RANKLOOP_DATA)")


def words(verdicts):
    return [verdict.word for verdict in verdicts]


def test_the_open_bandit_verdict_turns_with_the_numbers():
    n = 4000
    reward, half = (np.arange(n) % 20 == 0).astype(float), np.full(n, 0.5)
    own, near = ips(reward, half, half), ips(reward, half, half)
    far = near._replace(value=0.2)
    small = near._replace(warnings=("the log is too small to tell: …",))
    found = [open_bandit.claim(open_bandit.Compared("men", own, [own, guess, own])) for guess in (near, far, small)]
    assert words(found) == ["holds", "does not hold", "partly"]


@needs_data
def test_the_open_bandit_dataset_is_compared():
    compared = open_bandit.compared("men")
    assert compared.own.value == pytest.approx(0.0046)
    assert compared.own.effective_n == pytest.approx(10_000)
    finding = open_bandit.finding([compared])
    assert len(finding.tables[0].rows) == 4
