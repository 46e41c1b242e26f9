"""One thing that is wrong with the configuration, told so that it can be found and put right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """``place`` is ``file:line``, a variable of the environment, or a live component; ``key`` the dotted setting."""

    place: str
    key: str
    value: str | None
    """What was given, as text; None where it is not known or must not be shown."""
    reason: str
    hint: str = ""
    warning: bool = False
    """Whether the daemon can run in spite of it."""

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
