"""Verification on real metastores with files of a SQL engine: one shared replica, of which each test damages
a table of its own."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon.service.command_line import call
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.replication.verification.findings import Outcome, TableResult
from tests.builders.daemon.tideline_process import tideline, write_config
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, PLAIN, create_source, roll_back
from tests.builders.replication.verification import FollowedReplica, verifier_of, verify


ACID_TABLES = (
    "deleted",
    "changed",
    "extra",
    "write_id",
    "moving",
    "calm",
    "owned",
    "here",
    "there",
    "either",
)
COMPACTED = ("here", "there", "either")
"""Tables that the source, the target and both compact."""


@pytest.fixture(scope="module")
def shared(source: ClusterEndpoints, target: ClusterEndpoints) -> Iterator[Replica]:
    """A replica that was equal to its source before tests damaged it."""
    db = f"verify_{uuid.uuid4().hex[:8]}"
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=db, roots=roots)
    with Session.connect(source.sql) as sql:
        create_source(sql, db)
        for table in ACID_TABLES:
            sql.run(f"create table {db}.{table} (id int, word string) {ACID}")
            sql.run(f"insert into {db}.{table} values (1, 'a'), (2, 'b')")
        for table in COMPACTED:
            sql.run(f"delete from {db}.{table} where id = 1")
        roll_back(sql, f"insert into {db}.either values (9, 'never')")
        sql.run(f"create table {db}.parts (id int) partitioned by (dt string) {ACID}")
        sql.run(f"insert into {db}.parts values (1, 'a'), (2, 'b'), (3, 'c:/d')")
        write_rows(sql, f"{db}.rowed")
        sql.run(f"create table {db}.plain (id int) {PLAIN}")
        sql.run(f"insert into {db}.plain values (1)")
        sql.run(f"create view {db}.seen as select id from {db}.plain")
    with closing(replica.projection):
        replica.follow()
        yield replica


def write_rows(sql: Session, table: str) -> None:
    """Write rows of many types in three partitions, with updates, deletions and a transaction that is rolled
    back."""
    sql.run(
        f"create table {table} (id int, word varchar(5), price decimal(10,2), tags map<string,int>, at "
        f"timestamp, `where` struct<x:int,y:string>) partitioned by (dt string) {ACID}"
    )
    row = (
        "{0}, 'w{0}', {0}.5, map('a', {0}), timestamp '2024-01-01 00:00:0{0}', named_struct('x', {0}, "
        "'y', 'z')"
    )
    dates = {1: "a", 2: "a", 3: "c:/d", 4: "c:/d", 5: "e"}
    rows = " union all ".join(f"select {row.format(each)}, '{dt}'" for each, dt in dates.items())
    sql.run(f"insert into {table} {rows}")
    sql.run(f"update {table} set word = null where id = 3")
    sql.run(f"delete from {table} where id in (2, 5)")
    roll_back(sql, f"insert into {table} {rows}")


@pytest.fixture(scope="module", autouse=True)
def untouched(shared: Replica) -> dict[str, TableResult]:
    """The outcomes before any test has damaged a table; tests run in any order."""
    return verify(shared, checksums=True)


def files_of(replica: Replica, table: str, *, at_source: bool = False) -> list[Path]:
    """Return the data files of a table on one side."""
    if at_source:
        root = replica.source.get_table(replica.policy.source_db, table).sd.location
    else:
        root = replica.target.get_table(replica.policy.target_db, table).sd.location
    return sorted(
        path
        for path in Path(urlsplit(root or "").path).rglob("*")
        if path.is_file() and not path.name.startswith(("_", "."))
    )


def kinds(result: TableResult) -> set[str]:
    return {difference.kind for difference in result.differences}


def test_nothing_differs_on_an_untouched_replica(untouched: dict[str, TableResult]) -> None:
    found = {name: (str(each.outcome), each.differences) for name, each in untouched.items()}
    assert found == dict.fromkeys(["", "seen", "plain", "parts", "rowed", *ACID_TABLES], ("equal", ()))
    assert (untouched["parts"].partitions, untouched["parts"].files) == (3, 3)
    assert all(each.not_compared == () for each in untouched.values())


def test_a_deleted_file_is_found(shared: Replica) -> None:
    (file,) = files_of(shared, "deleted")
    file.unlink()
    result = verify(shared, "deleted")["deleted"]
    (difference,) = result.differences
    assert (difference.kind, difference.key) == ("file", f"{file.parent.name}/{file.name}")
    assert difference.source is not None
    assert difference.target is None


def test_a_changed_file_is_found_by_its_size_or_by_its_checksum(shared: Replica) -> None:
    (file,) = files_of(shared, "changed")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert verify(shared, "changed")["changed"].outcome is Outcome.EQUAL, "sizes are equal"
    assert kinds(verify(shared, "changed", checksums=True)["changed"]) == {"file"}
    file.write_bytes(content + b"\0")
    assert kinds(verify(shared, "changed")["changed"]) == {"file"}


def test_an_extra_row_on_the_target_is_found(shared: Replica, target_sql: Session) -> None:
    target_sql.run(f"insert into {shared.policy.target_db}.extra values (7, 'foreign')")
    assert {"file", "write-ids"} <= kinds(verify(shared, "extra")["extra"])


def test_a_missing_partition_is_found(shared: Replica) -> None:
    shared.target.drop_partition(shared.policy.target_db, "parts", ["c:/d"])
    (difference,) = verify(shared, "parts")["parts"].differences
    assert (difference.kind, difference.key) == ("partition", "dt=c%3A%2Fd")


def test_a_changed_parameter_is_found(shared: Replica) -> None:
    table = shared.target.get_table(shared.policy.target_db, "plain")
    table.parameters = {**(table.parameters or {}), "retention.days": "7"}
    shared.target.alter_table(shared.policy.target_db, "plain", table)
    (difference,) = verify(shared, "plain")["plain"].differences
    assert (difference.kind, difference.key, difference.target) == ("parameter", "retention.days", "7")


def test_a_wrong_write_id_is_found(shared: Replica) -> None:
    policy = shared.policy
    foreign = 10**12
    shared.target.open_replayed(policy.txn_map_key, foreign)
    shared.target.allocate_replayed(policy.txn_map_key, policy.target_db, "write_id", foreign, 2)
    result = verify(shared, "write_id")["write_id"]
    shared.target.commit_replayed(policy.txn_map_key, foreign, ())
    assert kinds(result) == {"write-ids"}
    (difference,) = verify(shared, "write_id")["write_id"].differences
    assert str(difference) == "write-ids 2: 'unallocated' at the source, 'visible' on the target"


def test_a_table_that_only_one_side_has_is_found(shared: Replica, target_sql: Session) -> None:
    target_sql.run(f"create table {shared.policy.target_db}.foreign_table (id int)")
    (difference,) = verify(shared, "foreign_table")["foreign_table"].differences
    assert (difference.kind, difference.source, difference.target) == ("table", None, "present")


def test_what_the_replica_has_not_applied_yet_is_busy_and_no_difference(
    shared: Replica, source_sql: Session
) -> None:
    source_sql.run(f"insert into {shared.policy.source_db}.moving values (5, 'e')")
    behind = verify(shared, "moving")["moving"]
    assert behind.outcome is Outcome.BUSY
    assert "concern the table" in (behind.reason or "")

    def follow(event_id: int) -> bool:
        return shared.follow().event_id >= event_id

    with verifier_of(shared, FollowedReplica(shared, follow)) as verifier:
        assert verifier.verify_table("moving").outcome is Outcome.EQUAL


@pytest.fixture
def config(shared: Replica, source: ClusterEndpoints, target: ClusterEndpoints, tmp_path: Path) -> Path:
    """The configuration of a machine without a daemon, so that the replica's position is the target's own."""
    policy = {
        "source": "lake",
        "target": "dr",
        "database": shared.policy.source_db,
        "target_database": shared.policy.target_db,
    }
    roots = [f"file:{source.warehouse}", f"file:{source.external}"]
    values = {
        "sources": {"lake": {"metastore": [source.metastore], "topic": "none", "read_roots": roots}},
        "targets": {"dr": {"metastore": [target.metastore]}},
        "policies": {"shop": policy},
        "kafka": {"bootstrap": "127.0.0.1:1"},
    }
    return write_config(tmp_path, values)


def test_the_command_reports_differences_and_exits_with_1(
    shared: Replica, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["verify", "shop", "calm", "seen", "-c", str(config)]) == 0
    assert "policy shop: 2 equal" in capsys.readouterr().out
    theirs = shared.target.get_table(shared.policy.target_db, "owned")
    theirs.owner = "stranger"
    shared.target.alter_table(shared.policy.target_db, "owned", theirs)
    assert call(["verify", "shop", "owned", "--json", "-c", str(config)]) == 1
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert (table["outcome"], [each["kind"] for each in table["differences"]]) == ("differs", ["owner"])
    assert call(["verify", "shop", "no_such_table", "-c", str(config)]) == 1
    assert "no_such_table" in capsys.readouterr().err


@pytest.mark.long
def test_rows_are_read_under_the_write_id_list_as_the_sql_engine_reads_them(
    shared: Replica, config: Path, source_sql: Session, target_sql: Session
) -> None:
    ours, theirs = f"{shared.policy.source_db}.rowed", f"{shared.policy.target_db}.rowed"
    target_sql.run(f"delete from {theirs} where id = 1")
    target_sql.run(
        f"insert into {theirs} partition (dt='a') select id, word, price, tags, at, `where` from {theirs} "
        "where id = 4"
    )
    done = tideline(config, "verify", "shop", "rowed", "calm", "plain", "--rows", "--json")
    assert done.returncode == 1, done.stderr
    tables = {each["table"]: each for each in json.loads(done.stdout)["tables"]}
    assert tables["calm"]["rows"] == 2
    assert tables["plain"]["rows"] == 1
    counted = {
        dt: int(count) for dt, count in source_sql.rows(f"select dt, count(*) from {ours} group by dt")
    }
    assert counted == {"a": 1, "c:/d": 2}
    assert tables["rowed"]["rows"] == sum(counted.values())
    rows = [each for each in tables["rowed"]["differences"] if each["kind"] == "rows"]
    assert [each["key"] for each in rows] == ["dt=a"], "as many rows, but another one"
    assert rows[0]["source"].startswith("1 row, ")
    assert rows[0]["target"].startswith("1 row, ")


def test_a_compaction_on_either_side_is_no_difference_but_is_counted(shared: Replica) -> None:
    """Compactions by hand: the shared stack has no compactor. Its results have the names and the layout of
    Hive's."""
    for table in ("here", "either"):
        compact_by_hand(files_of(shared, table, at_source=True), base=2)
    for table in ("there", "either"):
        compact_by_hand(files_of(shared, table), base=2)
    for result in verify(shared, *COMPACTED, checksums=True).values():
        assert result.differences == ()
        assert dict(result.not_compared)["files"] >= 1, "never silently equal"


def compact_by_hand(files: list[Path], base: int) -> None:
    """Replace the directories of all writes by one base, as a major compaction and the cleaner do."""
    root = files[0].parent.parent
    directories = sorted({file.parent for file in files})
    (root / f"base_{base:07d}_v0000999").mkdir()
    files[0].rename(root / f"base_{base:07d}_v0000999" / files[0].name)
    for directory in directories:
        shutil.rmtree(directory)
