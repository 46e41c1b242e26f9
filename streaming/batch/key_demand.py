"""The stream's access to the key log: the keys that users request, and the rules for them.

The key log is a separate database, and its failure must not stop the stream. While it is unavailable, the
last answer stays in effect; before the first answer, only the configured rules apply. If storing a snapshot
fails, the next batch's replaces it. Each failure is logged, and ``failure`` holds it until the next success,
so that progress events can report it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from state.columns.changes import Change
from state.columns.requested_keys import RequestedKey
from state.columns.rules import FlatRules
from state.errors import TidelineError
from streaming.settings import FlatSettings


REFRESH_S: Final = 60.0
"""How long to use an answer of the key log."""
_LOG: Final = logging.getLogger("tideline.flat")


@dataclass(frozen=True, slots=True)
class RequestedKeys:
    """The requested keys, and the rules from the configuration and from users' later decisions."""

    keys: Sequence[RequestedKey]
    rules: FlatRules


class KeyDemand(Protocol):
    """Provides requested keys, and stores the table's snapshots. An unavailable key log raises no error."""

    @property
    def failure(self) -> str:
        """The reason of the key log's last failure; empty while it works."""

    def read(self) -> RequestedKeys:
        """Return the currently requested keys."""

    def save_snapshot(self, version: int, document: Mapping[str, Any], changes: Sequence[Change]) -> None:
        """Store the state of the table at ``version``, and the changes that led to this version."""


class ConfiguredKeys:
    """The demand without a key log: the requested keys are the whitelist of the rules."""

    failure: Final = ""

    def __init__(self, rules: FlatRules) -> None:
        self._rules = rules

    def read(self) -> RequestedKeys:
        """Return the configured rules."""
        return RequestedKeys((), self._rules)

    def save_snapshot(self, version: int, document: Mapping[str, Any], changes: Sequence[Change]) -> None:
        """Do nothing: there is no key log."""


class KeyLogDemand:
    """The demand that a key log records."""

    def __init__(self, settings: FlatSettings, clock: Callable[[], float] = time.monotonic) -> None:
        from streaming.keylog.log import KeyLog

        self._settings = settings
        self._clock = clock
        self._log = KeyLog.open(settings.keylog_url)
        self._read_at: float | None = None
        self._last = RequestedKeys((), settings.rules)
        self._read_failure = self._save_failure = ""

    @property
    def failure(self) -> str:
        """The reason why the last access to the key log failed; empty if it succeeded."""
        return self._read_failure or self._save_failure

    def read(self) -> RequestedKeys:
        """Return the requested keys, which it reads again once a minute."""
        if self._read_at is None or self._clock() - self._read_at >= REFRESH_S:
            self._read_at = self._clock()
            try:
                self._last = self._read()
                self._read_failure = ""
            except TidelineError as error:
                self._read_failure = str(error)
                _LOG.warning("key log of %s not read, using the last answer: %s", self._settings.name, error)
        return self._last

    def save_snapshot(self, version: int, document: Mapping[str, Any], changes: Sequence[Change]) -> None:
        """Store the snapshot, or leave the previous one if the key log is unavailable."""
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
            self._save_failure = ""
        except TidelineError as error:
            self._save_failure = str(error)
            _LOG.warning("snapshot of %s not stored in the key log: %s", self._settings.name, error)

    def _read(self) -> RequestedKeys:
        from streaming.keylog.key_rules import read_rule_set
        from streaming.keylog.log_reader import read_requested_keys

        rules = read_rule_set(self._log, self._settings.name).apply_to(self._settings.rules)
        return RequestedKeys(
            read_requested_keys(self._log, self._settings.raw_table, rules.requested_days), rules
        )


def open_key_demand(settings: FlatSettings) -> KeyDemand:
    """Return the source of requested keys for this table."""
    return KeyLogDemand(settings) if settings.keylog_url else ConfiguredKeys(settings.rules)
