"""The section ``endpoints`` of the status: the endpoints that the daemon runs, from their reports."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from daemon.status.metrics import state_family
from daemon.status.model import OperatorAction, StatusSection
from daemon.terminal.layout import number_text, table_text


if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric


@dataclass(frozen=True, slots=True)
class DifferingTable:
    """A table whose calls the endpoint forwards because an answer differed from the metastore's."""

    table: str
    call: str
    event_id: int
    found_s: int
    """Unix time."""


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """One endpoint. Its counts start again at 0 when its process restarts."""

    name: str
    """Name of its source."""
    state: str
    """State of the loop that runs it."""
    freshness: str = "exact"
    listen: str | None = None
    pid: int | None = None
    connections: int = 0
    answered: int = 0
    """Calls answered from the index."""
    repeated: int = 0
    """The answered calls for which the endpoint sent the bytes of an earlier answer."""
    not_answered: int = 0
    """Partition calls forwarded."""
    forwarded: int = 0
    """All forwarded calls."""
    reasons: tuple[tuple[str, int], ...] = ()
    """Reasons of forwarded partition calls, most frequent first."""
    compared: int = 0
    """Answers compared with the metastore's."""
    differing: tuple[DifferingTable, ...] = ()
    problem: str | None = None
    code: str | None = None
    restarts: int = 0


_HEADER: Final = (
    "ENDPOINT",
    "STATE",
    "LISTENS AT",
    "CLIENTS",
    "FROM INDEX",
    "REPEATED",
    "NOT",
    "FORWARDED",
    "MOSTLY BECAUSE",
)


class EndpointSection(StatusSection[tuple[EndpointStatus, ...]]):
    """The section ``endpoints``."""

    key = "endpoints"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[EndpointStatus, ...])

    def text(self, value: tuple[EndpointStatus, ...], now_s: float) -> str:  # noqa: ARG002 - no durations
        """Return a row for each endpoint."""
        return table_text(_HEADER, map(_row, value))

    def problems(self, value: tuple[EndpointStatus, ...]) -> list[str]:
        """Return why endpoints do not run."""
        return [f"serve:{one.name}: {one.problem}" for one in value if one.problem]

    def unready_reasons(self, value: tuple[EndpointStatus, ...]) -> list[str]:
        """Return the endpoints that do not serve."""
        return [f"serve:{one.name} is {one.state}" for one in value if one.state != "following"]

    def actions(self, value: tuple[EndpointStatus, ...]) -> Iterable[OperatorAction]:
        """Yield the tables whose calls the endpoint forwards until the operator acts."""
        for one in value:
            for table in one.differing:
                yield OperatorAction(
                    "differing-answers",
                    f"serve:{one.name} {table.table}",
                    f"{table.call} differed from the metastore's answer at event {table.event_id}; its "
                    "calls are forwarded",
                    "docs/runbooks/endpoint.md#an-answer-from-the-index-differs",
                    f"tideline partitions load {shlex.quote(table.table)} --source {one.name}",
                    table.found_s,
                )

    def families(self, value: tuple[EndpointStatus, ...]) -> Iterable[Metric]:
        """Yield the state of each endpoint's loop."""
        yield state_family(
            "tideline_endpoint_state",
            "1 for the current state of the endpoint's loop, otherwise 0.",
            "source",
            value,
        )


ENDPOINTS: Final = EndpointSection()


def _row(one: EndpointStatus) -> tuple[str, ...]:
    return (
        one.name,
        one.state,
        one.listen or "-",
        number_text(one.connections),
        number_text(one.answered),
        number_text(one.repeated),
        number_text(one.not_answered),
        number_text(one.forwarded),
        one.reasons[0][0] if one.reasons else "-",
    )
