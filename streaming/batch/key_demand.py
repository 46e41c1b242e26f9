"""Who asks for which keys, and what people decided: the stream's view of the key log.

The key log is a database beside everything else, so its absence must not stop the stream: while it does not answer, the last
answer counts, and before the first one only the configured rules do. Snapshots that cannot be told are told with the next batch.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from state.columns.changes import Change
    from state.columns.requested_keys import RequestedKey
    from state.columns.rules import FlatRules
    from streaming.settings import FlatSettings


REFRESH_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RequestedKeys:
    """What is asked, under the rules as configured and as decided by people since."""

    asked: Sequence[RequestedKey]
    rules: FlatRules


class KeyDemand(Protocol):
    """Where questions come from and the table's state is told."""

    def read(self) -> RequestedKeys:
        """Return what is asked at present; never raises for a database that is away."""

    def save_snapshot(self, version: int, document: Mapping[str, Any], changes: Sequence[Change]) -> None:
        """Tell people how the table stands, and what led to its version."""


class ConfiguredKeys:
    """No key log: the rules' whitelist alone."""

    def __init__(self, rules: FlatRules) -> None:
        self._rules = rules

    def read(self) -> RequestedKeys:
        """Return the configured rules."""
        return RequestedKeys((), self._rules)

    def save_snapshot(self, version: int, document: Mapping[str, Any], changes: Sequence[Change]) -> None:
        """Nobody listens."""


class KeyLogDemand:
    """The key log in a database."""

    def __init__(self, settings: FlatSettings, clock: Callable[[], float] = time.monotonic) -> None:
        from streaming.keylog.log import KeyLog

        self._settings = settings
        self._clock = clock
        self._log = KeyLog.open(settings.keylog_url)
        self._read_at: float | None = None
        self._last = RequestedKeys((), settings.rules)

    def read(self) -> RequestedKeys:
        """Return what is asked, read anew once a minute."""
        if self._read_at is None or self._clock() - self._read_at >= REFRESH_S:
            self._read_at = self._clock()
            try:
                self._last = self._read()
            except TidelineError:
                return self._last  # the stream goes on with what it knew
        return self._last

    def save_snapshot(self, version: int, document: Mapping[str, Any], changes: Sequence[Change]) -> None:
        """Store the snapshot."""
        from streaming.keylog.table_snapshots import ColumnChange, TableSnapshot, save_snapshot

        now_s = int(time.time())
        table = TableSnapshot(self._settings.name, version, now_s, document)
        history = [
            ColumnChange(
                version, n, now_s, change.kind.value, change.index, str(change.key or ""), change.reason
            )
            for n, change in enumerate(changes)
        ]
        try:
            save_snapshot(self._log, table, history)
        except TidelineError:
            return  # a page that is a batch old is no reason to stop

    def _read(self) -> RequestedKeys:
        from streaming.keylog.key_rules import read_rule_set
        from streaming.keylog.log_reader import read_requested_keys

        rules = read_rule_set(self._log, self._settings.name).apply_to(self._settings.rules)
        return RequestedKeys(
            read_requested_keys(self._log, self._settings.raw_table, rules.asked_days), rules
        )


def open_key_demand(settings: FlatSettings) -> KeyDemand:
    """Return where this table's questions come from."""
    return KeyLogDemand(settings) if settings.keylog_url else ConfiguredKeys(settings.rules)
