"""A log of format 1 is opened, served, learned from and replayed bit for bit, whatever version came later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankloop.core.compilation import processor
from rankloop.service.stores.open import log_at
from tests.service.cases import feed, learn, report, running
from tests.service.promises.written_log import EXPECTED, LOG, plain, results_of, unpack

MAX_BYTES = 20_000
pytestmark = pytest.mark.filterwarnings("ignore:.*was written on a .* CPU:RuntimeWarning")


def test_a_log_of_format_1_replays_bit_for_bit(tmp_path: Path) -> None:
    location, expected = unpack(tmp_path), json.loads(EXPECTED.read_text())
    assert LOG.stat().st_size < MAX_BYTES
    with log_at(str(tmp_path)) as log:
        assert log.version() == 1
    results = results_of(location)
    assert [result.entity for result in results] == ["ranker/shop", "ranker/named"]
    assert all(result.checked for result in results)
    if processor() == expected["processor"]:
        assert plain(results) == expected["results"]


def test_a_log_of_format_1_is_served_and_learned_from(tmp_path: Path) -> None:
    location, expected = unpack(tmp_path), json.loads(EXPECTED.read_text())
    learned = {result["entity"]: result for result in expected["results"]}["ranker/shop"]
    with running(location) as client:
        assert report(client)["state"] == learned["state"]
        assert report(client)["counts"]["learned"] == learned["learned"]
        assert report(client)["spec"]["window"] == 900
        assert report(client, "named")["schema"]["version"] == 2
        assert client.get("/aliases").json()["aliases"] == {"today": "shop"}
        assert client.get("/experiments/compared").json()["impressions"] == 1
        assert feed(client, expected["waiting"], clicks=["i2"], final=True).json()["verdict"] == "closed"
        learn(client, 3)
        assert report(client)["counts"]["learned"] == learned["learned"] + 4
    for result in results_of(location):
        assert not result.differing or processor() != expected["processor"]
