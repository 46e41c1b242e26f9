"""Events of tables of Spark: the directory that Spark reads follows the location, and rows come from where
Spark has them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from handlers.events import TableCreated
from handlers.structs.objects import Table
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import changed, created, embedded
from tests.builders.replication.spark_tables import a_spark_table, path_of


def creation(event_id: int, table: Table) -> TableCreated:
    event = created(event_id, table.tableName or "")
    object.__setattr__(event, "after", embedded(table))
    return event


def put(replica: FakedReplica, path: str) -> str:
    """Write a file at the source and return the directory that it is in."""
    file = replica.directory / "source" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("rows")
    return f"file:{file.parent}"


def test_the_path_is_the_location_that_the_target_has_chosen(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path)
    with closing(replica.projection):
        table = a_spark_table(location=put(replica, "orders/a"))
        replica.projection.apply([creation(1, table), creation(1, table)])
        present = replica.target.tables["orders"]
        assert path_of(present) == present.sd.location == f"file:{replica.target.warehouse}/orders"
        assert replica.files_on_target() == ["orders/a"]


@pytest.mark.parametrize("has_base", [True, False])
def test_the_path_follows_a_renamed_table(tmp_path: Path, *, has_base: bool) -> None:
    """As Spark renames a table that it knows to be managed: by a change of both."""
    base = f"file:{tmp_path}/target/base" if has_base else None
    replica = faked_replica(tmp_path, external_base=base)
    with closing(replica.projection):
        before = a_spark_table(location=put(replica, "orders/a"))
        after = a_spark_table("sold", location=put(replica, "sold/a"))
        replica.projection.apply([creation(1, before), changed(2, before, after)])
        present = replica.target.tables["sold"]
        expected = f"{base}{tmp_path}/source/sold" if has_base else f"file:{replica.target.warehouse}/sold"
        assert path_of(present) == present.sd.location == expected
        assert replica.stored_quarantine() == {}


def test_first_rows_come_from_the_path_if_the_location_is_a_placeholder(tmp_path: Path) -> None:
    base = f"file:{tmp_path}/target/base"
    replica = faked_replica(tmp_path, external_base=base)
    with closing(replica.projection):
        path = put(replica, "files/orders/a")
        location = f"file:{tmp_path}/source/orders-__PLACEHOLDER__"
        replica.projection.apply([creation(1, a_spark_table(location=location, path=path, provider="csv"))])
        present = replica.target.tables["orders"]
        assert path_of(present) == f"{base}{tmp_path}/source/files/orders"
        assert (tmp_path / f"target/base{tmp_path}/source/files/orders/a").exists()
        assert replica.stored_quarantine() == {}
