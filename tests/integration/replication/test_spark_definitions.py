"""Definitions as Spark stores them, on real metastores: their copies name nothing of the source.
``test_spark_tables`` runs Spark itself."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from daemon.replica.status.unreplicated import list_unreplicated
from dev.stack.endpoints import ClusterEndpoints
from handlers.files.paths import parse_location
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.spark_tables import a_spark_partition, a_spark_table, path_of
from tests.builders.replication.verification import verify


def put_row(location: str | None) -> None:
    """Write a file into a directory of the source."""
    directory = Path(parse_location(location or "").path)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "a").write_text("1\n")


def create_tables(metastore: Metastore, db: str, root: str) -> None:
    """Create a table whose location is Spark's ``path``, a partitioned one, and one with a placeholder."""
    metastore.create_database(Database(name=db, locationUri=f"{root}/{db}.db"))
    for name, path in (("same", None), ("elsewhere", f"{root}/files/elsewhere")):
        location = f"{root}/files/{name}" if path is None else f"{root}/{db}.db/{name}-__PLACEHOLDER__"
        put_row(path or location)
        metastore.create_table(a_spark_table(name, db=db, location=location, path=path, provider="csv"))
    owner = a_spark_table("parts", db=db, location=f"{root}/files/parts", partition_columns=("dt",))
    metastore.create_table(owner)
    partition = a_spark_partition(owner, "a")
    put_row(partition.sd.location)
    metastore.add_partitions(db, "parts", [partition])


@pytest.mark.parametrize("start", ["events", "bootstrap"])
@pytest.mark.parametrize("has_base", [True, False], ids=["with a base", "without a base"])
def test_the_path_of_spark_is_replaced_wherever_a_definition_contains_it(
    start: str, source: ClusterEndpoints, target: ClusterEndpoints, database: str, *, has_base: bool
) -> None:
    root = f"file:{source.external}/{database}"
    base = f"file:{target.external}/base_{database}" if has_base else None
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_tables(metastore, database, root)
    built = build_replica(
        source.metastore,
        target.metastore,
        db=database,
        roots=[source.external],
        start=before if start == "events" else True,
        external_base=base,
    )
    built.follow()
    assert built.quarantined() == {}
    listed = [each for status in list_unreplicated("p", built.context) for each in status.listed]
    expected = [] if has_base else [(f"{database}.elsewhere", "spark-path")]
    assert [(each.name, each.code) for each in listed] == expected
    require_own_paths(built, root, ["same", *(["elsewhere"] if has_base else [])])
    results = verify(built, "same", "parts", *(["elsewhere"] if has_base else []))
    assert {name: (each.outcome.value, each.files) for name, each in results.items()} == dict.fromkeys(
        results, ("equal", 1)
    )
    built.projection.close()


def require_own_paths(replica: Replica, root: str, names: list[str]) -> None:
    """Require that each ``path`` of the target is its own directory, in which the row is."""
    db = replica.policy.target_db
    assert sorted(replica.target.table_names(db)) == sorted([*names, "parts"])
    for name in names:
        table = replica.target.get_table(db, name)
        path = path_of(table) or ""
        assert path == table.sd.location or name == "elsewhere"
        assert not path.startswith(root)
        assert (Path(parse_location(path).path) / "a").exists()
    owner = replica.target.get_table(db, "parts")
    (partition,) = replica.target.get_partitions(db, "parts", ["dt=a"])
    assert path_of(partition) == path_of(owner) == owner.sd.location
    assert (Path(parse_location(partition.sd.location or "").path) / "a").exists()
