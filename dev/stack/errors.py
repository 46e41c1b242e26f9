"""What can go wrong while real components are fetched, started and asked.

A tree of its own: these errors belong to developers and CI, never reach a user of the daemon, and so have no place in
``state/errors.py`` (whose every class is a documented code). Each carries what to do next in its message.
"""

from __future__ import annotations


class StackError(Exception):
    """Root: something about the stack, told in one message that says what to do."""


class Missing(StackError):
    """The machine lacks something (Java, a port, disk space): nothing was downloaded or started."""


class FetchFailed(StackError):
    """A pinned jar could not be had, or is not the one that was pinned."""


class ComponentFailed(StackError):
    """A component died or did not answer in time; the message ends with the tail of its log."""


class SqlFailed(StackError):
    """Hive refused a statement, or failed while running it.

    ``code`` is Hive's own error number (10087 and so on; 0 when it has none), ``sql`` the statement.
    """

    def __init__(self, message: str, *, sql: str, code: int = 0) -> None:
        super().__init__(f"{message} (code {code}) in: {sql}")
        self.code = code
        self.sql = sql
