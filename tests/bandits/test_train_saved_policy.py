"""A policy that was trained on a log knows its ads and contexts by name when it is loaded as a `Ranker`."""

import json
from pathlib import Path

import numpy as np
import pytest

from rankloop import Ranker
from rankloop.bandits import load_policy
from rankloop.cli import main
from rankloop.evaluation import ChoiceLog
from rankloop.training.policy import train_policy

ROWS = [("young", 1, "hats"), ("old", 0, "hats"), ("young", 0, "coats"), ("old", 1, "coats")]


def test_names_survive(tmp_path):
    rows = [f"{age},{hour},{ad},{click},0.5" for hour in (1, 2) for age, click, ad in ROWS * 20]
    (tmp_path / "log.csv").write_text("age,hour,ad,click,propensity\n" + "\n".join(rows))
    train_policy(ChoiceLog(tmp_path / "log.csv")).save(tmp_path / "ads.rankloop")
    ranker = Ranker.load(tmp_path / "ads.rankloop")
    assert ranker.items == ["coats", "hats"]
    assert ranker.context == ["hour", "age=old", "age=young", "(always 1)"]
    for age, best in (("young", "hats"), ("old", "coats")):
        assert ranker.rank(context={"hour": 1, f"age={age}": 1, "(always 1)": 1}).ids[0] == best


def test_ids_are_neither_learned_nor_published(tmp_path, capsys):
    """Texts that differ in nearly every row are left out; so are they when the policy is judged on another log."""
    rows = [f"visitor{n},{n % 24},{age},{ad},{click},0.5" for n, (age, click, ad) in enumerate(ROWS * 30)]
    log, saved = tmp_path / "log.csv", tmp_path / "ads" / "model.rankloop"
    log.write_text("visitor_id,hour,age,ad,click,propensity\n" + "\n".join(rows))
    line = "context: hour (number), age (2 values); left out as ids: visitor_id"
    training = ["train-policy", str(log), "--epsilon", "0.1", "--out", str(saved.parent)]
    for arguments in (training, ["evaluate", str(saved), "--log", str(log), "--json"]):
        with pytest.raises(SystemExit):
            main(arguments)
        out = capsys.readouterr().out
        said = json.loads(out)["context"] if "--json" in arguments else out.splitlines()[1]
        assert said == line
        assert "does not explore" not in out
    assert Ranker.load(saved).context == ["hour", "age=old", "age=young", "(always 1)"]
    for file in (saved, saved.with_name("model.rankloop.json")):
        assert b"visitor7" not in file.read_bytes()


def test_a_saved_policy_of_format_1_gives_the_numbers_that_it_gave():
    """The file is never written again: what was saved once stays readable."""
    path = Path(__file__).parent / "files" / "policy.rankloop"
    with pytest.warns(RuntimeWarning, match="written on a generic CPU"):
        policy = load_policy(path)
    assert policy.encoding.ads == ("coats", "hats")
    assert policy.encoding.context_names == ["age", "job=clerk", "job=student", "(always 1)"]
    assert policy.shares({"age": 30, "job": "student"}) == {"coats": 0.25, "hats": 0.75}
    assert policy.shares({"age": None, "job": "baker"}) == {"coats": 0.75, "hats": 0.25}
    scorer = policy.policy.scorer
    assert scorer.thresholds.tolist() == [2.060128975910708, 0.5500051934338569]
    assert scorer.weights[0].tolist() == [0.025514056397343405, 1.1348509086201886, -1.1348509086201886, 0.0]
    scores = scorer.scores(np.array([[30.0, 0.0, 1.0, 1.0]]))
    np.testing.assert_allclose(scores, [[-2.4295581926105942, 0.8166926044703914]], rtol=1e-14)
    with pytest.warns(RuntimeWarning, match="generic"):
        ranker = Ranker.load(path)
    assert ranker.session.state.n_clicked.tolist() == [19, 19]
    assert ranker.session.state.n_unclicked.tolist() == [34, 37]
