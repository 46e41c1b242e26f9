"""Partitions on a real Hive 4."""

from __future__ import annotations

import pytest

from dev.fixtures.hive_tables import ACID, a_partition, a_table
from dev.fixtures.writing_client import WritingMetastore
from handlers.metastore.objects.partitions import BATCH
from handlers.structs.objects import Table
from state.errors import AlreadyExists, InvalidRequest, NotFound
from state.transactions.valid_write_ids import ValidWriteIds


@pytest.fixture
def table(client: WritingMetastore, db: str) -> Table:
    client.create_table(a_table(db, "p", partition_keys=["dt", "hr"], external=True))
    return client.get_table(db, "p")


def test_adding_an_existing_partition_keeps_it_or_is_refused(
    client: WritingMetastore, db: str, table: Table
) -> None:
    client.add_partitions(db, "p", [a_partition(table, "2024-01-01", "0", parameters={"a": "1"})])
    again = [
        a_partition(table, "2024-01-01", "0", parameters={"a": "2"}),
        a_partition(table, "2024-01-01", "1"),
    ]
    client.add_partitions(db, "p", again)
    assert client.partition_names(db, "p") == ["dt=2024-01-01/hr=0", "dt=2024-01-01/hr=1"]
    assert (client.get_partition(db, "p", ["2024-01-01", "0"]).parameters or {})["a"] == "1"
    with pytest.raises(AlreadyExists):
        client.add_partitions(db, "p", again, if_not_exists=False)


def test_partitions_are_found_by_values_and_by_names(client: WritingMetastore, db: str, table: Table) -> None:
    client.add_partitions(db, "p", [a_partition(table, "a b", "1"), a_partition(table, "x", "2")])
    assert client.get_partition_by_name(db, "p", "dt=a b/hr=1").values == ["a b", "1"]
    found = client.get_partitions(db, "p", ["dt=x/hr=2", "dt=nowhere/hr=0"])
    assert [p.values for p in found] == [["x", "2"]]
    assert found[0].sd.location == f"{table.sd.location}/dt=x/hr=2"
    with pytest.raises(NotFound):
        client.get_partition(db, "p", ["x", "9"])
    with pytest.raises(NotFound):
        client.get_partition_by_name(db, "p", "dt=x/hr=9")
    assert client.partition_names(db, "no_such_table") == []


def test_a_partition_of_a_table_with_other_partition_columns_or_none_is_not_found(
    client: WritingMetastore, db: str, table: Table
) -> None:
    """Its name may come from an event of an earlier table of that name."""
    client.add_partitions(db, "p", [a_partition(table, "x", "2")])
    client.create_table(a_table(db, "whole", external=True))
    for name, partition, values in (("whole", "dt=x", ["x"]), ("p", "dt=x", ["x"]), ("p", "n=1", [])):
        with pytest.raises(NotFound):
            client.get_partition_by_name(db, name, partition)
        with pytest.raises(NotFound):
            client.get_partition(db, name, values)
        assert client.get_partitions(db, name, [partition]) == []


def test_many_partitions_are_added_and_fetched_in_batches(
    client: WritingMetastore, db: str, table: Table
) -> None:
    count = BATCH + 3
    client.add_partitions(db, "p", [a_partition(table, "2024-01-01", f"{n:04}") for n in range(count)])
    assert len(client.partition_names(db, "p")) == count
    assert len(client.partition_names(db, "p", limit=7)) == 7
    found = list(client.all_partitions(db, "p"))
    assert sorted(p.values[1] for p in found) == [f"{n:04}" for n in range(count)]
    assert len(client.get_partitions(db, "p", client.partition_names(db, "p"))) == count


def test_partitions_are_all_changed_or_none(client: WritingMetastore, db: str, table: Table) -> None:
    client.add_partitions(db, "p", [a_partition(table, "d", "1"), a_partition(table, "d", "2")])
    changed = [client.get_partition(db, "p", ["d", hour]) for hour in ("1", "2")]
    for partition in changed:
        partition.parameters = {**(partition.parameters or {}), "seen": "yes"}
    client.alter_partitions(db, "p", changed, environment={"DO_NOT_UPDATE_STATS": "true"})
    assert all((p.parameters or {})["seen"] == "yes" for p in client.all_partitions(db, "p"))
    changed[0].parameters = {"seen": "again"}
    with pytest.raises(InvalidRequest):
        client.alter_partitions(db, "p", [changed[0], a_partition(table, "d", "9")])
    assert all((p.parameters or {})["seen"] == "yes" for p in client.all_partitions(db, "p"))


def test_a_renamed_partition_has_its_new_values(client: WritingMetastore, db: str, table: Table) -> None:
    client.add_partitions(db, "p", [a_partition(table, "d", "1", parameters={"a": "1"})])
    renamed = client.get_partition(db, "p", ["d", "1"])
    renamed.values = ["d", "2"]
    client.rename_partition(db, "p", ["d", "1"], renamed)
    assert client.partition_names(db, "p") == ["dt=d/hr=2"]
    assert (client.get_partition(db, "p", ["d", "2"]).parameters or {})["a"] == "1"


def test_dropping_a_missing_partition_raises_not_found_unless_it_may_be_missing(
    client: WritingMetastore, db: str, table: Table
) -> None:
    client.add_partitions(db, "p", [a_partition(table, "d", str(hour)) for hour in range(4)])
    client.drop_partition(db, "p", ["d", "0"], delete_data=False)
    with pytest.raises(NotFound):
        client.drop_partition(db, "p", ["d", "0"])
    client.drop_partition(db, "p", ["d", "0"], if_exists=True)
    client.drop_partitions(db, "p", ["dt=d/hr=1", "dt=d/hr=2"], delete_data=False)
    assert client.partition_names(db, "p") == ["dt=d/hr=3"]
    with pytest.raises(NotFound):
        client.drop_partitions(db, "p", ["dt=d/hr=1", "dt=d/hr=3"])
    client.drop_partitions(db, "p", ["dt=d/hr=1", "dt=d/hr=3"], if_exists=True)
    assert client.partition_names(db, "p") == []


def test_partitions_of_transactional_tables_have_their_write_id(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", partition_keys=["dt"], parameters=ACID))
    table = client.get_table(db, "t")
    (txn,) = client.open_txns()
    write_id = client.allocate_write_ids(db, "t", [txn])[txn]
    partition = a_partition(table, "d")
    partition.writeId = write_id
    client.add_partitions(db, "t", [partition])
    assert client.get_partition(db, "t", ["d"]).writeId == -1  # logged, but not stored
    client.alter_partitions(
        db,
        "t",
        [partition],
        write_id=write_id,
        valid_write_ids=ValidWriteIds(f"{db}.t", write_id).format(),
    )
    assert client.get_partition(db, "t", ["d"]).writeId == write_id
    client.truncate_table(db, "t", partition_names=["dt=d"], write_id=write_id)
    client.commit_txn(txn)
