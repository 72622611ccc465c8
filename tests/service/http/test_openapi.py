"""Requests that a machine made from the OpenAPI document: no 5xx, and every refusal is a problem document."""

from __future__ import annotations

import os
from pathlib import Path

from tests.service.cases import SHOP, Location, running
from tests.service.generated_requests import send_generated

EXAMPLES = max(int(os.environ.get("RANKLOOP_REQUESTS", "300")) // 20, 5)
SKIPPED = ("/events", "/log/{file}")  # endless, and binary


def test_generated_requests_never_break_it(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP)
        assert send_generated(client, lambda path: path not in SKIPPED, EXAMPLES) >= 50
        assert client.get("/rankers/shop").json()["counts"]["learned"] == 0
