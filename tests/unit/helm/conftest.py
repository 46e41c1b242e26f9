from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.components.chart import CHART, Objects, render_chart


__all__ = ["CHART"]

Values = dict[str, Any]
Render = Callable[[Values], Objects]


@pytest.fixture(scope="session")
def render() -> Render:
    """Render the chart as release ``demo`` in namespace ``prod``; objects by kind, the test pod as
    ``Test``."""
    return render_chart
