"""Progress of a command: one line of a terminal that is replaced again and again."""

from __future__ import annotations

import sys


class StatusLine:
    """One line of progress on a terminal, and nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[2K{text[:200]}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        self.show("")
