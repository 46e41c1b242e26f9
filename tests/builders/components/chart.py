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


def render_chart(values: dict[str, Any], release: str = RELEASE) -> Objects:
    """Render the chart as a release in namespace ``prod``; objects by kind, the test pod as ``Test``.

    Of several objects of a kind, those beside the daemon's own are named ``KIND/NAME``.
    """
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name=release, namespace=NAMESPACE)
    found = [
        ("Test" if "/tests/" in name else each["kind"], each)
        for name, text in files.items()
        if not name.endswith("NOTES.txt")
        for each in yaml.safe_load_all(text)
        if each
    ]
    objects: Objects = {}
    for kind, each in sorted(found, key=lambda named: len(named[1]["metadata"]["name"])):
        name = f"{kind}/{each['metadata']['name']}" if kind in objects else kind
        assert name not in objects, name
        objects[name] = each
    return objects
