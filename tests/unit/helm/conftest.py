from __future__ import annotations

import os
import shutil
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


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None and os.environ.get("CI"):
        pytest.fail("promtool is not installed (Debian: prometheus)")
    if found is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return found
