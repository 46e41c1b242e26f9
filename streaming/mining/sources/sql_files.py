"""Reads SQL files: a directory of dashboards, reports and scheduled jobs kept in a repository.

A file counts once a day as long as it exists. If it counted only once, the keys of a report that has not been
edited for a month would seem unused. With ``is_standing=False`` a file counts when it changes, at the time of
the change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from state.errors import NotFound
from state.pieces import in_pieces
from streaming.mining.model import Form, QueryText
from streaming.mining.sources.directory import UNREADABLE_ERRORS, Directory, DirectoryPosition
from streaming.mining.sources.source import DeadInput, QueryBatch


FILES_PER_BATCH: Final = 500
SUFFIXES: Final = (".sql", ".hql", ".q", ".ddl", ".py")
DAY_S: Final = 86_400


@dataclass(slots=True)
class SqlFilesSource:
    """SQL files below a directory; mining ignores other files."""

    name: str
    directory: Directory
    user: str = ""
    """The user of the queries."""
    is_standing: bool = True
    file_bytes: int = 1024 * 1024
    clock: Callable[[], float] = time.time

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield the files that are new, changed, or not yet counted today."""
        files_read = DirectoryPosition.from_json(position, self.name)
        files = [each for each in self.directory.files() if each[0].lower().endswith(SUFFIXES)]
        files_read.keep_only({name for name, _, _ in files})
        for piece in in_pieces(files, FILES_PER_BATCH):
            queries: list[QueryText] = []
            dead: list[DeadInput] = []
            for name, location, size in piece:
                try:
                    changed_s = self.directory.modified_s(location)
                    entry, now_s = files_read.entry(name), int(self.clock())
                    is_due = self.is_standing and entry.number < now_s // DAY_S
                    if not is_due and (entry.size_bytes, entry.done_bytes) == (size, changed_s):
                        continue
                    entry.size_bytes, entry.done_bytes, entry.number = size, changed_s, now_s // DAY_S
                    text = self.directory.read(location, self.file_bytes).decode(errors="replace")
                    at_s = now_s if self.is_standing else changed_s
                    form = Form.PYTHON if name.lower().endswith(".py") else Form.SQL
                    queries.append(QueryText(text, self.user, at_s, self.name, name, form))
                except NotFound:  # removed in the meantime
                    continue
                except UNREADABLE_ERRORS as error:
                    dead.append(DeadInput.of(name, error))
            if queries or dead:
                yield QueryBatch(tuple(queries), files_read.to_json(), tuple(dead))
