"""OpenTelemetry: a span and a duration for every call, if the OTEL_ variables ask for them (extra `otel`)."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop import __version__
from rankloop.core.errors import InvalidInput
from rankloop.service.http.endpoints import Endpoints

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
OTLP_EXPORTER = "otlp_proto_http"
MAX_SEARCHED_BYTES = 4096  # of a response, for its verdict


class CallResult(msgspec.Struct):
    """The field of a feedback response, or of a problem document, that names the result of the call."""

    verdict: str = ""
    type: str = ""


class Telemetry(NamedTuple):
    """The providers of spans and measurements."""

    tracers: "TracerProvider"
    meters: "MeterProvider"
    close: Callable[[], None] = lambda: None


def telemetry_from(environment: Mapping[str, str]) -> Telemetry | None:
    """Build the telemetry that the standard OTEL_ variables ask for; None if they ask for none.

    Raises:
      InvalidInput: If a package that they need is not installed.
    """
    traces, metrics = (_exporter_name(environment, signal) for signal in ("TRACES", "METRICS"))
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or not (traces or metrics):
        return None
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"the OTEL_ variables ask for telemetry, which needs {error.name}: pip install '.[otel]', or unset them"
        ) from None
    named = {} if "OTEL_SERVICE_NAME" in environment else {"service.name": "rankloop"}
    resource = Resource.create(named | {"service.version": __version__})
    tracers = TracerProvider(resource=resource)
    if traces:
        tracers.add_span_processor(BatchSpanProcessor(_exporter("traces", traces)))
    readers = [PeriodicExportingMetricReader(_exporter("metrics", metrics))] if metrics else []
    meters = MeterProvider(metric_readers=readers, resource=resource)

    def close() -> None:
        tracers.shutdown()
        meters.shutdown()

    return Telemetry(tracers, meters, close)


def _exporter_name(environment: Mapping[str, str], signal: str) -> str:
    """Return the exporter of a signal: named by its variable, or OTLP if there is an address for it."""
    addressed = ENDPOINT_VARIABLE in environment or f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT" in environment
    named = environment.get(f"OTEL_{signal}_EXPORTER") or ("otlp" if addressed else "none")
    return "" if named == "none" else named


def _exporter(signal: str, name: str) -> Any:
    """Build an installed exporter, by the entry points of OpenTelemetry."""
    group = f"opentelemetry_{signal}_exporter"
    matches = entry_points(group=group, name=OTLP_EXPORTER if name == "otlp" else name)
    if not matches:
        installed = sorted(entry.name for entry in entry_points(group=group))
        raise InvalidInput(f"OTEL_{signal.upper()}_EXPORTER={name} is not installed; installed are {installed}")
    return next(iter(matches)).load()()


class TelemetryMiddleware:
    """ASGI middleware: a span around every call with its ranker and verdict, as a child of the caller's span.

    Args:
      app: The application inside.
      endpoints: The endpoints, which name the calls.
      telemetry: The providers.
    """

    def __init__(self, app: ASGIApp, endpoints: Endpoints, telemetry: Telemetry) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        self.app, self.endpoints = app, endpoints
        self._extract, self._kind = extract, SpanKind.SERVER
        self._tracer = telemetry.tracers.get_tracer("rankloop", __version__)
        meter = telemetry.meters.get_meter("rankloop", __version__)
        self._seconds = meter.create_histogram("http.server.request.duration", "s", "Seconds per HTTP call")
        self._refused = meter.create_counter("rankloop.refused_calls", "1", "HTTP calls that were refused")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        endpoint, ranker = self.endpoints.find(scope)
        method, _, route = endpoint.name.partition(" ")
        attributes: dict[str, Any] = {"http.request.method": method, "http.route": route} if route else {}
        caller = self._extract({name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]})
        begun, status, verdict = perf_counter(), 500, ""

        async def send_and_record(message: Message) -> None:
            nonlocal status, verdict
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                verdict = verdict or _verdict_in(message.get("body", b""), status)
            await send(message)

        with self._tracer.start_as_current_span(f"{method} {route}".strip(), caller, self._kind, attributes) as span:
            if ranker:
                span.set_attribute("rankloop.ranker", ranker)
            try:
                await self.app(scope, receive, send_and_record)
            finally:
                span.set_attribute("http.response.status_code", status)
                span.set_attribute("rankloop.verdict", verdict)
                span.set_attribute("rankloop.request_id", scope.get("request_id", ""))
                attributes |= {"http.response.status_code": status}
                self._seconds.record(perf_counter() - begun, attributes)
                if status >= 400:
                    self._refused.add(1, {"reason": verdict})


def _verdict_in(body: bytes, status: int) -> str:
    """Return the verdict in the first part of a response; "done" or "failed" if it has none."""
    if body[:1] == b"{" and len(body) <= MAX_SEARCHED_BYTES:
        with suppress(msgspec.MsgspecError):
            answer = msgspec.json.decode(body, type=CallResult)
            if verdict := answer.verdict or answer.type.rpartition(":")[2]:
                return verdict
    return "done" if status < 400 else "failed"
