"""The report: one page that needs nothing else."""

from __future__ import annotations

from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from rankloop.engine import Here
from rankloop.experiments.analysis.curves import Curves
from rankloop.experiments.analysis.summary import finding_of
from rankloop.experiments.report.charts import Line, band, chart
from rankloop.experiments.report.html import _page, write_report
from rankloop.experiments.report.model import Finding
from rankloop.experiments.run.runner import _run_one, run_experiment
from rankloop.experiments.run.tasks import Task
from rankloop.experiments.spec.load import read_spec
from tests.experiments.cases import small

EXAMPLES = Path(__file__).parents[2] / "examples"
CLAIM = {"text": "Learning <helps>.", "check": "above", "left": "leader", "right": "random order", "measure": "DCG"}


class _Addresses(HTMLParser):
    """Collects everything that a browser would fetch, and checks that tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href", "data")]
        if tag in ("script", "link", "iframe"):
            self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def finding(tmp_path_factory: pytest.TempPathFactory) -> Finding:
    experiment = small(title="Tom & Jerry", claims=[CLAIM], figures={"quantities": ["regret", "recent"], "log_y": True})
    return finding_of(Curves(experiment, run_experiment(experiment, tmp_path_factory.mktemp("runs"), Here())))


def test_the_page_fetches_nothing_and_says_everything(finding: Finding) -> None:
    reader = _Addresses()
    reader.feed(_page("A report", [finding], ""))
    assert all(address.startswith("#") for address in reader.found)
    text = " ".join(reader.text)
    assert "Learning <helps>." in text
    assert "leader" in text
    assert '"horizon": 200' in text
    assert "0, 1" in text  # the seeds
    style = resources.files("rankloop.experiments.report").joinpath("report.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_charts_follow_the_colours_of_the_page(finding: Finding) -> None:
    assert [drawn.name for drawn in finding.charts] == [
        "small-DCG-regret",
        "small-DCG-recent",
        "small-nDCG_2-regret",
        "small-nDCG_2-recent",
    ]
    for drawn in finding.charts:
        assert "currentColor" in drawn.svg
        assert "#010203" not in drawn.svg
        assert drawn.png.startswith(b"\x89PNG")


def test_tables_put_the_ceiling_first_and_compare_with_the_best(finding: Finding) -> None:
    assert [row[0] for row in finding.tables[0].rows][:2] == ["best possible", "leader"]
    assert {row[1] for row in finding.tables[2].rows} == {"leader"}
    assert finding.claims[0].word in ("holds", "partly", "does not hold")


def test_one_seed_is_not_compared(tmp_path: Path) -> None:
    experiment = small(seeds=1)
    told = finding_of(Curves(experiment, run_experiment(experiment, tmp_path, Here())))
    assert "at least two seeds" in told.tables[2].note
    assert told.tables[2].rows == []
    _page("one", [told], "")


def test_several_streams_have_charts_and_tables_each(tmp_path: Path) -> None:
    streams = {name: {"kind": "flipped_relevance", "n_items": n} for name, n in (("few", 5), ("many", 9))}
    experiment = small(stream=None, streams=streams, measures=["DCG"])
    told = finding_of(Curves(experiment, run_experiment(experiment, tmp_path, Here())))
    assert {drawn.name for drawn in told.charts} >= {"few-DCG-average", "many-DCG-regret"}
    assert [table.title for table in told.tables[:2]] == ["DCG, few", "DCG, many"]


def test_regret_that_is_not_available_is_said_to_be(tmp_path: Path) -> None:
    experiment = small(stream={"kind": "flipped_relevance", "n_items": 8}, measures=["DCG", "AP"], seeds=1)
    told = finding_of(Curves(experiment, run_experiment(experiment, tmp_path, Here())))
    assert dict(told.facts)["regret of AP"].startswith("not available")
    assert told.tables[0].header[-1] == "regret"
    assert told.tables[1].header[-1] != "regret"


def test_a_report_is_written_whole(tmp_path: Path, finding: Finding) -> None:
    path = write_report(tmp_path, "Both", [finding, finding._replace(id="other")])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["charts", "report.html"]
    assert len(list((tmp_path / "charts").iterdir())) == 2 * len(finding.charts)
    assert path.read_text().count("<section") == 2


def test_the_band_is_the_standard_error_and_skips_what_is_missing() -> None:
    rows = np.array([[1.0, np.nan, np.nan], [3.0, 4.0, np.nan]])
    mean, error = band(rows)
    np.testing.assert_allclose(mean, [2.0, 4.0, np.nan])
    np.testing.assert_allclose(error, [np.sqrt(2.0) / np.sqrt(2.0), 0.0, 0.0])


def test_curves_without_a_positive_value_can_be_drawn_on_a_logarithmic_axis() -> None:
    rows = np.array([[0.0, 0.0, 0.5], [0.0, -0.1, 0.4]])
    assert chart("c", "C", np.array([1, 2, 3]), [Line("a", rows)], log_x=True, log_y=True).png


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples_are_valid(path: Path) -> None:
    assert read_spec(path).claims


def test_refused_updates_are_told_by_arm() -> None:
    wild = {"kind": "online_gradient", "surrogate": "squared", "learning_rate": 1e200}
    changes = {"stream": "linear_gaussian", "regret": False, "seeds": 2, "floor": False, "ceiling": False}
    arms = [{"name": "wild", "learner": wild}, {"name": "calm", "learner": "online_gradient"}]
    experiment = small(**changes, arms=arms, horizon=10, checkpoints=[10])
    runs = [_run_one(Task(experiment, experiment.name, arm, seed)) for arm in ("wild", "calm") for seed in (0, 1)]
    assert [run.refused for run in runs] == [9, 9, 0, 0]
    facts = dict(finding_of(Curves(experiment, runs)).facts)
    assert facts["unstable updates of wild"] == "18 refused"
    assert "unstable updates of calm" not in facts
