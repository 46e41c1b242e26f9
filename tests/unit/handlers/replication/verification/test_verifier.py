"""Both sides move while they are compared: only what two comparisons find, and no event explains, is a
difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from dev.fixtures.notifications import notification
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.calls import V4_0, V4_2, HiveVersion
from handlers.replication.policy.policy import Policy
from handlers.replication.verification.changes import RecentChanges
from handlers.replication.verification.findings import Outcome
from handlers.replication.verification.reading import Side
from handlers.replication.verification.verifier import Verifier
from handlers.structs.notifications import NotificationEvent
from handlers.structs.objects import (
    Database,
    FieldSchema,
    Function,
    ResourceType,
    ResourceUri,
    StorageDescriptor,
    Table,
)
from state.errors import GapDetected, NotFound, Refused
from state.transactions.valid_write_ids import ValidWriteIds


POLICY = Policy("p", "shop", "shop_r")


@dataclass
class FakeMetastore:
    """The calls of a verifier; ``on_read`` is called before a table is returned, and may change anything."""

    db: str
    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    """Parameters by table."""
    functions: dict[str, str] = field(default_factory=dict)
    """Classes by function."""
    log: list[NotificationEvent] = field(default_factory=list)
    on_read: Callable[[], None] = lambda: None
    reads: int = 0
    hive_version: HiveVersion = V4_2

    def table_names(self, _db: str) -> list[str]:
        return list(self.tables)

    def get_database(self, name: str) -> Database:
        return Database(name=name, description="same", parameters={"repl.last.id": "1"})

    def get_table(self, _db: str, name: str) -> Table:
        self.reads += 1
        self.on_read()
        if name not in self.tables:
            raise NotFound("no such table")
        storage = StorageDescriptor(cols=[FieldSchema(name="id", type="int")])
        return Table(
            tableName=name,
            dbName=self.db,
            tableType="VIRTUAL_VIEW",
            sd=storage,
            parameters=dict(self.tables[name]),
        )

    def function_names(self, _db: str) -> list[str]:
        return list(self.functions)

    def get_function(self, _db: str, name: str) -> Function:
        if self.functions[name] == "dropped":
            raise NotFound("no such function")
        jar = ResourceUri(resourceType=ResourceType.JAR, uri=f"file:/{self.db}/{name}.jar")
        return Function(
            functionName=name, ownerName="ann", className=self.functions[name], resourceUris=[jar]
        )

    def current_event_id(self) -> int:
        return len(self.log)

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        return self.log[after : after + limit]

    def add_event(self, kind: str, table: str | None = None, db: str | None = "shop", **message: Any) -> None:
        """Append an event without a useful message, or with ``message``."""
        self.log.append(
            NotificationEvent(
                eventId=len(self.log) + 1,
                eventTime=1,
                eventType=kind,
                dbName=db,
                tableName=table,
                message=json.dumps(message),
                messageFormat="json-0.2",
            )
        )


@dataclass
class FakeFollowing:
    """A replica at ``at``; waiting for an event calls ``on_wait`` and moves it."""

    at: int = 0
    moves: bool = True
    on_wait: Callable[[], None] = lambda: None
    reasons: dict[str, str] = field(default_factory=dict)
    waited: list[int] = field(default_factory=list)

    def position(self) -> int:
        return self.at

    def wait_for(self, event_id: int) -> bool:
        self.waited.append(event_id)
        self.on_wait()
        if self.moves:
            self.at = event_id
        return self.moves

    def not_followed(self) -> Mapping[str, str]:
        return self.reasons


@dataclass
class Rig:
    source: FakeMetastore
    target: FakeMetastore
    following: FakeFollowing
    verifier: Verifier


@pytest.fixture
def rig() -> Iterator[Rig]:
    source, target = FakeMetastore("shop", {"t": {"a": "1"}}), FakeMetastore("shop_r", {"t": {"a": "1"}})
    following, files = FakeFollowing(), open_file_systems()
    with ThreadPoolExecutor(1) as executor:

        def side(metastore: Any, *, at_source: bool) -> Side:
            return Side(metastore, metastore.db, files, executor, POLICY, at_source=at_source)

        verifier = Verifier(side(source, at_source=True), side(target, at_source=False), following)
        yield Rig(source, target, following, verifier)


def test_equal_sides_are_read_once_even_if_events_are_waiting(rig: Rig) -> None:
    rig.source.add_event("ALTER_TABLE", "t")
    assert rig.verifier.verify_table("t").outcome is Outcome.EQUAL
    assert (rig.source.reads, rig.target.reads, rig.following.waited) == (1, 1, [])


def test_a_difference_is_reported_when_a_second_comparison_finds_it_too(rig: Rig) -> None:
    rig.target.tables["t"]["a"] = "2"
    result = rig.verifier.verify_table("t")
    assert (result.outcome, result.difference_count, rig.source.reads) == (Outcome.DIFFERS, 1, 2)
    assert str(result.differences[0]) == "parameter a: '1' at the source, '2' on the target"


def test_a_difference_that_the_second_comparison_does_not_find_is_none(rig: Rig) -> None:
    rig.target.tables["t"]["a"] = "2"
    rig.target.on_read = lambda: rig.target.tables["t"].update(a="1") if rig.target.reads == 2 else None
    assert rig.verifier.verify_table("t").outcome is Outcome.EQUAL


def test_a_table_that_an_unapplied_event_concerns_is_compared_again_after_it_is_applied(rig: Rig) -> None:
    rig.source.tables["t"]["a"] = "2"
    rig.source.add_event("ALTER_TABLE", "t")
    rig.following.on_wait = lambda: rig.target.tables["t"].update(a="2")
    assert rig.verifier.verify_table("t").outcome is Outcome.EQUAL
    assert rig.following.waited == [1]


def test_events_of_other_tables_do_not_delay_a_result(rig: Rig) -> None:
    rig.source.tables["t"]["a"] = "2"
    rig.source.add_event("ALTER_TABLE", "u")
    rig.source.add_event("ALTER_TABLE", "t", db="other")
    assert rig.verifier.verify_table("t").outcome is Outcome.DIFFERS
    assert rig.following.waited == []


def test_a_table_that_changes_during_every_comparison_is_busy(rig: Rig) -> None:
    def change() -> None:
        rig.source.tables["t"]["a"] = f"new {len(rig.source.log)}"
        rig.source.add_event("ALTER_TABLE", "t")

    rig.source.on_read = change
    result = rig.verifier.verify_table("t")
    assert result.outcome is Outcome.BUSY
    assert "concern the table" in (result.reason or "")


def test_a_replica_that_does_not_move_is_waited_for_once(rig: Rig) -> None:
    rig.source.tables["t"]["a"] = "2"
    rig.source.add_event("ALTER_TABLE", "t")
    rig.following.moves = False
    assert rig.verifier.verify_table("t").outcome is Outcome.BUSY
    assert len(rig.following.waited) == 1


def test_a_table_that_is_not_followed_is_not_read(rig: Rig) -> None:
    rig.following.reasons["t"] = "quarantined"
    result = rig.verifier.verify_table("t")
    assert (result.outcome, result.reason, rig.source.reads) == (Outcome.NOT_FOLLOWED, "quarantined", 0)


def test_a_table_that_is_being_loaded_is_not_compared(rig: Rig) -> None:
    rig.target.tables["t"]["tideline.load"] = "load-7"
    assert rig.verifier.verify_table("t").outcome is Outcome.NOT_FOLLOWED


def test_a_table_that_only_one_side_has_is_a_difference(rig: Rig) -> None:
    rig.target.tables["old"] = {}
    assert rig.verifier.table_names() == ["old", "t"]
    (found,) = rig.verifier.verify_table("old").differences
    assert (found.kind, found.source, found.target) == ("table", None, "present")


def test_functions_are_compared_with_the_database_by_class_and_names_of_files(rig: Rig) -> None:
    rig.source.functions = {"same": "a.A", "other": "a.B", "gone": "a.C", "short": "dropped"}
    rig.target.functions = {"same": "a.A", "other": "b.B", "extra": "a.D"}
    result = rig.verifier.verify_database()
    assert result.outcome is Outcome.DIFFERS
    assert [(each.key, each.source, each.target) for each in result.differences] == [
        ("extra", None, "class a.D of owner ann (None) with JAR extra.jar"),
        ("gone", "class a.C of owner ann (None) with JAR gone.jar", None),
        (
            "other",
            "class a.B of owner ann (None) with JAR other.jar",
            "class b.B of owner ann (None) with JAR other.jar",
        ),
    ]


def test_a_function_that_is_left_out_is_counted_and_no_difference(rig: Rig) -> None:
    rig.source.functions = {"refused": "a.A", "refused_later": "a.B"}
    rig.target.functions = {"refused_later": "a.earlier"}
    rig.following.reasons = {"refused()": "no directory", "refused_later()": "unsafe path"}
    result = rig.verifier.verify_database()
    assert (result.outcome, result.not_compared) == (Outcome.EQUAL, (("functions", 2),))


def test_a_function_of_an_event_that_is_not_applied_yet_is_waited_for(rig: Rig) -> None:
    rig.source.functions = {"new": "a.A"}
    rig.source.add_event("CREATE_FUNCTION")
    rig.following.on_wait = lambda: rig.target.functions.update(rig.source.functions)
    assert rig.verifier.verify_database().outcome is Outcome.EQUAL
    assert rig.following.waited == [1]


def test_a_table_that_cannot_be_read_fails_alone(rig: Rig) -> None:
    def refuse() -> None:
        raise Refused("the metastore refuses")

    rig.source.on_read = refuse
    database, table = rig.verifier.verify_database(), rig.verifier.verify_table("t")
    assert (database.outcome, table.outcome) == (Outcome.EQUAL, Outcome.FAILED)
    assert "refuses" in (table.reason or "")


def changes(*events: tuple[str, str | None, dict[str, Any]]) -> RecentChanges:
    source: Any = FakeMetastore("shop")
    for kind, table, message in events:
        source.add_event(kind, table, db="shop" if table else None, **message)
    return RecentChanges(source, POLICY)


def concern(
    log: RecentChanges,
    table: str,
    after: int,
    upto: int,
    write_ids: tuple[ValidWriteIds | None, ValidWriteIds | None],
) -> bool:
    log.read(after, upto)
    return log.concern(table, after, upto, write_ids)


LIST = ValidWriteIds("shop.t", 5, (4,))
DONE = ValidWriteIds("shop.t", 5)


def test_a_commit_concerns_the_tables_that_do_not_see_its_write_ids_yet() -> None:
    log = changes(("COMMIT_TXN", None, {"txnid": 9, "writeIds": [4], "databases": ["shop"]}))
    assert concern(log, "t", 0, 1, (LIST, DONE))
    assert not concern(log, "t", 0, 1, (DONE, DONE))
    assert not concern(log, "t", 1, 1, (LIST, DONE))
    other = changes(("COMMIT_TXN", None, {"txnid": 9, "writeIds": [4], "databases": ["other"]}))
    assert not concern(other, "t", 0, 1, (LIST, DONE))


def test_a_commit_of_another_table_with_a_higher_write_id_does_not_concern_a_table() -> None:
    log = changes(("COMMIT_TXN", None, {"txnid": 9, "writeIds": [6], "databases": ["shop"]}))
    assert not concern(log, "t", 0, 1, (DONE, DONE))
    assert concern(log, "t", 0, 1, (ValidWriteIds("shop.t", 6), DONE)), "the replica is behind"


def test_the_end_of_a_transaction_that_wrote_nothing_concerns_no_table() -> None:
    log = changes(
        ("ABORT_TXN", None, {"txnid": 9, "dbsUpdated": []}),
        ("COMMIT_TXN", None, {"txnid": 8, "writeIds": [], "databases": []}),
    )
    assert not concern(log, "t", 0, 2, (LIST, DONE))


def test_an_abort_concerns_tables_of_its_database_with_open_write_ids() -> None:
    log = changes(("ABORT_TXN", None, {"txnid": 9, "dbsUpdated": ["shop"]}))
    assert concern(log, "t", 0, 1, (LIST, DONE))
    assert not concern(log, "t", 0, 1, (DONE, DONE))


def test_a_source_that_does_not_name_databases_may_have_ended_any_open_write_id() -> None:
    log = changes(("COMMIT_TXN", None, {"txnid": 9}))
    log.source.hive_version = V4_0  # type: ignore[misc]  # the fake's field
    assert concern(log, "t", 0, 1, (LIST, DONE))
    assert not concern(log, "t", 0, 1, (DONE, DONE))


def test_a_rename_concerns_both_names() -> None:
    recorded = notification("ALTER_TABLE")
    recorded.eventId = 1
    source: Any = FakeMetastore(recorded.dbName or "", log=[recorded])
    log = RecentChanges(source, Policy("p", recorded.dbName or "", "r"))
    assert concern(log, recorded.tableName or "", 0, 1, (None, None))


def test_an_event_about_the_database_concerns_every_table() -> None:
    source: Any = FakeMetastore("shop")
    source.add_event("DROP_DATABASE", None, db="shop", db_name="shop")
    assert concern(RecentChanges(source, POLICY), "t", 0, 1, (None, None))


def test_a_gap_in_the_log_is_an_error() -> None:
    source: Any = FakeMetastore("shop")
    source.add_event("ALTER_TABLE", "t")
    source.log[0].eventId = 7
    with pytest.raises(GapDetected):
        concern(RecentChanges(source, POLICY), "t", 0, 7, (None, None))
