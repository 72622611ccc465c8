"""A policy that was trained on a log knows its ads and contexts by name when it is loaded as a `Ranker`."""

from rankloop import Ranker
from rankloop.ads import teach
from rankloop.ads.saved_policy import save_policy
from rankloop.evaluation import LogTable

ROWS = [("young", 1, "hats"), ("old", 0, "hats"), ("young", 0, "coats"), ("old", 1, "coats")]


def test_names_survive(tmp_path):
    rows = [f"{age},{hour},{ad},{click},0.5" for hour in (1, 2) for age, click, ad in ROWS * 20]
    (tmp_path / "log.csv").write_text("age,hour,ad,click,propensity\n" + "\n".join(rows))
    save_policy(teach(LogTable(tmp_path / "log.csv"), seed=0), 0.0, tmp_path / "ads.rankloop")
    ranker = Ranker.load(tmp_path / "ads.rankloop")
    assert ranker.items == ["coats", "hats"]
    assert ranker.context == ["hour", "age=old", "age=young", "(always 1)"]
    for age, best in (("young", "hats"), ("old", "coats")):
        assert ranker.rank(context={"hour": 1, f"age={age}": 1, "(always 1)": 1}).ids[0] == best
