"""Metrics of the endpoint. Names of forwarded calls are not labels, because clients choose them."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from daemon.process.metrics import CALL_BUCKETS_S, Metric, MetricTable


class EndpointMetrics(MetricTable):
    """The metrics of one endpoint; thread-safe."""

    connections = Metric(Gauge, "tideline_endpoint_connections", "Open connections of clients.")
    refused = Metric(
        Counter, "tideline_endpoint_connections_refused", "Connections closed because too many were open."
    )
    authenticated = Metric(
        Counter,
        "tideline_endpoint_sasl_connections",
        "Clients that the metastore accepted after a SASL negotiation.",
    )
    passed_through = Metric(
        Counter,
        "tideline_endpoint_sasl_connections_passed_through",
        "Connections with signed or encrypted calls, which are passed on unread.",
    )
    forwarded = Metric(
        Counter, "tideline_endpoint_calls_forwarded", "Calls forwarded unchanged to the metastore."
    )
    translated = Metric(
        Counter,
        "tideline_endpoint_calls_translated",
        "Calls that the metastore lacks, answered by other means.",
        "call",
    )
    errors = Metric(
        Counter, "tideline_endpoint_errors", "Errors that closed a client's connection, by code.", "code"
    )
    call_s = Metric(
        Histogram,
        "tideline_endpoint_call_seconds",
        "Time from a complete request to its complete answer.",
        "answer",
        buckets=CALL_BUCKETS_S,
    )
