"""Numbers for Prometheus: calls as they come, everything else read when asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from rankloop.service.service import Service

_NAME = re.compile(r"^/(rankers|experiments|log)/[^/]+")
_KNOWN = re.compile(
    r"^/(|rankers|experiments|events|log/\{name\}|healthz|readyz|metrics|docs|openapi\.json|demo/people"
    r"|(rankers|experiments)/\{name\}(/(rank|feedback|rank:batch|feedback:batch|state|snapshots|history|rollback|freeze|resume"
    r"|clone))?)$"
)
_METHODS = ("GET", "HEAD", "POST", "PUT")
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """One registry per service, so that two in one process do not meet; what each worker counts for itself names it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._worker = "0"
        self._calls = Counter("rankloop_calls", "HTTP calls", ["call", "status", "worker"], registry=self.registry)
        self._seconds = Histogram(
            "rankloop_seconds", "Seconds per HTTP call", ["call", "worker"], buckets=BUCKETS, registry=self.registry
        )
        self._children: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def watch(self, service: Service) -> None:
        self._worker = str(service.slot)
        self.registry.register(_Counts(service))

    def called(self, method: str, path: str, status: int, seconds: float) -> None:
        """Names, unknown paths and unknown methods are left out, so that the number of series stays small."""
        key = (method, path, status)
        children = self._children.get(key)
        if children is None:
            plain = _NAME.sub(lambda found: f"/{found[1]}/{{name}}", path)
            call = f"{method} {plain}" if method in _METHODS and _KNOWN.match(plain) else "other"
            counted = self._calls.labels(call, str(status), self._worker)
            children = counted, self._seconds.labels(call, self._worker)
            if len(self._children) < 10_000:
                self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Counts:
    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Any]:
        counters = {
            "impressions": lambda live: live.view.tally.impressions,
            "closed": lambda live: live.view.tally.closed,
            "learned": lambda live: live.published.learned,
            "refused": lambda live: live.published.refused,
            "unfit": lambda live: live.published.unfit,
        }
        for name, value in counters.items():
            family = CounterMetricFamily(f"rankloop_{name}", f"Per ranker: {name}", labels=["ranker"])
            for ranker, live in self.service.rankers.items():
                family.add_metric([ranker], value(live))  # type: ignore[no-untyped-call]
            yield family
        for name, heard in (("late", self.service.hearing.late), ("unknown", self.service.hearing.unknown)):
            family = CounterMetricFamily(f"rankloop_{name}", f"Per ranker: {name}", labels=["ranker", "worker"])
            for ranker, live in self.service.rankers.items():
                found = [ranker, str(self.service.slot)]
                family.add_metric(found, heard.get(live.stream, 0))
            yield family
        gauges = {
            "open": lambda live: len(live.view.open),
            "state": lambda live: live.published.number,
            "frozen": lambda live: live.view.frozen,
        }
        for name, value in gauges.items():
            gauge = GaugeMetricFamily(f"rankloop_{name}", f"Per ranker: {name}", labels=["ranker"])
            for ranker, live in self.service.rankers.items():
                gauge.add_metric([ranker], float(value(live)))  # type: ignore[no-untyped-call]
            yield gauge
