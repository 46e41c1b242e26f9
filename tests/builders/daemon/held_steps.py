"""Steps of a running daemon at which one of its threads waits while the test kills something
(``handlers.failpoints``)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from handlers.failpoints import ARMED, HELD, HOLD_VARIABLE


class HeldSteps:
    """The files with which a test holds threads of a daemon."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory

    @property
    def environment(self) -> dict[str, str]:
        """The variable that the daemon needs."""
        return {HOLD_VARIABLE: str(self._directory)}

    def arm(self, steps: Iterable[str]) -> None:
        """Hold the first thread that reaches each of the steps."""
        for step in steps:
            (self._directory / f"{step}{ARMED}").touch()

    def missing(self) -> list[str]:
        """Return the armed steps that no thread has reached yet."""
        return self._names(ARMED)

    def held(self) -> list[str]:
        """Return the steps at which a thread waits now."""
        return self._names(HELD)

    def release(self, step: str) -> None:
        """Let the thread at ``step`` continue."""
        (self._directory / f"{step}{HELD}").unlink()

    def _names(self, suffix: str) -> list[str]:
        return sorted(path.name.removesuffix(suffix) for path in self._directory.glob(f"*{suffix}"))
