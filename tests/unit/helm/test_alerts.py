"""Each alert of the chart fires for what it is about, and not beside it, by Prometheus' own judgement.

``promtool`` evaluates the rules on invented series. A case has series that must fire the alert, and the same
series a little better, which must not.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.consumer.projection import ProjectionStatus
from daemon.process.loops.loop import Job
from daemon.status.metrics import StatusCollector
from daemon.status.model import ENDED, DaemonStatus, SourceStatus
from daemon.status.reporter import ProjectionPart, SourcePart, StatusReporter
from handlers.failures import TableFailure
from state.event_log.positions import Position
from tests.builders.components.chart import render_chart
from tests.builders.daemon.loops import Scripted, supervise


TARGET = 'namespace="prod",service="demo-tideline"'
VALUES: dict[str, Any] = {
    "prometheusRule": {"enabled": True, "runbookBaseUrl": "https://wiki.example.org/tideline/"}
}
HOUR = 60


@dataclass(frozen=True)
class Case:
    """Series with a value each minute; ``x`` repeats a value or adds a step, as Prometheus writes them."""

    fires: dict[str, str]
    silent: dict[str, str]
    minutes: int = 30
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of the alert besides the severity."""


def constant(series: str, high: float, low: float, minutes: int = 30, **labels: str) -> Case:
    """A series that has one value all the time."""
    return Case({series: f"{high}x{minutes + HOUR}"}, {series: f"{low}x{minutes + HOUR}"}, minutes, labels)


def growing(series: str, step: float, low: float = 0, minutes: int = 2 * HOUR, **labels: str) -> Case:
    """A counter that grows by one value each minute."""
    count = minutes + HOUR
    return Case({series: f"0+{step}x{count}"}, {series: f"0+{low}x{count}"}, minutes, labels)


SHOP = 'projection="replication:shop"'
LAKE = 'source="lake"'
CALLS = "tideline_endpoint_calls_not_answered_total"
CASES: dict[str, Case] = {
    "TidelinePoliciesWithoutDaemon": Case(
        {
            f'tideline_policies_known{{{TARGET},pod="a"}}': "6x90",
            f'tideline_policies_owned{{{TARGET},pod="a"}}': "4x90",
            f'tideline_policies_owned{{{TARGET},pod="b"}}': "1x90",
        },
        {
            f'tideline_policies_known{{{TARGET},pod="a"}}': "6x90",
            f'tideline_policies_owned{{{TARGET},pod="a"}}': "4x90",
            f'tideline_policies_owned{{{TARGET},pod="b"}}': "2x90",
        },
        labels={"namespace": "prod", "service": "demo-tideline"},
    ),
    "TidelineDown": constant(f"up{{{TARGET}}}", 0, 1, namespace="prod", service="demo-tideline"),
    "TidelineNotScraped": Case(
        {}, {f"up{{{TARGET}}}": "1x90"}, labels={"namespace": "prod", "service": "demo-tideline"}
    ),
    "TidelineRestarts": growing("tideline_start_timestamp_seconds", 1),
    "TidelineStateVolumeFills": Case(
        {"tideline_state_volume_free_bytes": "14x90", "tideline_state_volume_size_bytes": "100x90"},
        {"tideline_state_volume_free_bytes": "16x90", "tideline_state_volume_size_bytes": "100x90"},
    ),
    "TidelineStateVolumeFull": Case(
        {"tideline_state_volume_free_bytes": "4x90", "tideline_state_volume_size_bytes": "100x90"},
        {"tideline_state_volume_free_bytes": "6x90", "tideline_state_volume_size_bytes": "100x90"},
    ),
    "TidelineFlatFailed": constant(
        'tideline_flat_state{flat="events",state="failed"}', 1, 0, flat="events", state="failed"
    ),
    "TidelineFlatRestarts": growing(
        'tideline_loop_restarts_total{loop="flat:events"}', 0.2, 0.03, loop="flat:events"
    ),
    "TidelineFlatSilent": Case(
        {'tideline_flat_progress_timestamp_seconds{flat="events"}': "0x90"},
        {'tideline_flat_progress_timestamp_seconds{flat="events"}': "0+60x90"},
        minutes=40,
        labels={"flat": "events"},
    ),
    "TidelineFlatBehind": constant('tideline_flat_lag_seconds{flat="events"}', 1801, 1800, flat="events"),
    "TidelineFlatNotSealed": constant(
        'tideline_flat_seal_backlog_hours{flat="events"}', 7, 6, 2 * HOUR, flat="events"
    ),
    "TidelineFlatDeadLetters": Case(
        {
            'tideline_flat_dead_letters_total{flat="events",reason="no-time"}': "0+1x120",
            'tideline_flat_dead_letters_total{flat="events",reason="too-late"}': "0+1x120",
            'tideline_flat_rows_total{flat="events"}': "0+150x120",
        },
        {
            'tideline_flat_dead_letters_total{flat="events",reason="no-time"}': "0+1x120",
            'tideline_flat_rows_total{flat="events"}': "0+150x120",
        },
        minutes=90,
        labels={"flat": "events"},
    ),
    "TidelineFlatMisfits": growing(
        'tideline_flat_misfits_total{flat="events"}', 1, 0, 8 * HOUR, flat="events"
    ),
    "TidelineMiningBehind": Case(
        {'tideline_mining_read_timestamp_seconds{source="history"}': "0x120"},
        {'tideline_mining_read_timestamp_seconds{source="history"}': "0+60x120"},
        minutes=90,
        labels={"source": "history"},
    ),
    "TidelineMiningRestarts": growing(
        'tideline_loop_restarts_total{loop="mining"}', 0.2, 0.03, loop="mining"
    ),
    "TidelineMiningFails": growing(
        'tideline_mining_failures_total{source="history"}', 0.2, 0.03, source="history"
    ),
    "TidelineMiningDeadRecords": growing(
        'tideline_mining_dead_records_total{source="history",reason="json"}', 1, source="history"
    ),
    "TidelineRecordsUndecodable": growing(
        f"tideline_events_undecodable_total{{{SHOP},{LAKE}}}", 1, projection="replication:shop", source="lake"
    ),
    "TidelineConnectionsRefused": growing("tideline_endpoint_connections_refused_total", 1),
    "TidelineHttpRefuses": Case(
        {'tideline_http_refused_total{listener="site",reason="address"}': "0+1x90"},
        {'tideline_http_refused_total{listener="site",reason="forbidden"}': "0+1x90"},
        labels={"listener": "site", "reason": "address"},
    ),
    "TidelineHttpLoginsFail": growing(
        'tideline_http_refused_total{listener="site",reason="unauthenticated"}', 7, 5, listener="site"
    ),
    "TidelineEventsWillBeRemoved": Case(
        {
            'tideline_gap_left_seconds{reader="r"}': "49x90",
            'tideline_gap_retention_seconds{reader="r"}': "100x90",
        },
        {
            'tideline_gap_left_seconds{reader="r"}': "50x90",
            'tideline_gap_retention_seconds{reader="r"}': "100x90",
        },
        labels={"reader": "r"},
    ),
    "TidelineEventsAreAboutToBeRemoved": Case(
        {
            'tideline_gap_left_seconds{reader="r"}': "9x90",
            'tideline_gap_retention_seconds{reader="r"}': "100x90",
        },
        {
            'tideline_gap_left_seconds{reader="r"}': "10x90",
            'tideline_gap_retention_seconds{reader="r"}': "100x90",
        },
        labels={"reader": "r"},
    ),
    "TidelineFilesWillBeRemoved": Case(
        {
            f'tideline_files_left_seconds{{reader="r",{LAKE}}}': "49x90",
            f'tideline_files_left_seconds{{reader="s",{LAKE}}}': "60x90",
            f"tideline_source_files_retention_seconds{{{LAKE}}}": "100x90",
        },
        {
            f'tideline_files_left_seconds{{reader="r",{LAKE}}}': "50x90",
            f"tideline_source_files_retention_seconds{{{LAKE}}}": "100x90",
        },
        labels={"reader": "r", "source": "lake"},
    ),
    "TidelineRelayBehindCompactor": Case(
        {
            'tideline_directories_left_seconds{reader="r"}': "149x90",
            'tideline_directories_retention_seconds{reader="r"}': "300x90",
        },
        {
            'tideline_directories_left_seconds{reader="r"}': "150x90",
            'tideline_directories_retention_seconds{reader="r"}': "300x90",
        },
        labels={"reader": "r"},
    ),
    "TidelineReplicaBehind": constant(
        f"tideline_projection_lag_seconds{{{SHOP}}}", 301, 300, projection="replication:shop"
    ),
    "TidelineRelayBehind": constant(f"tideline_relay_lag_seconds{{{LAKE}}}", 61, 60, source="lake"),
    "TidelineProjectionFailed": constant(
        f'tideline_projection_state{{{SHOP},state="failed"}}',
        1,
        0,
        projection="replication:shop",
        state="failed",
    ),
    "TidelineForeignRecords": growing(
        f"tideline_events_foreign_total{{{SHOP},{LAKE}}}", 1, projection="replication:shop", source="lake"
    ),
    "TidelineTableQuarantined": constant(
        f"tideline_projection_quarantined_tables{{{SHOP}}}", 1, 0, projection="replication:shop"
    ),
    "TidelineCompactionFailed": constant(
        'tideline_target_compactions{policy="shop",state="did not initiate"}', 1, 0, policy="shop"
    ),
    "TidelineCompactionsWait": constant(
        'tideline_target_compactions_oldest_queued_seconds{policy="shop"}', 21601, 21600, policy="shop"
    ),
    "TidelineCompactionsNotRead": Case(
        {'tideline_target_compactions_read_timestamp_seconds{policy="shop"}': "0x90"},
        {'tideline_target_compactions_read_timestamp_seconds{policy="shop"}': "0+60x90"},
        labels={"policy": "shop"},
    ),
    "TidelineNeedsOperator": Case(
        {'tideline_operator_actions{kind="gap"}': "1x90"},
        {
            'tideline_operator_actions{kind="paused-policy"}': "1x90",
            'tideline_operator_actions{kind="gap"}': "0x90",
        },
        labels={"kind": "gap"},
    ),
    "TidelineLoopStuck": constant("tideline_loops_stuck", 1, 0),
    "TidelineEndpointDown": constant(
        f'tideline_endpoint_state{{{LAKE},state="following"}}', 0, 1, source="lake", state="following"
    ),
    "TidelineEndpointRestarts": growing(
        'tideline_loop_restarts_total{loop="serve:lake"}', 0.5, 0.1, loop="serve:lake"
    ),
    "TidelineEndpointForwards": Case(
        {
            f'{CALLS}{{{LAKE},reason="filter"}}': "0+2x120",
            f"tideline_endpoint_calls_answered_total{{{LAKE}}}": "0+1x120",
        },
        {
            f'{CALLS}{{{LAKE},reason="filter"}}': "0+1x120",
            f"tideline_endpoint_calls_answered_total{{{LAKE}}}": "0+2x120",
        },
        minutes=60,
        labels={"source": "lake"},
    ),
    "TidelineEndpointNotFresh": growing(f'{CALLS}{{{LAKE},reason="not-fresh"}}', 20, 5, source="lake"),
    "TidelineEndpointAnswerDiffers": constant(
        f"tideline_endpoint_differing_tables{{{LAKE}}}", 1, 0, source="lake"
    ),
}


@pytest.fixture(scope="module")
def rules() -> dict[str, dict[str, Any]]:
    (group,) = render_chart(VALUES)["PrometheusRule"]["spec"]["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_every_alert_has_a_case(rules: dict[str, dict[str, Any]]) -> None:
    assert set(CASES) == set(rules)


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_an_alert_names_labels_that_it_has(rules: dict[str, dict[str, Any]], name: str) -> None:
    named = set(re.findall(r"\$labels\.(\w+)", rules[name]["annotations"]["summary"]))
    assert named <= set(CASES[name].labels)


def test_runbooks_are_below_the_address_of_the_user(rules: dict[str, dict[str, Any]]) -> None:
    addresses = {rule["annotations"]["runbook_url"] for rule in rules.values()}
    assert all(address.startswith("https://wiki.example.org/tideline/docs/") for address in addresses)


def test_a_daemon_that_is_stopped_on_purpose_is_not_reported_as_dead() -> None:
    (group,) = render_chart(VALUES | {"replicas": 0})["PrometheusRule"]["spec"]["groups"]
    assert {"TidelineDown", "TidelineNotScraped"}.isdisjoint(rule["alert"] for rule in group["rules"])


def run_tests(
    promtool: str, rules: dict[str, dict[str, Any]], directory: Path, tests: list[dict[str, Any]]
) -> str:
    """Return what promtool says about these tests, empty if all hold."""
    # Texts have the value, which is not what is tested; Prometheus parses them in another test.
    bare = [{key: each[key] for key in each if key != "annotations"} for each in rules.values()]
    group = {"name": "all", "rules": bare}
    (directory / "rules.yaml").write_text(yaml.safe_dump({"groups": [group]}))
    (directory / "tests.yaml").write_text(json.dumps({"rule_files": ["rules.yaml"], "tests": tests}))
    done = subprocess.run(
        [promtool, "test", "rules", "tests.yaml"], cwd=directory, check=False, capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def series_of(status: DaemonStatus) -> dict[str, str]:
    """Return the series that a scrape has of a status, each constant."""
    found = {f"up{{{TARGET}}}": "1x120"}
    for family in StatusCollector(lambda: status).collect():
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}"] = f"{sample.value}x120"
    return found


@pytest.mark.parametrize("state", ["following", *sorted(ENDED)])
def test_a_table_that_was_quarantined_fires_no_alert_once_its_policy_has_ended(
    promtool: str, rules: dict[str, dict[str, Any]], tmp_path: Path, state: str
) -> None:
    failure = TableFailure("shop.orders", 7, 0, "file-lost", "gone")
    own = ProjectionStatus("replication:shop", "lake", state, Position(7), 0, ("shop.orders",), (failure,))
    source = SourceStatus("lake", current_event_id=900, relayed_event_id=900, read_s=time.time())
    supervisor, _ = supervise(
        Job("relay:lake", Scripted(None).run), Job("replication:shop", (loop := Scripted(None)).run)
    )
    reporter = StatusReporter(
        supervisor,
        [SourcePart("lake", "relay:lake", relays=True, status=lambda: source)],
        [ProjectionPart("replication:shop", "lake", status=lambda: own)],
    )
    supervisor.start()
    assert loop.running.wait(10)
    status = reporter.status()
    supervisor.stop(5)
    assert status.projections[0].state == state
    of_policy = {"severity": "warning", "projection": "replication:shop", "source": "lake"}
    before = {
        "TidelineTableQuarantined": of_policy,
        "TidelineReplicaBehind": of_policy,
        "TidelineNeedsOperator": {"severity": "warning", "kind": "quarantined-table"},
    }
    expected = before if state == "following" else {}
    checked = [
        {
            "eval_time": "90m",
            "alertname": name,
            "exp_alerts": [{"exp_labels": expected[name]}] if name in expected else [],
        }
        for name in rules
    ]
    tests = [{"interval": "1m", "input_series": inputs(series_of(status)), "alert_rule_test": checked}]
    assert run_tests(promtool, rules, tmp_path, tests) == ""


def inputs(series: dict[str, str]) -> list[dict[str, str]]:
    return [{"series": each, "values": values} for each, values in series.items()]


def run_cases(promtool: str, rules: dict[str, dict[str, Any]], directory: Path, names: list[str]) -> str:
    """Return what promtool says about these alerts, empty if all fire and are silent as their cases say."""
    tests = []
    for name in names:
        case, rule = CASES[name], rules[name]
        for series, expected in ((case.fires, True), (case.silent, False)):
            alert = {"exp_labels": rule["labels"] | case.labels}
            tests.append(
                {
                    "interval": "1m",
                    "name": name,
                    "input_series": inputs(series),
                    "alert_rule_test": [
                        {
                            "eval_time": f"{case.minutes}m",
                            "alertname": name,
                            "exp_alerts": [alert] if expected else [],
                        }
                    ],
                }
            )
    return run_tests(promtool, rules, directory, tests)


def test_prometheus_accepts_every_rule(
    promtool: str, rules: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": list(rules.values())}]}))
    done = subprocess.run(
        [promtool, "check", "rules", str(path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_for_what_it_is_about_and_not_beside_it(
    promtool: str, rules: dict[str, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    said = run_cases(promtool, rules, tmp_path, [name])
    assert said == ""
