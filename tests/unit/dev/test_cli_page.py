"""docs/CLI.md is the help of today's commands."""

from __future__ import annotations

import subprocess
import sys

from dev.cli_page import PAGE


def test_the_page_is_what_the_commands_say() -> None:
    # In its own process: click keeps the help option with which a command was first described.
    script = "from dev.cli_page import page_text; print(page_text(), end='')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == PAGE.read_text(), "run: make cli-page"
