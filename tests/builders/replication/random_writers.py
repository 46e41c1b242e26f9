"""Writers of a random history on a real SQL engine. They run ``random_statements`` or
``hive_3_statements``. A failed statement is part of the history and is not repeated."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from dev.stack.errors import SqlFailed, StackError
from dev.stack.hive.sql_session import Session
from tests.builders.replication.random_tables import Statement
from tests.builders.replication.small_workload import roll_back


log = logging.getLogger(__name__)

LOST: Final = "meta store"
"""In every message about a metastore that did not answer. A session that goes on after it keeps the locks of
the failed statement: it continues to send heartbeats for them, and all writers would wait for them without
end."""


class Statements(Protocol):
    """The source of a writer's statements."""

    def choose(self) -> tuple[str, Statement]:
        """Return a kind and a statement of it."""


@dataclass
class RandomWriter:
    """One session that writes until it is stopped; ``counts`` has the outcomes of each kind of statement."""

    statements: Statements
    connect: Callable[[], Session]
    stopping: threading.Event
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    attempts: int = 0

    def run(self) -> None:
        """Write, also while components are down."""
        while not self.stopping.is_set():
            try:
                with self.connect() as sql:
                    while not self.stopping.is_set():
                        self.write_one(sql)
            except StackError as error:
                log.info("a session is opened again after: %s", str(error)[:200])

    def write_one(self, sql: Session) -> None:
        """Run one random statement; raise SqlFailed if the session has lost its metastore."""
        kind, statement = self.statements.choose()
        outcome = "failed"
        try:
            for each in statement.before:
                sql.run(each)
            if statement.is_rolled_back:
                roll_back(sql, statement.sql)
            else:
                sql.run(statement.sql)
            statement.then()
            outcome = "done"
            log.info("%s: %s", kind, "; ".join((*statement.before, statement.sql)))
        except SqlFailed as error:
            log.info("%s failed: %s: %s", kind, statement.sql, str(error).splitlines()[0][:200])
            if LOST in str(error):
                raise
        finally:
            self.counts[kind, outcome] += 1
            self.attempts += 1
