"""Numbers for Prometheus: the middleware counts calls as they come, everything else is read when asked."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """One registry per service, so that two in one process do not meet; what each worker counts for itself names it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.worker = "0"
        self.calls = Counter("rankloop_calls", "HTTP calls", ["call", "status", "worker"], registry=self.registry)
        self.refused = Counter(
            "rankloop_refused_calls", "HTTP calls that were refused", ["reason", "worker"], registry=self.registry
        )
        self.seconds = Histogram(
            "rankloop_seconds", "Seconds per HTTP call", ["call", "worker"], buckets=BUCKETS, registry=self.registry
        )

    def watch(self, service: "Node") -> None:
        self.worker = str(service.slot)
        self.registry.register(_Counts(service))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Counts:
    def __init__(self, service: "Node") -> None:
        self.service = service

    def collect(self) -> Iterator[Any]:
        counters = {
            "impressions": lambda runtime: runtime.projection.counters.impressions,
            "closed": lambda runtime: runtime.projection.counters.closed,
            "learned": lambda runtime: runtime.published.learned,
            "refused": lambda runtime: runtime.published.refused,
            "unfit": lambda runtime: runtime.published.rejected,
        }
        rankers = list(self.service.directory.rankers.items())  # this may run on a thread, while some come and go
        for name, value in counters.items():
            family = CounterMetricFamily(f"rankloop_{name}", f"Per ranker: {name}", labels=["ranker"])
            for ranker, runtime in rankers:
                family.add_metric([ranker], value(runtime))  # type: ignore[no-untyped-call]
            yield family
        for name, received in (("late", self.service.feedback.late), ("unknown", self.service.feedback.unknown)):
            family = CounterMetricFamily(f"rankloop_{name}", f"Per ranker: {name}", labels=["ranker", "worker"])
            for ranker, runtime in rankers:
                found = [ranker, str(self.service.slot)]
                family.add_metric(found, received.get(runtime.entity, 0))
            yield family
        yield from _vitals(self.service)
        gauges = {
            "open": lambda runtime: runtime.projection.n_open,
            "state": lambda runtime: runtime.published.number,
            "frozen": lambda runtime: runtime.projection.frozen,
        }
        for name, value in gauges.items():
            gauge = GaugeMetricFamily(f"rankloop_{name}", f"Per ranker: {name}", labels=["ranker"])
            for ranker, runtime in rankers:
                gauge.add_metric([ranker], float(value(runtime)))
            yield gauge


def _vitals(service: "Node") -> Iterator[Any]:
    """How the process itself is: the log, the learner, the loop."""
    seconds = SummaryMetricFamily("rankloop_commit_seconds", "Seconds per transaction of the log", labels=["worker"])
    seconds.add_metric([service.slot], service.log.commits, service.log.commit_seconds)
    yield seconds
    without = service.store.partitions - len(service.learning.holders)
    slowest, service.log.slowest_commit = service.log.slowest_commit, 0.0
    gauges = {
        "slowest_commit_seconds": (slowest, "The slowest transaction of the log since this was last asked"),
        "learner_lag_seconds": (service.learning.lag, "By how much what is served is behind the log"),
        "loop_lag_seconds": (service.loop_lag, "By how much the event loop was late last"),
        "partitions_held": (float(len(service.learning.worker.leases.held)), "Partitions that this process learns"),
        "partitions_without_learner": (float(without), "Partitions that nobody learns"),
    }
    for name, (value, meaning) in gauges.items():
        gauge = GaugeMetricFamily(f"rankloop_{name}", meaning, labels=["worker"])
        gauge.add_metric([service.slot], value)
        yield gauge
    holder = GaugeMetricFamily("rankloop_lease_holder", "Who learns a partition", labels=["partition", "holder"])
    for partition, name in sorted(service.learning.holders.items()):
        holder.add_metric([str(partition), name], 1.0)
    yield holder
