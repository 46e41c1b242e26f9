"""A failpoint kills the process if it is armed, and does nothing otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys


PROGRAM = """
from handlers.failpoints import failpoint
for step in range(3):
    failpoint("other")
    failpoint("step")
    print(step, flush=True)
"""


def run(setting: str | None) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "TIDELINE_FAILPOINT"}
    if setting is not None:
        environment["TIDELINE_FAILPOINT"] = setting
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_without_the_variable_nothing_happens() -> None:
    assert run(None) == (0, "0\n1\n2\n")


def test_an_armed_failpoint_kills_at_its_first_pass() -> None:
    assert run("step") == (-signal.SIGKILL, "")


def test_a_count_names_the_pass_that_kills() -> None:
    assert run("step:3") == (-signal.SIGKILL, "0\n1\n")


def test_an_armed_failpoint_of_another_name_has_no_effect() -> None:
    assert run("elsewhere") == (0, "0\n1\n2\n")


def test_a_malformed_count_stops_the_program_at_once() -> None:
    code, output = run("step:often")
    assert code == 1
    assert output == ""
