"""`rankloop evaluate --log`: what is drawn and said where a log cannot tell, and of pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from rankloop.bandits import load_policy
from rankloop.cli import main
from rankloop.evaluation.off_policy.estimators import Options
from rankloop.evaluation.off_policy.evaluate import evaluate_target
from rankloop.evaluation.report import PER_PAGE, PER_ROW
from rankloop.logs.table import LogTable

HEADER = "ad,click,propensity,target\n"
VOID = HEADER + "a,1,0.5,0.04\n" * 300 + "a,0,0.5,0.02\n" * 300  # the target mostly shows what the log never shows
FAIR = HEADER + "a,1,0.5,0.6\nb,0,0.5,0.4\n" * 300


def _drawn(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The axes of the plot for a log."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *rest, **more: figures.append(figure))
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", "--log", str(tmp_path / "log.csv"), "--plot", str(tmp_path / "log.png")])
    assert not leaving.value.code
    return figures[0].axes[0]


def test_no_bound_is_drawn_where_the_log_cannot_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fair, void = _drawn(tmp_path, FAIR, monkeypatch), _drawn(tmp_path, VOID, monkeypatch)
    assert [text.get_text() for text in fair.texts] == []
    assert [text.get_text() for text in void.texts] == ["the log cannot tell"]
    assert [len(line.get_xdata()) for line in fair.lines] == [2, 1, 1, 2, 1, 1, 2]  # each: bar, bound, dot; the dashes
    assert [len(line.get_xdata()) for line in void.lines] == [2, 1, 1, 1, 2]  # the second has its dot only


def test_rankings_are_counted_in_pages(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + "a,1,0.5,0.6\nb,0,0.5,0.4\n" * 5)
    judged = evaluate_target(LogTable(tmp_path / "log.csv"), "snips", Options())
    rows, pages = (f"log: {judged._replace(unit=unit)}" for unit in (PER_ROW, PER_PAGE))
    assert "log: 10 rows, 5 rewarded" in rows
    assert "rows count as" in rows
    assert "rewarded rows" in rows
    assert "log: 10 pages, 5 rewarded" in pages
    assert "pages count as" in pages
    assert "rewarded pages" in pages
    assert "row" not in pages


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    with pytest.raises(SystemExit) as leaving:
        main([*arguments])
    assert not leaving.value.code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_the_names_of_0_1_answer_as_they_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that asked for `clipped` finds this name in the answer, and the same numbers under the new one."""
    (tmp_path / "log.csv").write_text(FAIR)
    answers = {}
    for method in ("clipped", "clipped_ips"):
        arguments = ["evaluate", "--log", str(tmp_path / "log.csv"), "--method", method, "--limit", "1", "--json"]
        answers[method] = json.loads(_run(capsys, *arguments)[0])
        assert answers[method]["estimates"]["target"].pop("method") == method
        assert answers[method]["n_taught"] == 0
    assert answers["clipped"] == answers["clipped_ips"]


def test_train_makes_the_policy_that_evaluate_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`train --log` knows a log of ads by its columns; `evaluate --log --save` still trains, and says so."""
    rng = np.random.default_rng(0)
    ages, ads = rng.random(3000), rng.integers(0, 2, 3000)
    clicks = rng.random(3000) < np.where(ads == 1, ages, 1 - ages) / 2
    rows = [f"{age:.3f},{'ab'[ad]},{int(click)},0.5" for age, ad, click in zip(ages, ads, clicks)]
    (tmp_path / "ads.csv").write_text("\n".join(["age,ad,click,propensity", *rows]) + "\n")
    log, old, out = str(tmp_path / "ads.csv"), tmp_path / "old.rankloop", tmp_path / "ads"
    before, notice = _run(capsys, "evaluate", "--log", log, "--epsilon", "0.1", "--save", str(old), "--json")
    assert notice == "no policy is named, so one is trained first, as `rankloop train --log ads.csv` does\n"
    now, notice = _run(capsys, "train", "--log", log, "--epsilon", "0.1", "--out", str(out), "--json")
    assert notice == ""
    assert json.loads(now) == json.loads(before) | {"model": str(out / "model.rankloop")}
    assert (out / "estimates.png").read_bytes().startswith(b"\x89PNG")
    visitors = [{"age": 0.1}, {"age": 0.9}]
    shares = [load_policy(path).probabilities(visitors).tolist() for path in (old, out / "model.rankloop")]
    assert shares[0] == shares[1] == [[0.9, 0.1], [0.1, 0.9]]
    text, _ = _run(capsys, "train", "--log", log, "--out", str(out))
    assert f"The trained policy is in {out / 'model.rankloop'}" in text
    assert "It does not explore" in text
