from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml


CHART = Path(__file__).parents[3] / "helm" / "tideline"

Values = dict[str, Any]
Objects = dict[str, dict[str, Any]]
Render = Callable[[Values], Objects]


@pytest.fixture(scope="session")
def render() -> Render:
    """Render the chart as release ``demo`` in namespace ``prod``; objects by kind, the test pod as ``Test``."""

    def rendered(values: Values) -> Objects:
        with helm_python.Chart.load(str(CHART)) as chart:
            files = chart.render(values, name="demo", namespace="prod")
        objects: Objects = {}
        for name, text in files.items():
            found = [] if name.endswith("NOTES.txt") else [each for each in yaml.safe_load_all(text) if each]
            for each in found:
                kind = "Test" if "/tests/" in name else each["kind"]
                assert kind not in objects, kind
                objects[kind] = each
        return objects

    return rendered
