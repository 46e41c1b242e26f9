"""Column statistics and constraints on a real Hive 4."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dev.fixtures.hive_tables import ACID, a_partition, a_table, whole_number_statistics
from dev.fixtures.writing_client import WritingMetastore
from handlers.structs.constraints import (
    CHECK,
    DEFAULT,
    FOREIGN_KEY,
    NOT_NULL,
    PRIMARY_KEY,
    UNIQUE,
    SQLCheckConstraint,
    SQLDefaultConstraint,
    SQLForeignKey,
    SQLNotNullConstraint,
    SQLPrimaryKey,
    SQLUniqueConstraint,
)
from state.errors import InvalidRequest, NotFound
from state.transactions.valid_write_ids import ValidWriteIds


KEEP = {"DO_NOT_UPDATE_STATS": "true"}
ACCURATE = {
    "COLUMN_STATS_ACCURATE": json.dumps({"BASIC_STATS": "true", "COLUMN_STATS": {"id": "true"}}),
    "numRows": "5",
}


def distinct_values(
    client: WritingMetastore, db: str, table: str, valid: str | None = None
) -> list[int | None]:
    found = client.table_statistics(db, table, ["id"], valid_write_ids=valid)
    return [column.statsData.longStats.numDVs for column in found if column.statsData.longStats is not None]


def test_statistics_of_a_plain_table_are_stored_and_read(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", external=True))
    assert distinct_values(client, db, "t") == []
    client.update_table_statistics(whole_number_statistics(db, "t", "id", 5))
    client.update_table_statistics(whole_number_statistics(db, "t", "id", 7))
    assert distinct_values(client, db, "t") == [7]
    with pytest.raises((NotFound, InvalidRequest)):
        client.update_table_statistics(whole_number_statistics(db, "t", "no_such_column", 1))
    with pytest.raises(NotFound):
        client.update_table_statistics(whole_number_statistics(db, "no_such_table", "id", 1))


def test_statistics_of_a_transactional_table_need_a_write_id_and_a_list(
    client: WritingMetastore, db: str
) -> None:
    client.create_table(a_table(db, "t", parameters=ACID))
    (txn,) = client.open_txns()
    write_id = client.allocate_write_ids(db, "t", [txn])[txn]
    client.commit_txn(txn)
    valid = ValidWriteIds(f"{db}.t", write_id).format()
    table = client.get_table(db, "t")
    table.parameters = {**(table.parameters or {}), **ACCURATE}
    with pytest.raises(InvalidRequest, match="rejected"):
        client.alter_table(db, "t", table, write_id=write_id, environment=KEEP)
    table.writeId = write_id
    client.alter_table(db, "t", table, write_id=write_id, valid_write_ids=valid, environment=KEEP)
    statistics = whole_number_statistics(db, "t", "id", 5)
    with pytest.raises(InvalidRequest) as refused:
        client.update_table_statistics(statistics)
    assert "transactional" in str(refused.value.context["reason"])
    client.update_table_statistics(statistics, write_id=write_id, valid_write_ids=valid)
    assert distinct_values(client, db, "t", valid) == [5]
    assert client.get_table(db, "t").writeId == write_id


def test_statistics_of_partitions_are_set_one_by_one_or_together(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "p", partition_keys=["dt"], external=True))
    table = client.get_table(db, "p")
    client.add_partitions(db, "p", [a_partition(table, day) for day in ("1", "2", "3")])
    client.update_partition_statistics(whole_number_statistics(db, "p", "id", 4, partition_name="dt=1"))
    client.set_partition_statistics(
        [whole_number_statistics(db, "p", "id", n, partition_name=f"dt={n}") for n in (2, 3)]
    )
    found = client.partition_statistics(db, "p", ["dt=1", "dt=2", "dt=3"], ["id"])
    counts = {name: columns[0].statsData.longStats for name, columns in found.items()}
    assert {name: data.numDVs for name, data in counts.items() if data} == {"dt=1": 4, "dt=2": 2, "dt=3": 3}
    with pytest.raises((NotFound, InvalidRequest)):
        client.update_partition_statistics(whole_number_statistics(db, "p", "id", 1, partition_name="dt=9"))


def test_constraints_of_every_kind_are_added_listed_and_dropped(client: WritingMetastore, db: str) -> None:
    columns = [("id", "int"), ("other", "int")]
    client.create_table(a_table(db, "parent", columns=columns, external=True))
    client.create_table(a_table(db, "t", columns=columns, external=True))
    of: dict[str, Any] = {"catName": "hive", "table_db": db, "table_name": "t", "rely_cstr": True}
    client.add_constraint(
        PRIMARY_KEY,
        [
            SQLPrimaryKey(
                table_db=db,
                table_name="parent",
                column_name="id",
                key_seq=1,
                pk_name="pk_parent",
                catName="hive",
            )
        ],
    )
    client.add_constraint(FOREIGN_KEY, [
            SQLForeignKey(
                pktable_db=db, pktable_name="parent", pkcolumn_name="id", fktable_db=db, fktable_name="t",
                fkcolumn_name="other", key_seq=1, fk_name="fk", pk_name="pk_parent", catName="hive",
            )
        ]
    )  # fmt: skip
    client.add_constraint(UNIQUE, [SQLUniqueConstraint(column_name="other", key_seq=1, uk_name="uk", **of)])
    client.add_constraint(NOT_NULL, [SQLNotNullConstraint(column_name="id", nn_name="nn", **of)])
    client.add_constraint(
        DEFAULT, [SQLDefaultConstraint(column_name="other", default_value="1", dc_name="dc", **of)]
    )
    client.add_constraint(
        CHECK, [SQLCheckConstraint(column_name="other", check_expression="other > 0", dc_name="cc", **of)]
    )
    names = {
        "pk_parent": [c.pk_name for c in client.constraints(PRIMARY_KEY, db, "parent")],
        "fk": [c.fk_name for c in client.constraints(FOREIGN_KEY, db, "t")],
        "uk": [c.uk_name for c in client.constraints(UNIQUE, db, "t")],
        "nn": [c.nn_name for c in client.constraints(NOT_NULL, db, "t")],
        "dc": [c.dc_name for c in client.constraints(DEFAULT, db, "t")],
        "cc": [c.dc_name for c in client.constraints(CHECK, db, "t")],
    }
    assert names == {name: [name] for name in names}
    assert client.constraints(PRIMARY_KEY, db, "t") == []
    for name in ("fk", "uk", "nn", "dc", "cc"):
        client.drop_constraint(db, "t", name)
    assert client.constraints(FOREIGN_KEY, db, "t") == client.constraints(UNIQUE, db, "t") == []
    with pytest.raises(NotFound):
        client.drop_constraint(db, "t", "uk")
