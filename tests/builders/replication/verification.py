"""A verifier over a replica that a test drives itself: its position is what the target's ``repl.last.id``
says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from dev.stack.hive.sql_session import Session
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.verification.findings import Difference, TableResult
from handlers.replication.verification.reading import Side
from handlers.replication.verification.verifier import Verifier
from tests.builders.replication.replica import Replica


@dataclass
class FollowedReplica:
    """The replica's progress; ``wait`` is called to let it follow."""

    replica: Replica
    wait: Callable[[int], bool] = lambda _: False
    reasons: Mapping[str, str] = field(default_factory=dict)

    def position(self) -> int:
        """Return the target's own position."""
        database = self.replica.target.get_database(self.replica.policy.target_db)
        return int((database.parameters or {})["repl.last.id"])

    def wait_for(self, event_id: int) -> bool:
        """Wait for an event."""
        return self.wait(event_id)

    def not_followed(self) -> Mapping[str, str]:
        """Return the tables that are not followed."""
        return self.reasons


@contextmanager
def verifier_of(
    replica: Replica, following: FollowedReplica | None = None, *, checksums: bool = False
) -> Iterator[Verifier]:
    """Provide a verifier with connections of its own."""
    files = open_file_systems()
    source, target = replica.source.clone(), replica.target.clone()
    with ThreadPoolExecutor(4) as executor, source, target:
        yield Verifier(
            Side(
                source,
                replica.policy.source_db,
                files,
                executor,
                replica.policy,
                at_source=True,
                checksums=checksums,
            ),
            Side(
                target,
                replica.policy.target_db,
                files,
                executor,
                replica.policy,
                at_source=False,
                checksums=checksums,
            ),
            following or FollowedReplica(replica),
        )


def verify(replica: Replica, *names: str, checksums: bool = False) -> dict[str, TableResult]:
    """Verify the named tables, or all tables and the database, and return the outcomes by name."""
    with verifier_of(replica, checksums=checksums) as verifier:
        if names:
            return {name: verifier.verify_table(name) for name in names}
        return verify_all(verifier)


def verify_all(verifier: Verifier) -> dict[str, TableResult]:
    """Verify the database, under the name "", and all tables."""
    return {"": verifier.verify_database()} | {
        name: verifier.verify_table(name) for name in verifier.table_names()
    }


def check_equal(replica: Replica, source_sql: Session, target_sql: Session) -> None:
    """Require that no table is quarantined, and that all have equal rows, as the engines read them, and no
    difference."""
    assert replica.quarantined() == {}
    names = replica.source.table_names(replica.policy.source_db)
    for name in names:
        ours, theirs = (
            sorted(sql.rows(f"select * from {db}.`{name}`"))
            for sql, db in ((source_sql, replica.policy.source_db), (target_sql, replica.policy.target_db))
        )
        assert theirs == ours, name
    found = find_differences(replica, *names)
    assert not found, found


def find_differences(replica: Replica, *names: str) -> dict[str, Sequence[Difference]]:
    """Return the differences of the named tables, without the tables that are equal."""
    results = verify(replica, *names)
    return {name: each.differences for name, each in results.items() if each.differences}
