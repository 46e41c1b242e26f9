from __future__ import annotations

import subprocess
import sys


def test_the_library_writes_nothing_to_the_terminal() -> None:
    program = "from daemon.kafka.broker import LIBRARY_LOG; LIBRARY_LOG.error('connection refused')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
