"""docs/METRICS.md lists the metrics that a scrape returns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from daemon.consumer.metrics import TYPES_MAX
from daemon.replica.metrics import PolicyObserver, ReplicaMetrics
from daemon.service.lifecycle import process_registry
from daemon.status.metrics import state_family
from daemon.status.model import POLICY_STATES
from handlers.replication.observer import BatchOverlap, LaneCounts, LookaheadCounts
from handlers.replication.tables.quarantine import QuarantinedTable
from tests.builders.daemon.assembly import SECTIONS, full_registry, runtime_of
from tests.builders.daemon.loops import daemon_status


PAGE = Path(__file__).parents[4] / "docs" / "METRICS.md"


@pytest.fixture
def registry() -> CollectorRegistry:
    return full_registry()


def rows(registry: CollectorRegistry) -> list[str]:
    """Return a line of the page's table per metric, by name; counters as they are scraped."""
    found = []
    for family in registry.collect():
        labels = ", ".join(f"`{name}`" for name in _labels(registry, family.name))
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        kind = "gauge" if family.type == "info" else family.type
        found.append(f"| `{name}` | {kind} | {labels or '-'} | {family.documentation} |")
    return sorted(found)


def _labels(registry: CollectorRegistry, name: str) -> tuple[str, ...]:
    own = registry._names_to_collectors.get(name)
    if own is not None and hasattr(own, "_labelnames"):
        return tuple(own._labelnames)
    family = next(found for found in registry.collect() if found.name == name)
    return tuple(family._labelnames) if hasattr(family, "_labelnames") else ()


def test_the_page_lists_every_metric_and_no_other(registry: CollectorRegistry) -> None:
    listed = sorted(line for line in PAGE.read_text().splitlines() if line.startswith("| `tideline_"))
    assert listed == rows(registry)


def test_names_have_the_prefix_and_base_units(registry: CollectorRegistry) -> None:
    for family in registry.collect():
        assert family.name.startswith("tideline")
        assert not family.name.endswith(("_ms", "_s", "_mb", "_kb"))
        assert ("Unix time" in family.documentation) == family.name.endswith("_timestamp_seconds"), (
            family.name
        )


def test_a_scrape_can_be_parsed_and_has_positions_lags_and_states(registry: CollectorRegistry) -> None:
    text = generate_latest(registry).decode()
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    shop = (("projection", "replication:shop"), ("source", "lake"))
    assert samples["tideline_projection_event_id", *shop] == 1_234_560
    assert samples["tideline_projection_lag_events", *shop] == 7
    assert samples["tideline_projection_lag_seconds", *shop] == 2.4
    assert samples["tideline_source_event_id", ("source", "lake")] == 1_234_567
    assert samples["tideline_projection_state", ("projection", "replication:hr"), ("state", "failed")] == 1
    assert samples["tideline_projection_state", ("projection", "replication:hr"), ("state", "following")] == 0
    hr = (("projection", "replication:hr"), ("source", "lake"))
    assert samples["tideline_projection_quarantined_tables", *hr] == 1
    assert ("tideline_projection_lag_seconds", *hr) not in samples, "unknown is not zero"
    assert samples["tideline_copied_bytes_total", ("policy", "shop")] == 3 * 1024**3


@pytest.mark.parametrize("state", ["paused", "promoted", "retired", "not-bootstrapped", "following"])
def test_the_state_of_a_policy_that_does_not_follow_has_a_sample(state: str) -> None:
    (row,) = [view for view in daemon_status().projections if view.name == "replication:shop"]
    family = state_family(
        "tideline_projection_state", "", "projection", [replace(row, state=state)], POLICY_STATES
    )
    assert [each.labels["state"] for each in family.samples if each.value == 1] == [state]


def test_applied_events_are_counted_by_type_and_the_number_of_types_is_bounded() -> None:
    runtime = runtime_of()
    registry = runtime.registry
    measures = PolicyObserver(ReplicaMetrics(registry, runtime.projections), "replication:shop")
    for number in range(TYPES_MAX + 50):
        measures.event_applied(f"T{number}", 0.001)
    measures.event_skipped("T1", "merged")
    measures.table_quarantined("db", QuarantinedTable("t", 7, "file-lost", "gone"))
    measures.commit_without_writes(7)
    measures.constraint_left_out("db.t", "fk", "db.u")
    measures.table_unreplicated("db.t", "iceberg", "metadata elsewhere")
    for _ in range(2):
        measures.batch_replayed(
            BatchOverlap(40, LaneCounts(5, 1, 0.5, 0.25, 0.125), LookaheadCounts(30, 20, 2))
        )
    text = generate_latest(registry).decode()
    assert 'tideline_replay_batch_events_sum{projection="replication:shop"} 80.0' in text
    assert 'tideline_lane_events_total{outcome="applied",projection="replication:shop"} 10.0' in text
    assert 'tideline_lane_events_total{outcome="returned",projection="replication:shop"} 2.0' in text
    for name, value in (
        ("lane_busy_seconds", 1.0),
        ("lane_queued_seconds", 0.5),
        ("lane_waited_seconds", 0.25),
        ("lookahead_transactions", 60.0),
        ("lookahead_write_ids", 40.0),
        ("lookahead_calls", 4.0),
    ):
        assert f'tideline_{name}_total{{projection="replication:shop"}} {value}' in text
    applied = [line for line in text.splitlines() if line.startswith("tideline_events_applied_total{")]
    assert len(applied) == TYPES_MAX + 1
    assert 'type="other"} 50.0' in text
    assert f'tideline_apply_seconds_count{{projection="replication:shop"}} {TYPES_MAX + 50}.0' in text
    assert 'tideline_constraints_left_out_total{projection="replication:shop"} 1.0' in text
    assert "db.t" not in text


def test_memory_and_cpu_time_of_the_process_are_included() -> None:
    assert b"process_resident_memory_bytes" in generate_latest(process_registry(daemon_status, SECTIONS))
