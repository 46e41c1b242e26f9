"""Ends a stack when its owner is gone, however that happened.

``atexit`` and signal handlers do not run after kill -9 and are easily replaced by a test runner. So the owner starts this
little program and holds the other end of its standard input: when the owner ends, in whatever way, the kernel closes the
pipe, reading returns, and everything with a pid file below the given directory is stopped.

It runs by itself (``python -m dev.stack.process.owner_watch DIRECTORY``) in a session of its own, so ctrl-c does not reach it.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.stack.process.component import stop_by_pid_file


PROJECT = Path(__file__).resolve().parents[3]


class OwnerWatch:
    """The owner's side: while it is held open, the stack lives."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dev.stack.process.owner_watch", str(directory.resolve())],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End it and leave the stack running."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Let it end everything that still runs, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def stop_all(directory: Path) -> int:
    """Stop, side by side, whatever has a pid file below the directory; returns how many processes ran."""
    files = sorted(directory.glob("*.pid")) + sorted(directory.glob("*/*.pid"))
    with ThreadPoolExecutor(max(len(files), 1)) as pool:
        return sum(pool.map(stop_by_pid_file, files))


if __name__ == "__main__":
    sys.stdin.buffer.read()
    stop_all(Path(sys.argv[1]))
