"""Settings for all tests.

Hypothesis has no deadline, because time on a busy machine says nothing about behaviour. The configuration of
the logs is that of the process, so each test leaves it as it was: a command that runs in a test's process
configures logs for an output that is closed with the test, and a later test would fail when it logs.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings


if TYPE_CHECKING:
    from collections.abc import Iterator


settings.register_profile("tideline", settings(), deadline=None)
settings.load_profile("tideline")


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
