"""Telemetry: a span per call with ranker and status; nothing unless the variables ask for it."""

from __future__ import annotations

import gzip
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rankloop.core.errors import InvalidInput
from rankloop.service.http.app import make_app
from rankloop.service.http.telemetry import tracers_from
from rankloop.service.settings import Settings
from tests.coroutines import run_coroutine
from tests.service.cases import SHOP, items

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_nothing_is_sent_unless_a_variable_says_where() -> None:
    assert tracers_from({}) is None
    assert tracers_from({"OTEL_TRACES_EXPORTER": "none", "OTEL_SERVICE_NAME": "shop"}) is None
    assert tracers_from({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}) is None
    with pytest.raises(InvalidInput, match="OTEL_TRACES_EXPORTER=zipkin"):
        tracers_from({"OTEL_TRACES_EXPORTER": "zipkin"})


def test_spans_reach_the_address_of_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, bytes] = {}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received[self.path] = gzip_or_plain(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_address[1]}")
        found = tracers_from(os.environ)
        assert found is not None
        with found.get_tracer("test").start_as_current_span("a call"):
            pass
        found.shutdown()
        collector.shutdown()
    assert b"a call" in received["/v1/traces"]
    assert b"rankloop" in received["/v1/traces"]


def gzip_or_plain(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def test_every_call_has_a_span_with_its_ranker_and_status(tmp_path: Path) -> None:
    spans, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    app = make_app(Settings(data=tmp_path), tracers=tracers)

    async def calls() -> None:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                await client.put("/rankers/shop", json=SHOP)
                headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Request-Id": "mine"}
                shown = (await client.post("/rankers/shop/rank", json={"items": items()}, headers=headers)).json()
                body = {"impression": shown["impression"], "clicks": shown["ranking"][1:2], "final": True}
                for _ in range(2):
                    await client.post("/rankers/shop/feedback", json=body)
                await client.post("/rankers/nobody/rank", json={"items": items()})
                await client.get("/made/up")

    run_coroutine(calls())
    named = ("rankloop.ranker", "http.response.status_code")
    found = [(span.name, *(_of(span, name) for name in named)) for span in spans.get_finished_spans()]
    assert found == [
        ("PUT /rankers/{name}", "shop", 201),
        ("POST /rankers/{name}/rank", "shop", 200),
        ("POST /rankers/{name}/feedback", "shop", 200),
        ("POST /rankers/{name}/feedback", "shop", 200),
        ("POST /rankers/{name}/rank", "nobody", 404),
        ("other", "", 404),
    ]
    ranking = spans.get_finished_spans()[1]
    assert f"{ranking.get_span_context().trace_id:032x}" == TRACE  # the caller's trace goes on
    assert _of(ranking, "rankloop.request_id") == "mine"


def _of(span: Any, name: str) -> Any:
    return span.attributes.get(name)
