"""What was seen of the keys, kept between batches: the observations by hour as one JSON file beside the checkpoint.

It is written after a batch is done, and remembers the last batch in it, so that carrying on with a batch after a crash counts
nothing twice. Losing it loses no row: types stay as the table has them, and keys that wait for a column wait a little longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.columns.observations import HourBook, book_of_text, book_text
from state.columns.slots import HOUR_S


if TYPE_CHECKING:
    from streaming.table.storage import Storage


FINE_HOURS: Final = 48
"""Older hours are kept by the day."""


class BookFile:
    """The file of one stream's book."""

    def __init__(self, storage: Storage, path: str, retention_s: int) -> None:
        self._storage = storage
        self._path = path
        self._retention_s = retention_s

    def load(self) -> HourBook:
        """Return the book, an empty one at first. StateCorrupt where it cannot be read: moving it away begins a new one."""
        text = self._storage.read(self._path)
        if text is None:
            return HourBook()
        return book_of_text(text)

    def save(self, book: HourBook, now_hour: int) -> HourBook:
        """Write the book without what is older than partitions are kept, and return it."""
        kept = book.since(now_hour - self._retention_s).coarse(now_hour - FINE_HOURS * HOUR_S)
        self._storage.write(self._path, book_text(kept))
        return kept
