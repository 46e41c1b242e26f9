"""Writes the Grafana dashboards of the chart (``make dashboards``).

A dashboard is a list of panels, each with the expressions that it draws. This module expands it to Grafana's
JSON, which repeats the same settings for each panel. The files are committed, so that installing the chart
needs no program.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


DIRECTORY: Final = Path(__file__).parents[1] / "helm" / "tideline" / "dashboards"
SCHEMA_VERSION: Final = 39
"""The schema version of Grafana 10 and 11; later versions migrate it."""
_DATA: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _PER_ROW = 8, 7, 3


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. A ``stat`` shows a number, a ``timeseries`` shows a line for each label set."""

    title: str
    queries: tuple[tuple[str, str], ...]
    """Expressions, each with the legend of its lines."""
    unit: str = "short"
    kind: str = "timeseries"
    red_from: float | None = None
    """Value from which the panel is red: the limit of an alert."""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. Its expressions may use its variables, each of which lists the values of a label."""

    title: str
    variables: tuple[tuple[str, str], ...]
    """Name of the label, and a metric that has it."""
    panels: tuple[Panel, ...]


def _rate(metric: str, by: str, match: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{match}[$__rate_interval]))"


def _quantile(share: float, metric: str, by: str, match: str = "") -> str:
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket{match}[$__rate_interval])))"


_POLICY: Final = '{policy=~"$policy"}'
_PROJECTION: Final = '{projection=~"$projection"}'
_FLAT: Final = '{flat=~"$flat"}'

BOARDS: Final = {
    "overview": Board(
        "Tideline: overview",
        (("source", "tideline_source_event_id"),),
        (
            Panel(
                "Needs an operator",
                (("sum by (kind) (tideline_operator_actions)", "{{kind}}"),),
                kind="stat",
                red_from=1,
            ),
            Panel(
                "Relay lag",
                (('tideline_relay_lag_seconds{source=~"$source"}', "{{source}}"),),
                "s",
                red_from=60,
            ),
            Panel(
                "Projection lag",
                (('topk(10, tideline_projection_lag_seconds{source=~"$source"})', "{{projection}}"),),
                "s",
                red_from=300,
            ),
            Panel(
                "Records published",
                ((_rate("tideline_relay_records_total", "source", '{source=~"$source"}'), "{{source}}"),),
                "cps",
            ),
            Panel(
                "Events applied",
                ((f"topk(10, {_rate('tideline_events_applied_total', 'projection')})", "{{projection}}"),),
                "cps",
            ),
            Panel(
                "Share of the retention left",
                (
                    (
                        'tideline_gap_left_seconds{source=~"$source"} / tideline_gap_retention_seconds',
                        "{{reader}}",
                    ),
                ),
                "percentunit",
            ),
            Panel(
                "Slow metastore calls (p99)",
                ((f"topk(10, {_quantile(0.99, 'tideline_metastore_call_seconds', 'call')})", "{{call}}"),),
                "s",
            ),
            Panel(
                "Errors",
                ((f"topk(10, {_rate('tideline_errors_total', 'loop, code')})", "{{loop}} {{code}}"),),
                "cps",
            ),
            Panel(
                "State volume left",
                (("tideline_state_volume_free_bytes / tideline_state_volume_size_bytes", "free"),),
                "percentunit",
            ),
        ),
    ),
    "policy": Board(
        "Tideline: policies",
        (("projection", "tideline_projection_event_id"), ("policy", "tideline_copied_files_total")),
        (
            Panel(
                "Lag",
                ((f"tideline_projection_lag_seconds{_PROJECTION}", "{{projection}}"),),
                "s",
                red_from=300,
            ),
            Panel("Events behind", ((f"tideline_projection_lag_events{_PROJECTION}", "{{projection}}"),)),
            Panel(
                "From commit to visible",
                (
                    (
                        _quantile(0.5, "tideline_commit_to_visible_seconds", "projection", _PROJECTION),
                        "{{projection}} p50",
                    ),
                    (
                        _quantile(0.99, "tideline_commit_to_visible_seconds", "projection", _PROJECTION),
                        "{{projection}} p99",
                    ),
                ),
                "s",
            ),
            Panel(
                "Quarantined tables",
                ((f"tideline_projection_quarantined_tables{_PROJECTION}", "{{projection}}"),),
                kind="stat",
                red_from=1,
            ),
            Panel(
                "Policies by state",
                ((f"sum by (state) (tideline_projection_state{_PROJECTION}) > 0", "{{state}}"),),
                kind="stat",
            ),
            Panel("Tables to load", ((f"tideline_loads{_POLICY}", "{{policy}} {{state}}"),)),
            Panel(
                "Bytes copied",
                ((_rate("tideline_copied_bytes_total", "policy", _POLICY), "{{policy}}"),),
                "Bps",
            ),
            Panel("Copies waiting", ((f"tideline_copies_waiting{_POLICY}", "{{policy}}"),)),
            Panel(
                "Copies failed",
                ((_rate("tideline_copies_failed_total", "policy", _POLICY), "{{policy}}"),),
                "cps",
            ),
            Panel(
                "Open transactions",
                ((f"tideline_replayed_transactions_open{_PROJECTION}", "{{projection}}"),),
            ),
            Panel("Compactions", ((f"tideline_target_compactions{_POLICY}", "{{policy}} {{state}}"),)),
            Panel(
                "Differing tables",
                ((f"tideline_verify_differing_tables{_POLICY}", "{{policy}}"),),
                kind="stat",
                red_from=1,
            ),
            Panel(
                "Age of the oldest verification",
                ((f"tideline_verify_oldest_seconds{_POLICY}", "{{policy}}"),),
                "s",
            ),
        ),
    ),
    "flat-tables": Board(
        "Tideline: flat tables",
        (("flat", "tideline_flat_state"),),
        (
            Panel("Lag", ((f"tideline_flat_lag_seconds{_FLAT}", "{{flat}}"),), "s", red_from=1800),
            Panel("Rows", ((_rate("tideline_flat_rows_total", "flat", _FLAT), "{{flat}}"),), "cps"),
            Panel("JSON", ((_rate("tideline_flat_bytes_total", "flat", _FLAT), "{{flat}}"),), "Bps"),
            Panel(
                "Batch (p90)",
                ((_quantile(0.9, "tideline_flat_batch_seconds", "flat", _FLAT), "{{flat}}"),),
                "s",
            ),
            Panel(
                "Upkeep (p90)",
                ((_quantile(0.9, "tideline_flat_upkeep_seconds", "flat", _FLAT), "{{flat}}"),),
                "s",
            ),
            Panel("Hours to seal", ((f"tideline_flat_seal_backlog_hours{_FLAT}", "{{flat}}"),), red_from=6),
            Panel("Columns", ((f"tideline_flat_columns{_FLAT}", "{{flat}} {{state}}"),)),
            Panel("Misfits", ((_rate("tideline_flat_misfits_total", "flat", _FLAT), "{{flat}}"),), "cps"),
            Panel(
                "Dead letters",
                ((_rate("tideline_flat_dead_letters_total", "flat, reason", _FLAT), "{{flat}} {{reason}}"),),
                "cps",
            ),
            Panel(
                "Queries mined",
                ((_rate("tideline_mining_queries_total", "source"), "{{source}}"),),
                "cps",
            ),
            Panel(
                "Time since the queries were read",
                (("time() - tideline_mining_read_timestamp_seconds", "{{source}}"),),
                "s",
                red_from=3600,
            ),
        ),
    ),
    "endpoint": Board(
        "Tideline: metastore endpoint",
        (),
        (
            Panel("Connections", (("tideline_endpoint_connections", "{{pod}}"),)),
            Panel(
                "Calls",
                (
                    ("sum(rate(tideline_endpoint_calls_answered_total[$__rate_interval]))", "from the index"),
                    ("sum(rate(tideline_endpoint_calls_forwarded_total[$__rate_interval]))", "forwarded"),
                ),
                "cps",
            ),
            Panel(
                "Not answered from the index",
                ((_rate("tideline_endpoint_calls_not_answered_total", "reason"), "{{reason}}"),),
                "cps",
            ),
            Panel(
                "Time of a call (p99)",
                ((_quantile(0.99, "tideline_endpoint_call_seconds", "answer"), "{{answer}}"),),
                "s",
            ),
            Panel(
                "Answers compared",
                ((_rate("tideline_endpoint_answers_compared_total", "outcome"), "{{outcome}}"),),
                "cps",
            ),
            Panel(
                "Differing tables",
                (("tideline_endpoint_differing_tables", "tables"),),
                kind="stat",
                red_from=1,
            ),
            Panel(
                "Refused and replaced connections",
                (
                    ("sum(rate(tideline_endpoint_connections_refused_total[$__rate_interval]))", "refused"),
                    ("sum(rate(tideline_endpoint_connections_replaced_total[$__rate_interval]))", "replaced"),
                ),
                "cps",
            ),
            Panel("Errors", ((_rate("tideline_endpoint_errors_total", "code"), "{{code}}"),), "cps"),
        ),
    ),
}


def render(name: str) -> str:
    """Return the JSON of a dashboard."""
    board = BOARDS[name]
    document = {
        "uid": f"tideline-{name}",
        "title": board.title,
        "tags": ["tideline"],
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_data_source(), *(_variable(*each) for each in board.variables)]},
        "panels": [_panel(number, panel) for number, panel in enumerate(board.panels)],
    }
    return json.dumps(document, indent=1) + "\n"


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"}


def _variable(label: str, metric: str) -> dict[str, Any]:
    query = f"label_values({metric}, {label})"
    return {
        "name": label,
        "type": "query",
        "datasource": _DATA,
        "query": {"query": query, "refId": label},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _PER_ROW)
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    defaults = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries" and panel.red_from is not None:
        defaults["custom"] = {"thresholdsStyle": {"mode": "line"}}
    return {
        "id": number + 1,
        "title": panel.title,
        "type": panel.kind,
        "datasource": _DATA,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def main() -> None:
    """Write every dashboard."""
    DIRECTORY.mkdir(exist_ok=True)
    for name in BOARDS:
        (DIRECTORY / f"{name}.json").write_text(render(name))


if __name__ == "__main__":
    main()
