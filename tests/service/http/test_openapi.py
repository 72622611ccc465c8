"""Requests that a machine made from the OpenAPI document: no 5xx, and every refusal is a problem document."""

from __future__ import annotations

import os
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from tests.service.cases import SHOP, Location, running

EXAMPLES = max(int(os.environ.get("RANKLOOP_REQUESTS", "300")) // 20, 5)
SKIPPED = ("/events", "/log/{file}")  # endless, and binary


def test_generated_requests_never_break_it(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP)
        document = client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        sent = 0
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path in SKIPPED:
                continue

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
                database=None,
                derandomize=True,
            )
            @given(case=operation.as_strategy())
            def call(case: schemathesis.Case) -> None:
                nonlocal sent
                response = case.call(base_url=str(client.base_url).rstrip("/"))
                sent += 1
                assert response.status_code < 500, (case.path, case.body, response.content)
                if response.status_code >= 400:
                    assert response.headers["content-type"][0] == "application/problem+json"

            call()
        assert sent >= 50
        assert client.get("/rankers/shop").json()["counts"]["learned"] == 0
