"""What replay tells the outside about itself, without knowing how it is measured or shown."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Receives counts and durations; implementations are thread-safe and never raise."""

    def event_applied(self, kind: str, seconds: float) -> None:
        """An event in scope took effect on the target in ``seconds``."""

    def event_skipped(self, kind: str, reason: str) -> None:
        """An event had no effect: ``out-of-scope``, ``merged``, ``quarantined``, ``on-target`` or ``nothing-to-do``."""

    def table_quarantined(self, table: str, code: str) -> None:
        """A table is not followed any more."""

    def transaction_without_files(self, txn_id: int) -> None:
        """A transaction that had write ids committed without a single write event: a silent writer, or dml.events is off."""


class Silent:
    """An observer that does not look."""

    def event_applied(self, kind: str, seconds: float) -> None:
        """Ignore it."""

    def event_skipped(self, kind: str, reason: str) -> None:
        """Ignore it."""

    def table_quarantined(self, table: str, code: str) -> None:
        """Ignore it."""

    def transaction_without_files(self, txn_id: int) -> None:
        """Ignore it."""
