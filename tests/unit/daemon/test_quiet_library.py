from __future__ import annotations

import subprocess
import sys


def test_the_librarys_own_words_do_not_reach_a_terminal_by_themselves() -> None:
    program = "from daemon.kafka.broker import LIBRARY_LOG; LIBRARY_LOG.error('connection refused')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
