"""OpenTelemetry: a span for every call, if the OTEL_ variables ask for traces (extra `otel`)."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop import __version__
from rankloop.core.errors import InvalidInput
from rankloop.service.http.endpoints import Endpoints

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTER_GROUP = "opentelemetry_traces_exporter"  # of entry points


def tracers_from(environment: Mapping[str, str]) -> "TracerProvider | None":
    """Build the provider of spans that the standard OTEL_ variables ask for; None if they ask for none."""
    default = "otlp" if any(name in environment for name in ENDPOINT_VARIABLES) else "none"
    exporter = environment.get("OTEL_TRACES_EXPORTER") or default
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return None
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"the OTEL_ variables ask for traces, which need {error.name}: pip install 'rankloop[otel]', or unset them"
        ) from None
    name = "otlp_proto_http" if exporter == "otlp" else exporter
    matches = entry_points(group=EXPORTER_GROUP, name=name)
    if not matches:
        installed = sorted(entry.name for entry in entry_points(group=EXPORTER_GROUP))
        raise InvalidInput(f"OTEL_TRACES_EXPORTER={exporter} is not installed; installed are {installed}")
    service = {} if "OTEL_SERVICE_NAME" in environment else {"service.name": "rankloop"}
    tracers = TracerProvider(resource=Resource.create(service | {"service.version": __version__}))
    tracers.add_span_processor(BatchSpanProcessor(next(iter(matches)).load()()))
    return tracers


class TracingMiddleware:
    """ASGI middleware: a span around every call with its ranker and status, as a child of the caller's span."""

    def __init__(self, app: ASGIApp, endpoints: Endpoints, tracers: "TracerProvider") -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        self.app, self.endpoints = app, endpoints
        self._extract, self._kind = extract, SpanKind.SERVER
        self._tracer = tracers.get_tracer("rankloop", __version__)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call inside a span."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        endpoint, ranker = self.endpoints.find(scope)
        method, _, route = endpoint.name.partition(" ")
        attributes: dict[str, Any] = {"http.request.method": method, "http.route": route} if route else {}
        caller = self._extract({name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]})
        with self._tracer.start_as_current_span(endpoint.name, caller, self._kind, attributes) as span:

            async def send_and_record(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            try:
                await self.app(scope, receive, send_and_record)
            finally:
                span.set_attribute("rankloop.ranker", ranker or "")
                span.set_attribute("rankloop.request_id", scope.get("request_id", ""))
