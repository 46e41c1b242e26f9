"""Settings for all tests, and which tests share a process when pytest-xdist runs them in several.

Hypothesis has no deadline, because time on a busy machine says nothing about behaviour.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings


settings.register_profile("tideline", settings(), deadline=None)
settings.load_profile("tideline")

INTEGRATION: Final = Path(__file__).parent / "integration"
SHARED: Final = ("flat", "hbase", "keylog", "metastore", "mining")
"""Directories of integration tests whose tests share a component that takes long to start, such as a Spark session."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a module in one process, and those of the directories above."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item.path)))


def _group(module: Path) -> str:
    directory = module.parent
    if directory.parent == INTEGRATION and directory.name in SHARED:
        return directory.name
    return str(module.relative_to(INTEGRATION.parent))
