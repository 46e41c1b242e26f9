"""Errors of fetching, starting and using real components.

They form their own tree, because only developers and CI see them, and every class of ``state/errors`` is a
documented error code for users. Each message names the next step.
"""

from __future__ import annotations


class StackError(Exception):
    """Root of the errors of the stack; the message names the next step."""


class Missing(StackError):
    """The machine lacks a requirement (Java, a port, disk space); nothing was downloaded or started."""


class FetchFailed(StackError):
    """A pinned artifact cannot be downloaded, or is not the one that was pinned."""


class ComponentFailed(StackError):
    """A component died or did not become ready in time; the message ends with the end of its log."""


class SqlFailed(StackError):
    """Hive refused a statement or failed while running it.

    ``code`` is Hive's error number, such as 10087, or 0 if there is none; ``sql`` is the statement.
    """

    def __init__(self, message: str, *, sql: str, code: int = 0) -> None:
        super().__init__(f"{message} (code {code}) in: {sql}")
        self.code = code
        self.sql = sql
