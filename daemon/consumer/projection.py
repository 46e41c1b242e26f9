"""What the consumer drives: one projection of the topic, with its own position, state file and failure domain.

The consumer decodes, drops duplicates and proves contiguity; a projection only ever sees events in order, each once per
process. It owns its store, and commits its position in the same store transaction as the effects of the events, so after a
crash it is handed again what it had not yet recorded: ``apply`` is idempotent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.events import Event
    from state.positions import Position


@dataclass(frozen=True, slots=True)
class ProjectionStatus:
    """What a projection tells about itself; read by other threads, so always a whole new value."""

    name: str
    source: str
    state: str
    """``starting``, ``following``, ``backing-off``, ``stopped`` or ``failed``."""
    position: Position | None
    applied_time_s: int | None
    """Event time of the last applied event, for the lag in seconds."""
    quarantined: Sequence[str] = ()
    problem: str | None = None


class Projection(Protocol):
    """One independent reader of a source's events."""

    @property
    def name(self) -> str:
        """A stable name, unique in the process: label of metrics, name of the state file."""

    @property
    def source(self) -> str:
        """The source whose topic it reads."""

    def open(self) -> Position:
        """Open the state and return the position to continue from.

        Called at every (re)start, so it also undoes what a failed ``apply`` left in memory. Raises ConfigError where the
        projection was never started (no position yet) and cannot choose one itself.
        """

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply ``events`` in order and return the new position, which is durable by then.

        May apply a leading part only and raise: what was recorded counts, the rest is handed in again after a restart.
        """

    def settle(self) -> None:
        """Do what can wait until there is nothing to apply; called again and again while that is so, hence cheap."""

    def quarantined(self) -> Sequence[str]:
        """Return the tables that are not followed any more, as ``db.table``."""

    def close(self) -> None:
        """Release the store and connections; callable in any state."""
