"""A saved ranker on the log of a service: one that does not fit it, and one that never shows what it shows."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

import httpx
import numpy as np
import pytest

from rankloop import Session, build, save
from rankloop.cli import main
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Problem, Query
from rankloop.evaluation.off_policy.ranking_log import AskedRanker
from rankloop.service.http.server import make_server
from rankloop.service.settings import Settings

NAMES = ["today", "state", "price"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service whose ranker swaps neighbours, and its export beside the log."""
    data = tmp_path_factory.mktemp("service")
    server = make_server(Settings(data=data, port=0))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            problem = {"feature_names": NAMES}
            client.put("/rankers/shop", json={"learner": {"kind": "3pr"}, "problem": problem, "seed": 0})
            items = [{"id": name, "features": row} for name, row in zip("abc", np.eye(3).tolist())]
            for _ in range(20):
                answer = client.post("/rankers/shop/rank", json={"items": items}).json()
                told = {"impression": answer["impression"], "clicks": answer["ranking"][:1], "final": True}
                assert client.post("/rankers/shop/feedback", json=told).status_code == 200
            (data / "shop.parquet").write_bytes(client.get("/log/shop.parquet").content)
    finally:
        server.stop()
        thread.join()
    return data


def saved(path: Path, *weights: float, names: tuple[str, ...] = ()) -> Path:
    problem = Problem(n_features=len(weights), feature_names=names)
    save(Session(build({"kind": "fixed_weights", "weights": list(weights)}), problem), path)
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", *map(str, arguments)])
    assert leaving.value.code == 2
    return capsys.readouterr().err


def test_other_features_are_named_on_both_sides(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(tmp_path / "new.rankloop", 1.0, 2.0, names=("fresh", "state"))
    for method in ("snips", "position_wise"):
        err = refused(capsys, model, "--log", folder, "--estimator", method)
        assert "new.rankloop learned from fresh, state; the log has today, state, price" in err
    err = refused(capsys, model, "--log", folder / "shop.parquet")
    assert "new.rankloop learned from fresh, state; the log has today, state, price" in err
    err = refused(capsys, saved(tmp_path / "bare.rankloop", 1.0), "--log", folder / "shop.parquet")
    assert "bare.rankloop learned from 1 feature per item; the log has today, state, price" in err


def test_as_many_features_of_other_names_are_refused_too(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers fit, names do not: the weight of a price would have counted for something else without a word."""
    model = saved(tmp_path / "new.rankloop", 1.0, 2.0, 3.0, names=("price", "state", "today"))
    for log in (folder, folder / "shop.parquet"):
        err = refused(capsys, model, "--log", log)
        assert "new.rankloop learned from price, state, today; the log has today, state, price" in err


def test_a_ranker_that_shows_nothing_of_the_log_is_told_the_way_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ranker of fixed weights shows one order only; where it is not in the log, places still can be."""
    shown = list_of_orders(folder)
    order = next(order for order in ("abc", "acb", "bac", "bca", "cab", "cba") if order not in shown)
    weights = [3.0 - order.index(item) for item in "abc"]
    model = saved(tmp_path / "new.rankloop", *weights)
    err = refused(capsys, model, "--log", folder / "shop.parquet", "--estimator", "snips")
    assert "would never have shown anything that the log shows" in err
    assert "try --estimator position_wise, with the folder of the service" in err
    whole = refused(capsys, model, "--log", folder, "--estimator", "snips")
    assert "try --estimator position_wise, which weighs positions" in whole
    with pytest.raises(SystemExit) as leaving:
        main(["evaluate", str(model), "--log", str(folder), "--estimator", "position_wise"])
    assert not leaving.value.code
    assert "ranker of new.rankloop" in capsys.readouterr().out


def list_of_orders(folder: Path) -> set[str]:
    import pyarrow.parquet as pq

    return {"".join(order) for order in pq.read_table(folder / "shop.parquet")["ranking"].to_pylist()}


def test_a_log_that_fits_is_handed_on_whole() -> None:
    session = Session(build({"kind": "fixed_weights", "weights": [1.0, 2.0]}), Problem(n_features=2))
    ranker, queries = AskedRanker(session), [Query.of(np.ones((n, 2))) for n in (2, 3)]
    assert list(ranker.checked(queries, lambda query: query, "m")) == queries
    assert list(ranker.checked([], lambda query: query, "m")) == []
    with pytest.raises(InvalidInput, match="1 context features, the problem 0"):
        ranker.checked([Query.of(np.ones((2, 2)), [1.0])], lambda query: query, "m")
