"""docs/CLI.md is the help of today's commands."""

from __future__ import annotations

import subprocess
import sys

from daemon.service.capabilities import all_commands
from daemon.service.command_line import tideline
from dev.cli_page import LOCAL, PAGE, commands_with_url


def test_the_page_is_what_the_commands_say() -> None:
    # In its own process: click keeps the help option with which a command was first described.
    script = "from dev.cli_page import page_text; print(page_text(), end='')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == PAGE.read_text(), "run: make cli-page"


def test_the_page_says_of_each_command_without_an_address_why() -> None:
    internal = {name for name, command in all_commands().items() if command.is_internal}
    local = {name for name, has_url in commands_with_url(tideline) if not has_url and name not in internal}
    assert local == set(LOCAL)
