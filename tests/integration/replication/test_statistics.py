"""Statistics are equal on both sides after each kind of event that changes them, on real metastores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from state.errors import InvalidRequest
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.verification import verify


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dev.stack.hive.sql_session import Session
    from handlers.metastore.client import Metastore
    from handlers.replication.verification.findings import TableResult
    from tests.builders.replication.replica import Replica


TABLES: Final = ("orders", "visits", "plain", "archive")
COLUMNS: Final = ["id", "item"]
Step = tuple[str, "Callable[[], object]"]


def steps(sql: Session, source: Metastore, db: str) -> Iterator[Step]:
    """Yield the steps with their names; each changes statistics by other events."""
    statements = {
        "insert into an ACID table": f"insert into {db}.orders values (1,'pen'),(2,'ink')",
        "update": f"update {db}.orders set item = 'INK' where id = 2",
        "insert into a new ACID partition": f"insert into {db}.visits partition (dt='a') values (1,'x'),(2,'y')",
        "insert into a plain table": f"insert into {db}.plain values (1,'one'),(2,'two')",
        "insert into a new plain partition": f"insert into {db}.archive partition (dt='a') values (1,'x')",
        "analyze": f"analyze table {db}.orders compute statistics for columns",
        "add a column": f"alter table {db}.orders add columns (note string)",
        "truncate": f"truncate table {db}.visits partition (dt='a')",
    }
    for name, statement in statements.items():
        yield name, lambda statement=statement: sql.run(statement)  # type: ignore[misc]
    yield "delete of a table's column", lambda: source.delete_table_statistics(db, "plain", "id")
    yield (
        "delete of a partition's column",
        lambda: source.delete_partition_statistics(db, "archive", "dt=a", "item"),
    )
    yield "statistics after their deletion", lambda: sql.run(f"insert into {db}.plain values (3,'six')")


@pytest.mark.long
def test_statistics_are_equal_after_each_kind_of_event_that_changes_them(
    source_sql: Session, replica: Replica
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    for table, kind in (("orders", ACID), ("plain", PLAIN)):
        source_sql.run(f"create table {db}.{table} (id int, item string) {kind}")
    for table, kind in (("visits", ACID), ("archive", PLAIN)):
        source_sql.run(f"create table {db}.{table} (id int, item string) partitioned by (dt string) {kind}")
    wrong: dict[str, dict[str, TableResult]] = {}
    for name, run in steps(source_sql, replica.source, db):
        run()
        replica.follow()
        results = verify(replica, *TABLES)
        found = {
            table: result
            for table, result in results.items()
            if result.differences or "statistics" in dict(result.not_compared)
        }
        if found:
            wrong[name] = found
    assert wrong == {}
    assert replica.quarantined() == {}
    assert column_names(replica.target, replica.policy.target_db, "archive") == {"id"}
    with pytest.raises(InvalidRequest):  # so that no source logs a deletion for a transactional table
        replica.source.delete_table_statistics(db, "orders", "id")


def column_names(metastore: Metastore, db: str, table: str) -> set[str]:
    """Return the columns of the partition ``dt=a`` that have statistics."""
    found = metastore.partition_statistics(db, table, ["dt=a"], COLUMNS)
    return {each.colName for each in found.get("dt=a", [])}
