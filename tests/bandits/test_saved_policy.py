"""A policy that was trained on a log knows its ads and contexts by name when it is loaded as a `Ranker`."""

import json

import pytest

from rankloop import Ranker
from rankloop.bandits import train_policy
from rankloop.bandits.saved_policy import save_policy
from rankloop.cli import main
from rankloop.evaluation import ChoiceLog

ROWS = [("young", 1, "hats"), ("old", 0, "hats"), ("young", 0, "coats"), ("old", 1, "coats")]


def test_names_survive(tmp_path):
    rows = [f"{age},{hour},{ad},{click},0.5" for hour in (1, 2) for age, click, ad in ROWS * 20]
    (tmp_path / "log.csv").write_text("age,hour,ad,click,propensity\n" + "\n".join(rows))
    save_policy(train_policy(ChoiceLog(tmp_path / "log.csv"), seed=0), 0.0, tmp_path / "ads.rankloop")
    ranker = Ranker.load(tmp_path / "ads.rankloop")
    assert ranker.items == ["coats", "hats"]
    assert ranker.context == ["hour", "age=old", "age=young", "(always 1)"]
    for age, best in (("young", "hats"), ("old", "coats")):
        assert ranker.rank(context={"hour": 1, f"age={age}": 1, "(always 1)": 1}).ids[0] == best


def test_ids_are_neither_learned_nor_published(tmp_path, capsys):
    """Texts that differ in nearly every row are left out; so are they when the policy is judged on another log."""
    rows = [f"visitor{n},{n % 24},{age},{ad},{click},0.5" for n, (age, click, ad) in enumerate(ROWS * 30)]
    log, saved = tmp_path / "log.csv", tmp_path / "ads.rankloop"
    log.write_text("visitor_id,hour,age,ad,click,propensity\n" + "\n".join(rows))
    line = "context: hour (number), age (2 values); left out as ids: visitor_id"
    for arguments in (["--save", str(saved), "--epsilon", "0.1"], [str(saved), "--json"]):
        with pytest.raises(SystemExit):
            main(["evaluate", "--log", str(log), *arguments])
        out = capsys.readouterr().out
        said = json.loads(out)["context"] if "--json" in arguments else out.splitlines()[1]
        assert said == line
        assert "does not explore" not in out
    assert Ranker.load(saved).context == ["hour", "age=old", "age=young", "(always 1)"]
    for file in (saved, tmp_path / "ads.rankloop.json"):
        assert b"visitor7" not in file.read_bytes()
