"""A problem of the configuration: where it is, what is wrong, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from state.errors import TidelineError


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


def problem_of_error(place: str, key: str, error: TidelineError, value: str | None = None) -> Problem:
    """Return the problem that a live check failed with ``error``: its message, what the server or the network said, and its hint.

    ``value`` defaults to the address in the error.
    """
    given = value or error.context.get("address") or error.context.get("uri")
    reason, addresses = error.message, error.context.get("addresses")
    if isinstance(addresses, dict):
        reason += ": " + "; ".join(f"{address}: {why}" for address, why in addresses.items())
    elif detail := error.context.get("reason"):
        reason += f": {detail}"
    hint = error.hint.rstrip(".")
    return Problem(place, key, None if given is None else str(given), reason, f"{hint[:1].lower()}{hint[1:]}")
