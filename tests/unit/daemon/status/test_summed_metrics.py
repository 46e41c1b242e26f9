"""Metrics of many policies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from daemon.consumer.metrics import ProjectionMetrics
from daemon.process.metrics import ALL, LoopMetrics, PolicySeries
from daemon.replica.metrics import PolicyObserver, ReplicaMetrics
from daemon.replica.status.compactions import CompactionStatus
from daemon.replica.status.copies import CopyStatus
from daemon.status.metrics import StatusCollector
from daemon.status.model import DaemonStatus, ProjectionView
from daemon.status.summed_metrics import sum_up
from handlers.replication.observer import BatchOverlap, LaneCounts, LookaheadCounts
from tests.builders.daemon.assembly import SECTIONS, full_registry
from tests.builders.daemon.loops import daemon_status


Samples = dict[tuple[object, ...], float]


def scrape(registry: CollectorRegistry) -> Samples:
    """Return the values by name and sorted labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def many(number: int) -> DaemonStatus:
    """Return the status of many policies, of which two deviate."""
    views = [
        ProjectionView(
            f"replication:p{each}", "lake", "following", None, 100 + each, each, float(each), undecodable=1
        )
        for each in range(number)
    ]
    views[7] = replace(views[7], state="failed")
    views[8] = replace(views[8], quarantined=("db.a", "db.b"))
    status = daemon_status(projections=tuple(views))
    names = [f"p{each}" for each in range(number)]
    counts = {"failed": 0, "succeeded": 2}
    compactions = [
        CompactionStatus(name, read_s=50.0 + each, counts=counts) for each, name in enumerate(names)
    ]
    compactions[9] = replace(compactions[9], counts={"failed": 3, "succeeded": 2})
    sections = {
        **status.sections,
        "copies": tuple(CopyStatus(name, 2, 10) for name in names),
        "compactions": tuple(compactions),
    }
    return replace(status, sections=sections)


def test_five_hundred_policies_have_few_series_and_every_alert_still_names_its_policy() -> None:
    found = scrape(full_registry(lambda: many(500)))
    assert len(found) < 1_300, "the calls of the metastores are beside these"
    lags = {key for key in found if key[0] == "tideline_projection_lag_seconds"}
    assert len(lags) == 500
    source = ("source", "lake")
    assert found["tideline_projection_lag_seconds", ("projection", "replication:p499"), source] == 499
    failed = ("tideline_projection_state", ("projection", "replication:p7"), ("state", "failed"))
    assert found[failed] == 1
    assert found["tideline_projection_quarantined_tables", ("projection", "replication:p8"), source] == 2
    assert found["tideline_target_compactions", ("policy", "p9"), ("state", "failed")] == 3
    for name in ("tideline_projection_state", "tideline_projection_quarantined_tables"):
        assert len([key for key in found if key[0] == name and ("projection", ALL) not in key]) == 1


def test_what_no_alert_needs_for_each_policy_is_summed() -> None:
    found = scrape(full_registry(lambda: many(500)))
    projection, source = ("projection", ALL), ("source", "lake")
    assert found["tideline_events_undecodable_total", projection, source] == 500
    assert found["tideline_projection_event_id", projection, source] == 100, "that of the last"
    assert found["tideline_projection_lag_events", projection, source] == 499
    assert found["tideline_projection_state", projection, ("state", "following")] == 499
    assert found["tideline_projection_state", projection, ("state", "failed")] == 0, "it has its own"
    assert found["tideline_projection_quarantined_tables", projection, source] == 0
    assert found["tideline_copied_bytes_total", ("policy", ALL)] == 5_000
    assert found["tideline_target_compactions", ("policy", ALL), ("state", "succeeded")] == 1_000
    assert found["tideline_target_compactions_read_timestamp_seconds", ("policy", ALL)] == 50


@pytest.mark.parametrize("policies_max", [500, 501])
def test_as_many_policies_as_are_set_have_all_series_of_their_own(policies_max: int) -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(lambda: many(500), SECTIONS, policies_max))
    found = scrape(registry)
    assert len([key for key in found if key[0] == "tideline_projection_state"]) >= 500 * 5
    assert not [key for key in found if ("projection", ALL) in key or ("policy", ALL) in key]


def test_families_of_other_labels_are_left_as_they_are() -> None:
    loops = CounterMetricFamily("tideline_x", "X.", labels=["loop"])
    alone = GaugeMetricFamily("tideline_y", "Y.", 1.0)
    for number in range(50):
        loops.add_metric([str(number)], number)
    assert list(sum_up([loops, alone], 20)) == [loops, alone]


def metrics_of(policies_max: int) -> tuple[CollectorRegistry, ReplicaMetrics]:
    registry = CollectorRegistry()
    loops = LoopMetrics(registry, PolicySeries(policies_max))
    return registry, ReplicaMetrics(registry, ProjectionMetrics(registry, loops))


def test_counts_of_replay_are_summed_from_the_first_policy_beyond_the_limit() -> None:
    registry, metrics = metrics_of(2)
    observers = []
    for name in ("a", "b", "c"):
        metrics.projections.series.join(f"replication:{name}")
        observers.append(PolicyObserver(metrics, f"replication:{name}"))
        observers[0].event_applied("ADD_PARTITION", 0.1)
        observers[0].transactions_open(3, 10.0)
    observers[2].event_applied("ADD_PARTITION", 0.1)
    observers[2].batch_replayed(BatchOverlap(5, LaneCounts(), LookaheadCounts()))
    observers[2].transactions_open(4, 10.0)
    observers[0].transactions_open(1, 10.0)
    metrics.projections.loops.loop_failed("replication:b", "gap")
    metrics.projections.loops.loop_failed("relay:lake", "gap")
    found = scrape(registry)
    applied = {key: value for key, value in found.items() if key[0] == "tideline_events_applied_total"}
    assert applied == {
        ("tideline_events_applied_total", ("projection", ALL), ("type", "ADD_PARTITION")): 2
    }, "counters begin again when they are summed"
    assert found["tideline_apply_seconds_count", ("projection", ALL)] == 2
    assert found["tideline_replay_batch_events_count", ("projection", ALL)] == 1
    assert found["tideline_replayed_transactions_open", ("projection", ALL)] == 5
    assert found["tideline_errors_total", ("code", "gap"), ("loop", ALL)] == 1
    assert found["tideline_errors_total", ("code", "gap"), ("loop", "relay:lake")] == 1


def test_up_to_the_limit_each_policy_has_its_own_counts() -> None:
    registry, metrics = metrics_of(2)
    for name in ("a", "b", "b"):
        metrics.projections.series.join(f"replication:{name}")
        PolicyObserver(metrics, f"replication:{name}").event_applied("ADD_PARTITION", 0.1)
    found = scrape(registry)
    assert found["tideline_apply_seconds_count", ("projection", "replication:b")] == 2
    assert ("tideline_apply_seconds_count", ("projection", ALL)) not in found
