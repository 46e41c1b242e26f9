"""The target of the fuzzer: a few seconds of it here, ten minutes with ``make fuzz``."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(
    find_spec("atheris") is None, reason="atheris has wheels for Linux on x86-64 up to Python 3.12"
)
def test_no_input_of_a_short_fuzzing_run_breaks_the_parser_the_plans_or_the_decoder(tmp_path: Path) -> None:
    options = ["-runs=20000", "-timeout=10", "-max_len=1000", f"-artifact_prefix={tmp_path}/"]
    command = [sys.executable, "-m", "tests.fuzz.partition_filters", str(tmp_path), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Done 20000 runs" in done.stderr
