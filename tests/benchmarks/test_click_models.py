"""Real people: what click models find attractive on TREC's result pages has higher human grades."""

import pytest

from rankloop.click_models.fit import fit_users
from rankloop.click_models.models import MODELS
from rankloop.data.folder import absence_notice, data_folder

pytestmark = pytest.mark.skipif(data_folder() is None, reason=absence_notice("TREC Session 2014"))


def test_attraction_agrees_with_grades():
    from benchmarks.click_models import agreement, grades, session_log

    log, judged = session_log("train").by_item(), grades()
    assert log.n_pages == 2872
    found = agreement(log, "pbm", judged)
    assert found["spearman"] > 0.2
    means = found["by_grade"]
    assert means["-2"] < means["0"] < means["1"] < means["2"] < means["3"]
    examined = MODELS["pbm"].fit(log).examination[:, 0]
    assert examined[1] < 0.8
    assert examined[9] < examined[4] < examined[1]
    ubm, cascade = (fit_users(log, model, folds=2).held_out[model] for model in ("ubm", "cascade"))
    assert ubm.log_likelihood > cascade.log_likelihood
    assert 1.0 < ubm.perplexity < cascade.perplexity < 1.25
