"""The dashboards of the chart are those that the script writes,
and draw metrics that exist by labels that they have."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dev.dashboards import BOARDS, DIRECTORY, render
from tests.builders.components.chart import render_chart


METRICS: Final = Path(__file__).parents[3] / "docs" / "METRICS.md"
ROW: Final = re.compile(r"^\| `(tideline_\w+)` \| \w+ \| (.*?) \|", re.MULTILINE)
SCRAPED: Final = {"le", "pod"}
"""Labels that come from the type of a metric or from Prometheus."""
LABELS: Final = {
    name: set(re.findall(r"`(\w+)`", labels)) | SCRAPED for name, labels in ROW.findall(METRICS.read_text())
}


def queries() -> Iterator[tuple[str, str]]:
    """Yield each expression, its variables replaced, with its legend."""
    for board in BOARDS.values():
        for panel in board.panels:
            for expression, legend in panel.queries:
                yield re.sub(r"\$(?!__)\w+", "a", expression.replace("$__rate_interval", "5m")), legend


def metrics_of(expression: str) -> list[str]:
    return [re.sub(r"_bucket$", "", name) for name in re.findall(r"tideline_\w+", expression)]


@pytest.mark.parametrize("name", BOARDS)
def test_the_file_is_written_by_the_script(name: str) -> None:
    assert (DIRECTORY / f"{name}.json").read_text() == render(name), "run 'make dashboards'"


def test_every_panel_draws_metrics_that_exist_by_labels_that_they_have() -> None:
    for expression, legend in queries():
        names = metrics_of(expression)
        assert names, expression
        used = set(re.findall(r"\{\{(\w+)\}\}", legend)) | set(re.findall(r"(\w+)=~", expression))
        for by in re.findall(r" by \(([^)]*)\)", expression):
            used |= set(by.replace(" ", "").split(","))
        assert used <= LABELS[names[0]], (expression, legend)


def test_every_variable_lists_a_label_of_its_metric() -> None:
    for board in BOARDS.values():
        for label, metric in board.variables:
            assert label in LABELS[metric]
            assert any(f"${label}" in query for panel in board.panels for query, _ in panel.queries)


def test_prometheus_parses_every_expression(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"r{index}", "expr": each} for index, (each, _) in enumerate(queries())]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", str(path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_hands_the_dashboards_to_grafana_only_on_request() -> None:
    name = "ConfigMap/demo-tideline-dashboards"
    assert name not in render_chart({})
    found: dict[str, Any] = render_chart({"dashboards": {"enabled": True}})[name]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    titles = {json.loads(text)["title"] for text in found["data"].values()}
    assert titles == {board.title for board in BOARDS.values()}
