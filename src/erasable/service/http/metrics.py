"""Figures for Prometheus: counts and times of routes, requests by state. Nobody's identity, and no digest."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from erasable.service.service import ErasureService

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = ("GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The figures of one service."""

    def __init__(self, service: ErasureService) -> None:
        self.service, self.registry = service, CollectorRegistry()
        self._found: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # looking them up takes long
        self._answers = Counter(
            "erasable_http_answers",
            "Answers by route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "erasable_http_seconds", "Time to an answer.", ["method", "route"], registry=self.registry, buckets=_BUCKETS
        )
        self._rows = Counter("erasable_rows_predicted", "Rows predicted.", ["model"], registry=self.registry)
        self._rows_of: dict[str, Counter] = {}
        gauges = {
            "ready": "Whether the service has recovered, takes requests and its last commit went well.",
            "waiting": "Requests that are not settled.",
            "overdue": "Of these, past their expected completion.",
            "receipts_owed": "Receipts that are not signed yet.",
            "callbacks_owed": "Callbacks that are not delivered yet.",
        }
        self._gauges = {name: Gauge(f"erasable_{name}", text, registry=self.registry) for name, text in gauges.items()}

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """An answer went out."""
        method = method if method in _METHODS else "other"
        if (method, route, status) not in self._found:
            self._found[method, route, status] = (
                self._answers.labels(method, route, status),
                self._seconds.labels(method, route),
            )
        answers, times = self._found[method, route, status]
        answers.inc()
        times.observe(seconds)

    def predicted(self, model: str, rows: int) -> None:
        """Rows were predicted."""
        if model not in self._rows_of:
            self._rows_of[model] = self._rows.labels(model)
        self._rows_of[model].inc(rows)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        health = self.service.health()
        for name, gauge in self._gauges.items():
            gauge.set(float(getattr(health, name)))
        return generate_latest(self.registry)
