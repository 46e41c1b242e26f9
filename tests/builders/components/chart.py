"""The objects of the Helm chart, rendered without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import helm_python
import yaml


CHART: Final = Path(__file__).parents[3] / "helm" / "tideline"
RELEASE: Final = "demo"
NAMESPACE: Final = "prod"
Objects = dict[str, dict[str, Any]]


def render_chart(values: dict[str, Any]) -> Objects:
    """Render the chart as release ``demo`` in namespace ``prod``; objects by kind, the test pod as
    ``Test``."""
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    objects: Objects = {}
    for name, text in files.items():
        found = [] if name.endswith("NOTES.txt") else [each for each in yaml.safe_load_all(text) if each]
        for each in found:
            kind = "Test" if "/tests/" in name else each["kind"]
            assert kind not in objects, kind
            objects[kind] = each
    return objects
