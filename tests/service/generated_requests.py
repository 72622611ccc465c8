"""Requests that a machine made from the OpenAPI document of a running service."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings


def send_generated(client: httpx.Client, wanted: Callable[[str], bool], examples: int) -> int:
    """Ask every wanted path so often; how many were sent. No 5xx, and every refusal is a problem document."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    sent = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if not wanted(operation.path):
            continue

        @settings(
            max_examples=examples,
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
    return sent
