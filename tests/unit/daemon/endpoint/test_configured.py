"""An endpoint of a configured source: its settings, its reports, and its loop in the daemon."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from daemon.capability import Nudges
from daemon.endpoint.configured.assembly import open_answers
from daemon.endpoint.configured.loop import EndpointCollector, EndpointLoop
from daemon.endpoint.configured.reports import Reports
from daemon.endpoint.configured.settings import SERVE, choose_source, endpoint_settings
from daemon.endpoint.configured.status import ENDPOINTS
from daemon.endpoint.metrics import EndpointMetrics
from daemon.endpoint.verification.differing_tables import AnswerDifference
from daemon.process.loops.loop import LoopState, LoopStatus
from daemon.service.configuration import config_reader
from daemon.status.actions import list_actions
from daemon.status.model import DaemonStatus
from state.errors import ConfigError, KafkaUnavailable, MalformedEvent
from tests.builders.daemon.assembly import SECTIONS, config_of, parts_of


SOURCE = {"metastore": ["thrift://a:1", "thrift://b:2"], "topic": "t"}
FOLLOWING = LoopStatus("serve:lake", LoopState.FOLLOWING)


def config(**serve: Any) -> Any:
    return config_of(
        {
            "sources": {"lake": SOURCE},
            "kafka": {"bootstrap": "k:9092"},
            "catalog": {"lake": {"partitions": {}}},
            "serve": {"lake": serve},
        }
    )


def test_calls_are_forwarded_to_the_source_unless_other_servers_are_named() -> None:
    default = endpoint_settings(config(listen="127.0.0.2:9999", connections_max=7), "lake")
    assert [str(each) for each in default.metastores] == ["thrift://a:1", "thrift://b:2"]
    assert (default.host, default.port, default.connections_max) == ("127.0.0.2", 9999, 7)
    named = endpoint_settings(config(metastore="thrift://c:3"), "lake")
    assert [str(each) for each in named.metastores] == ["thrift://c:3"]


@pytest.mark.parametrize(
    ("serve", "age_max_s"),
    [({}, 0.0), ({"freshness": "bounded", "bound_ms": 250}, 0.25), ({"freshness": "eventual"}, None)],
)
def test_freshness_is_exact_unless_another_mode_is_configured(
    serve: dict[str, Any], age_max_s: float
) -> None:
    assert SERVE.of(config(**serve))["lake"].rule.age_max_s == age_max_s


def test_config_check_reports_unknown_sources_shared_addresses_and_malformed_ones(tmp_path: Path) -> None:
    file = tmp_path / "tideline.yaml"
    file.write_text(
        "sources: {a: {metastore: thrift://a:1, topic: x}, b: {metastore: thrift://b:1, topic: y}}\n"
        "kafka: {bootstrap: 'k:9092'}\n"
        "serve: {a: {listen: '0.0.0.0:1'}, b: {listen: '0.0.0.0:1'}, c: {listen: nowhere}}\n"
    )
    found = {problem.key: problem.reason for problem in config_reader().read(file, {}).problems}
    assert found["serve.c"] == "must be a source"
    assert "is already the address" in found["serve.b.listen"]
    assert "HOST:PORT" in found["serve.c.listen"]


def test_the_only_configured_endpoint_need_not_be_named() -> None:
    assert choose_source(config(), None) == "lake"
    for source in ("pond", None):
        with pytest.raises(ConfigError):
            choose_source(config() if source else config_of(), source)


def test_a_source_without_an_index_in_a_file_is_only_forwarded() -> None:
    plain = config_of({"sources": {"lake": SOURCE}, "kafka": {"bootstrap": "k:1"}, "serve": {"lake": {}}})
    settings = endpoint_settings(plain, "lake")
    assert open_answers(plain, "lake", settings, EndpointMetrics(CollectorRegistry())) is None


def test_the_daemon_runs_the_endpoints_unless_it_only_relays_or_they_run_elsewhere() -> None:
    def loops(made: Any, **options: Any) -> list[str]:
        return [job.name for job in parts_of(made, **options).jobs if job.name.startswith("serve:")]

    assert loops(config()) == ["serve:lake"]
    assert loops(config(run=False)) == []
    assert loops(config(), relays_only=True) == []


def reported(differing: list[AnswerDifference]) -> list[dict[str, Any]]:
    """Return what an endpoint reports."""
    registry = CollectorRegistry()
    metrics = EndpointMetrics(registry)
    metrics.connections.inc(2)
    metrics.answered.labels("get_partitions").inc(5)
    metrics.not_answered.labels("get_partition", "not-fresh").inc(3)
    metrics.not_answered.labels("get_partition", "loading").inc()
    metrics.forwarded.inc(9)
    reader, writer = os.pipe()
    reports = Reports(writer, registry, lambda: differing)
    reports.start("127.0.0.1:9083")
    reports.behind(17)
    reports.close("stop-requested")
    os.close(writer)
    with os.fdopen(reader) as lines:
        return [json.loads(line) for line in lines]


def loop_with(events: list[dict[str, Any]]) -> tuple[EndpointLoop, Nudges]:
    nudges = Nudges()
    loop = EndpointLoop([], "lake", "exact", nudges.of("lake").set)
    for event in events:
        if event["event"] != "stopped":
            assert loop.process_event(event)
    return loop, nudges


def test_the_daemon_shows_what_the_endpoint_reports() -> None:
    events = reported([AnswerDifference("db.t", 3, "get_partitions", 17, 5)])
    assert {event["event"] for event in events} == {"started", "report", "behind", "stopped"}
    loop, nudges = loop_with(events)
    assert nudges.of("lake").is_set()
    loop.pid = 42
    status = loop.status(FOLLOWING)
    assert (status.listen, status.connections, status.answered) == ("127.0.0.1:9083", 2, 5)
    assert (status.not_answered, status.forwarded) == (4, 9)
    assert status.reasons == (("not-fresh", 3), ("loading", 1))
    text = ENDPOINTS.text((status,), 0.0)
    assert "127.0.0.1:9083" in text
    assert "not-fresh" in text
    samples = [sample for family in EndpointCollector([loop]).collect() for sample in family.samples]
    assert ("tideline_endpoint_connections", {"source": "lake"}, 2.0) in [
        (sample.name, sample.labels, sample.value) for sample in samples
    ]
    assert loop.reported_end(events[-1]) is None
    error = loop.reported_end({"reason": "kafka-unavailable", "message": "[kafka-unavailable] down"})
    assert isinstance(error, KafkaUnavailable)
    loop.count_start()
    assert (loop.status(FOLLOWING).listen, loop.status(FOLLOWING).answered) == (None, 0), "another process"


def test_a_table_that_differs_is_in_the_list_of_what_needs_an_operator_with_its_command() -> None:
    loop, _ = loop_with(reported([AnswerDifference("db.t", 3, "get_partitions", 17, 5)]))
    sections = {"endpoints": (loop.status(FOLLOWING),)}
    status = DaemonStatus("1", "host", 1, 0.0, 10.0, sections=sections)
    [action] = list_actions(status, SECTIONS)
    assert (action.kind, action.object) == ("differing-answers", "serve:lake db.t")
    assert action.command == "tideline partitions load db.t --source lake"
    read = DaemonStatus.from_json(json.loads(json.dumps(status.to_json())), SECTIONS)
    assert read.sections["endpoints"] == sections["endpoints"]


@pytest.mark.parametrize("metrics", [None, [["a"]], [["a", "b", "gauge", [["a", {}, "x"]]]]])
def test_a_report_that_cannot_be_read_changes_nothing(metrics: object) -> None:
    loop, _ = loop_with(reported([]))
    before = loop.status(FOLLOWING)
    with pytest.raises(MalformedEvent):
        loop.process_event({"event": "report", "metrics": metrics, "differing": []})
    assert loop.status(FOLLOWING) == before
