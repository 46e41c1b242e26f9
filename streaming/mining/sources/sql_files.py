"""A directory of SQL files: dashboards, reports, scheduled jobs kept in a repository.

A file that lies there is asked for as long as it lies there, so it counts once a day, not once in its life: otherwise the keys of a
report that has not been edited for a month would seem out of use. ``is_standing=False`` counts a file when it changes, at the time
of its change.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.errors import NotFound
from streaming.mining.model import QueryText
from streaming.mining.sources.directory import UNREADABLE_ERRORS, Directory, DirectoryPosition
from streaming.mining.sources.source import DeadInput, QueryBatch


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


FILES_PER_BATCH: Final = 500
SUFFIXES: Final = (".sql", ".hql", ".q", ".ddl")
DAY_S: Final = 86_400


@dataclass(slots=True)
class SqlFilesSource:
    """SQL files below a directory; everything else there is passed over."""

    name: str
    directory: Directory
    user: str = ""
    """Who is taken to ask."""
    is_standing: bool = True
    file_bytes: int = 1024 * 1024
    clock: Callable[[], float] = time.time

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield the files that are new, changed or due again today."""
        files_read = DirectoryPosition.of(position, self.name)
        files = [each for each in self.directory.files() if each[0].lower().endswith(SUFFIXES)]
        files_read.forget_all_but({name for name, _, _ in files})
        for start in range(0, len(files), FILES_PER_BATCH):
            queries: list[QueryText] = []
            dead: list[DeadInput] = []
            for name, location, size in files[start : start + FILES_PER_BATCH]:
                try:
                    changed_s = self.directory.modified_s(location)
                    entry, now_s = files_read.entry(name), int(self.clock())
                    is_due = self.is_standing and entry.number < now_s // DAY_S
                    if not is_due and (entry.size_bytes, entry.done_bytes) == (size, changed_s):
                        continue
                    entry.size_bytes, entry.done_bytes, entry.number = size, changed_s, now_s // DAY_S
                    text = self.directory.read(location, self.file_bytes).decode(errors="replace")
                    at_s = now_s if self.is_standing else changed_s
                    queries.append(QueryText(text, self.user, at_s, self.name, name))
                except NotFound:  # removed meanwhile
                    continue
                except UNREADABLE_ERRORS as error:
                    dead.append(DeadInput.of(name, error))
            if queries or dead:
                yield QueryBatch(tuple(queries), files_read.position(), tuple(dead))
