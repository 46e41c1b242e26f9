"""A problem of the configuration: where it is, what is wrong, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """``place`` is ``file:line``, an environment variable, or a live component; ``key`` is the setting with dots."""

    place: str
    key: str
    value: str | None
    """The given value as text; None if it is unknown or must not be shown."""
    reason: str
    hint: str = ""
    warning: bool = False
    """Whether the daemon can run nevertheless."""

    def order(self) -> tuple[str, int, str]:
        """Sort by file and line, then by key."""
        name, _, line = self.place.rpartition(":")
        return (name, int(line), self.key) if line.isdigit() else (self.place, 0, self.key)

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value}"
        text = (
            f"{self.place}: {self.key}{shown}: {self.reason}" if self.key else f"{self.place}: {self.reason}"
        )
        return f"{text} ({self.hint})" if self.hint else text
