"""`rankloop evaluate --log`: what is drawn and said where a log cannot tell, and of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from rankloop.cli import main
from rankloop.evaluation.propensity_evaluation import report_of_rows
from rankloop.evaluation.report import PER_PAGE, PER_ROW
from rankloop.logs.choice_log import ChoiceLog

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
    judged = report_of_rows(ChoiceLog(tmp_path / "log.csv").rows(), "target", "snips")
    rows, pages = (judged._replace(unit=unit).text("log") for unit in (PER_ROW, PER_PAGE))
    assert "log: 10 rows, 5 rewarded" in rows
    assert "rows count as" in rows
    assert "rewarded rows" in rows
    assert "log: 10 pages, 5 rewarded" in pages
    assert "pages count as" in pages
    assert "rewarded pages" in pages
    assert "row" not in pages
