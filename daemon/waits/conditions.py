"""Conditions of waits: the port between the capabilities and the waits.

A capability provides kinds of conditions (``WaitKind``). A condition names the projections whose progress can
make it true, so it is checked only after one of them has moved. All waits for equal conditions share one
check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Generic, Protocol, TypeVar

from annotated_types import Interval

from daemon.http.parameters import Parameters


if TYPE_CHECKING:
    from collections.abc import Callable, Collection


TIMEOUT_MAX_S: Final = 240.0
"""Below the limit of one answer (``http.limits.Limits.answer_s``), and that of many proxies. A client that
waits longer repeats its request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Result of a check."""

    is_true: bool
    source: str | None = None
    """The source with the events, if known."""
    event_id: int | None = None
    """The event that the replica or the catalog reflects."""
    wanted_event_id: int | None = None
    """The event that it must reflect, if the condition names one."""
    reason: str = ""
    """The missing condition, in words."""
    left_out: tuple[str, ...] = ()
    """Tables that do not reflect the event, because they are in quarantine or loading."""


class Condition(Protocol):
    """One condition; hashable, and equal to others with the same meaning."""

    @property
    def projections(self) -> Collection[str]:
        """The names of the projections whose progress can make it true."""

    def check(self) -> Reached:
        """Return whether it is true now, in the thread of the waits; must not call another system.

        Raises NotFound for unknown names, BadInput.
        """


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A condition that another system must complete."""

    resolve: Callable[[], Condition]
    """May wait for that system; raises Transient."""


@dataclass(frozen=True, kw_only=True)
class WaitParameters(Parameters):
    """The parameters of every kind of conditions."""

    timeout_s: Annotated[float, Interval(ge=0, le=TIMEOUT_MAX_S)] = 60.0
    """Maximum time to wait in seconds; 0 checks once."""


W = TypeVar("W", bound=WaitParameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitKind(Generic[W]):
    """One kind of conditions. The parameter of its name selects it."""

    name: str
    parameters: type[W]
    build: Callable[[W], Condition | Unresolved]
    """Returns the condition of a request's parameters; raises BadInput, NotFound."""


def ignore_move(projection: str) -> None:
    """Do nothing, if no client can wait."""
    del projection


class Moves:
    """Reports the progress of one projection to the waits, if something has changed."""

    def __init__(self, moved: Callable[[str], None], projection: str) -> None:
        self._moved = moved
        self._projection = projection
        self._seen: tuple[object, ...] = ()

    def report(self, *seen: object) -> None:
        """Wake those who wait for the projection if ``seen`` has changed."""
        if seen != self._seen:
            self._seen = seen
            self._moved(self._projection)
