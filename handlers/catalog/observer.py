"""What the catalog tells the outside about itself, without knowing how it is measured."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Receives counts; implementations are thread-safe and never raise."""

    def event_applied(self, kind: str) -> None:
        """An event changed what is followed."""

    def event_skipped(self, reason: str) -> None:
        """An event changed nothing: ``out-of-scope``, ``quarantined``, ``loading``, ``in-snapshot`` or ``own``."""

    def table_loaded(self, reason: str) -> None:
        """A table was loaded from the source: ``snapshot``, ``changed``, ``unsure`` or ``asked``."""

    def table_quarantined(self, code: str) -> None:
        """A table is not followed any more."""

    def values_refused(self, reason: str, count: int) -> None:
        """Partition values were not taken: ``no-time`` or ``stray``."""

    def published(self, outcome: str) -> None:
        """A table's properties were ``written``, were the ``same``, or not: ``conflict``, ``failed``, ``missing``, ``not-there-yet``."""


class Silent:
    """An observer that does not look."""

    def event_applied(self, kind: str) -> None:
        """Ignore it."""

    def event_skipped(self, reason: str) -> None:
        """Ignore it."""

    def table_loaded(self, reason: str) -> None:
        """Ignore it."""

    def table_quarantined(self, code: str) -> None:
        """Ignore it."""

    def values_refused(self, reason: str, count: int) -> None:
        """Ignore it."""

    def published(self, outcome: str) -> None:
        """Ignore it."""
