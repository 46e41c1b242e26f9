"""Stops a stack when its owner ends, for any reason.

``atexit`` and signal handlers do not run after SIGKILL, and a test runner may replace them. The owner
therefore starts this small program and holds the other end of its standard input. When the owner ends, the
kernel closes the pipe, the read returns, and every process with a pid file below the given directory is
stopped.

The program (``python -m dev.stack.process.owner_watch DIRECTORY``) runs in its own session, so ctrl-c
does not reach it.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.stack.process.component import stop_by_pid_file


PROJECT = Path(__file__).resolve().parents[3]


class OwnerWatch:
    """The owner's end of the pipe. The stack runs as long as it is open."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dev.stack.process.owner_watch", str(directory.resolve())],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the watch, and leave the stack running."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Make the watch stop everything that still runs, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def stop_all(directory: Path) -> int:
    """Stop in parallel every process with a pid file below the directory; return how many were running."""
    files = sorted(directory.glob("*.pid")) + sorted(directory.glob("*/*.pid"))
    with ThreadPoolExecutor(max(len(files), 1)) as pool:
        return sum(pool.map(stop_by_pid_file, files))


if __name__ == "__main__":
    sys.stdin.buffer.read()
    stop_all(Path(sys.argv[1]))
