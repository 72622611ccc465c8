"""Metrics for Prometheus: the middleware counts calls, everything else is read when metrics are scraped."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from rankloop.core.learner import from_layers
from rankloop.service.domain.drift_alarm import click_rate_drift

if TYPE_CHECKING:
    from rankloop.service.application.node import Node

COUNTERS: dict[str, Callable[[Any], float]] = {
    "impressions": lambda ranker: ranker.projection.counters.impressions,
    "closed": lambda ranker: ranker.projection.counters.closed,
    "learned": lambda ranker: ranker.published.learned,
    "refused": lambda ranker: ranker.published.refused,
    "rejected": lambda ranker: ranker.published.rejected,
    "clipped": lambda ranker: from_layers(ranker.published.state, "clipped", 0),
    "capped": lambda ranker: from_layers(ranker.published.state, "capped", 0),
    "repeated": lambda ranker: from_layers(ranker.published.state, "repeated", 0),
}
GAUGES: dict[str, Callable[[Any], float]] = {
    "open": lambda ranker: ranker.projection.n_open,
    "state": lambda ranker: ranker.published.number,
    "frozen": lambda ranker: ranker.projection.frozen,
    "drift_alarm": lambda ranker: click_rate_drift(ranker.projection.counters)[1],
    "click_rate_z_score": lambda ranker: click_rate_drift(ranker.projection.counters)[0],
}
DURATION_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """The metrics of one service; numbers that every worker counts for itself have a label `worker`."""

    node: "Node"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.worker = "0"
        self.calls = Counter("rankloop_calls", "HTTP calls", ["call", "status", "worker"], registry=self.registry)
        labels = ["reason", "worker"]
        self.refused = Counter("rankloop_refused_calls", "HTTP calls that were refused", labels, registry=self.registry)
        labels = ["call", "worker"]
        self.seconds = Histogram(
            "rankloop_seconds", "Seconds per HTTP call", labels, buckets=DURATION_BUCKETS, registry=self.registry
        )

    def watch(self, node: "Node") -> None:
        """Read the counts of a node whenever metrics are scraped."""
        self.node, self.worker = node, str(node.slot)
        self.registry.register(self)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Any]:
        """Yield the counts of the node; Prometheus calls it."""
        node, worker = self.node, self.worker
        # A copy, since this runs on a thread while rankers are created and deleted.
        rankers = list(node.directory.rankers.items())
        for kind, values in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for name, value in values.items():
                numbers = [([ranker], float(value(runtime))) for ranker, runtime in rankers]
                yield _family(kind, name, f"Per ranker: {name}", ["ranker"], numbers)
        outcomes = [
            ([ranker, outcome], counts.total)
            for ranker, runtime in rankers
            for outcome, counts in list(runtime.projection.counters.outcomes.items())
        ]
        yield _family(CounterMetricFamily, "outcomes", "Total of each outcome", ["ranker", "outcome"], outcomes)
        for name, received in (("late", node.feedback.late), ("unknown", node.feedback.unknown)):
            numbers = [([ranker, worker], float(received.get(runtime.entity, 0))) for ranker, runtime in rankers]
            yield _family(CounterMetricFamily, name, f"Per ranker: {name}", ["ranker", "worker"], numbers)
        meaning = "Seconds per transaction of the log"
        seconds = SummaryMetricFamily("rankloop_commit_seconds", meaning, labels=["worker"])
        seconds.add_metric([worker], node.log.commits, node.log.commit_seconds)
        yield seconds
        slowest, node.log.slowest_commit = node.log.slowest_commit, 0.0
        learning, partitions = node.learning, node.store.partitions
        for name, number, meaning in (
            ("slowest_commit_seconds", slowest, "The slowest transaction of the log since the last scrape"),
            ("learner_lag_seconds", learning.lag, "How far the served state is behind the log"),
            ("loop_lag_seconds", node.loop_lag, "The last delay of the event loop"),
            ("partitions_held", len(learning.worker.leases.held), "Partitions that this process learns"),
            ("partitions_without_learner", partitions - len(learning.holders), "Partitions that no process learns"),
        ):
            yield _family(GaugeMetricFamily, name, meaning, ["worker"], [([worker], float(number))])
        holders = [([str(partition), name], 1.0) for partition, name in sorted(learning.holders.items())]
        meaning, labels = "The process that learns a partition", ["partition", "holder"]
        yield _family(GaugeMetricFamily, "lease_holder", meaning, labels, holders)


def _family(kind: Any, name: str, meaning: str, labels: list[str], numbers: Iterable[tuple[list[str], float]]) -> Any:
    family = kind(f"rankloop_{name}", meaning, labels=labels)
    for values, number in numbers:
        family.add_metric(values, number)
    return family
