"""The section ``daemons`` of the status: which daemon follows which policies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from daemon.status.metrics import families
from daemon.status.model import StatusSection
from daemon.terminal.layout import table_text


NAMED_MAX: Final = 5
"""Policies of one daemon that the text names."""
_GAUGES: Final = (
    (
        "tideline_daemons",
        "Daemons that share the policies, according to this daemon's configuration.",
        "count",
    ),
    ("tideline_policies_known", "Policies that this daemon knows, its own and those of others.", "known"),
    ("tideline_policies_owned", "Policies that this daemon follows.", "owned"),
)


@dataclass(frozen=True, slots=True)
class PoliciesOfDaemon:
    """A daemon of several that share the policies, with its policies."""

    ordinal: int
    is_self: bool
    policies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Counts:
    count: int
    known: int
    owned: int


class DaemonsSection(StatusSection[tuple[PoliciesOfDaemon, ...]]):
    """The section ``daemons``: one row for each daemon."""

    key = "daemons"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[PoliciesOfDaemon, ...])

    # ARG002: values are those of the status' time
    def text(self, value: tuple[PoliciesOfDaemon, ...], now_s: float) -> str:  # noqa: ARG002
        """Return a row for each daemon if several share the policies."""
        if len(value) < 2:  # noqa: PLR2004 - one daemon follows everything
            return ""
        rows = [
            (f"{each.ordinal} (this one)" if each.is_self else str(each.ordinal), *_describe(each.policies))
            for each in value
        ]
        return table_text(("DAEMON", "POLICIES", "NAMES"), rows)

    def families(self, value: tuple[PoliciesOfDaemon, ...]) -> Iterable[Metric]:
        """Yield how many policies this daemon knows and follows."""
        known = sum(len(each.policies) for each in value)
        owned = sum(len(each.policies) for each in value if each.is_self)
        rows = [_Counts(len(value), known, owned)] if value else []
        yield from families(GaugeMetricFamily, _GAUGES, {}, rows)


def _describe(policies: tuple[str, ...]) -> tuple[str, str]:
    more = len(policies) - NAMED_MAX
    return str(len(policies)), ", ".join(policies[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


DAEMONS: Final = DaemonsSection()
