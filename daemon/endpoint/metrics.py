"""Metrics of the endpoint. The names of forwarded calls are not labels, because clients may send any name."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from daemon.process.metrics import ANSWER_BUCKETS_S, CALL_BUCKETS_S, Metric, MetricTable


class EndpointMetrics(MetricTable):
    """The metrics of one endpoint; thread-safe."""

    connections = Metric(Gauge, "tideline_endpoint_connections", "Open connections of clients.")
    refused = Metric(
        Counter,
        "tideline_endpoint_connections_refused",
        "Connections refused because too many were open and each had a call in progress.",
    )
    replaced = Metric(
        Counter,
        "tideline_endpoint_connections_replaced",
        "Idle connections closed for a new one because too many were open.",
    )
    given_up = Metric(
        Counter,
        "tideline_endpoint_requests_given_up",
        "Incomplete requests dropped because all requests together were too large.",
    )
    request_bytes = Metric(
        Gauge,
        "tideline_endpoint_request_bytes",
        "Bytes of large requests without an answer yet.",
    )
    authenticated = Metric(
        Counter,
        "tideline_endpoint_sasl_connections",
        "Clients that the metastore accepted after a SASL negotiation.",
    )
    passed_through = Metric(
        Counter,
        "tideline_endpoint_sasl_connections_passed_through",
        "Connections with signed or encrypted calls, which the endpoint forwards unread.",
    )
    forwarded = Metric(
        Counter, "tideline_endpoint_calls_forwarded", "Calls forwarded unchanged to the metastore."
    )
    translated = Metric(
        Counter,
        "tideline_endpoint_calls_translated",
        "Calls that the metastore does not support, answered by other means.",
        "call",
    )
    filters_rewritten = Metric(
        Counter,
        "tideline_endpoint_filters_rewritten",
        "Partition filters rewritten for a Hive 4 metastore.",
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
    answered = Metric(
        Counter, "tideline_endpoint_calls_answered", "Calls answered from the partition index.", "call"
    )
    repeated = Metric(
        Counter,
        "tideline_endpoint_answers_repeated",
        "Calls answered with the bytes of an earlier answer, because neither the call nor the table had "
        "changed.",
        "call",
    )
    answer_cache_bytes = Metric(
        Gauge, "tideline_endpoint_answer_cache_bytes", "Memory of the cached answers."
    )
    not_answered = Metric(
        Counter,
        "tideline_endpoint_calls_not_answered",
        "Forwarded partition calls, by reason.",
        "call",
        "reason",
    )
    answer_s = Metric(
        Histogram,
        "tideline_endpoint_answer_seconds",
        "Time to make an answer from the partition index.",
        "call",
        buckets=ANSWER_BUCKETS_S,
    )
    answer_bytes = Metric(
        Counter, "tideline_endpoint_answer_bytes", "Bytes of answers from the partition index.", "call"
    )
    compared = Metric(
        Counter,
        "tideline_endpoint_answers_compared",
        "Answers from the partition index compared with the metastore's, by outcome.",
        "outcome",
    )
    differing = Metric(
        Gauge,
        "tideline_endpoint_differing_tables",
        "Tables whose calls are forwarded because an answer differed.",
    )
