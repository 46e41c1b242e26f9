"""Settings for all tests.

Hypothesis has no deadline, because time on a busy machine says nothing about behaviour. The configuration of
the logs is that of the process, so each test leaves it as it was: a command that runs in a test's process
configures logs for an output that is closed with the test, and a later test would fail when it logs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]


settings.register_profile("tideline", settings(), deadline=None)
settings.load_profile("tideline")

SHARING: Final = tuple(f"tests/integration/{name}/" for name in ("flat", "hbase", "keylog"))
"""Folders whose tests share Spark, HBase or databases."""


class _ByServers(LoadFileScheduling):  # type: ignore[misc]  # has no types
    """Lets one process run all tests of a file, or of a folder that shares servers: each of these then starts
    once, and stays warm."""

    def _split_scope(self, nodeid: str) -> str:
        folder: str = next(filter(nodeid.startswith, SHARING), "")
        return folder or str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Replace the scheduler of ``--dist loadfile``."""
    return _ByServers(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    configuration, handlers, level = structlog.get_config(), root.handlers[:], root.level
    yield
    structlog.configure(**configuration)
    root.handlers[:] = handlers
    root.setLevel(level)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end how many tests were skipped for want of what."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    for reason, tests in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped: {tests} tests: {reason}", yellow=True)
