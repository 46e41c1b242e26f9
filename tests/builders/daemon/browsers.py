"""The system's Chromium, driven by tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright


FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = "chromium is not installed (Debian: chromium)"


@contextmanager
def launched_browser() -> Iterator[Browser]:
    """Start a browser with a new profile. Without Chromium, a test is skipped; in CI it fails."""
    program = shutil.which("chromium")
    if program is None and os.environ.get("CI"):
        pytest.fail(MISSING)
    if program is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()
