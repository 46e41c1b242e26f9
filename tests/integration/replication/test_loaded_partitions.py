"""Which partitions a load alters after it has added them, on two real clusters, also after a try that was
killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from dev.fixtures.hive_tables import ACID, a_partition, a_table, whole_number_statistics
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from handlers.replication.loading.table.load import load_table
from handlers.replication.tables.table_loads import TableLoad
from handlers.replication.target.objects import ACCURATE
from handlers.structs.objects import Database, Partition
from tests.builders.replication.fake_target import Killed
from tests.builders.replication.loads import load_tools, waiting_load
from tests.builders.replication.replica import Replica, build_replica


TABLE = "visits"
BASIC = {ACCURATE: '{"BASIC_STATS":"true"}', "numFiles": "1", "numRows": "2", "totalSize": "30"}


@dataclass
class Loaded:
    """A replica whose source has a table with partitions, and one load of this table."""

    replica: Replica
    writer: WritingMetastore
    altered: list[list[str]] = field(default_factory=list)
    """The partitions that the target has altered, by call."""
    entry: TableLoad = field(default_factory=lambda: waiting_load(TABLE))

    def load(self) -> None:
        """Load the table, or continue with the load."""
        load_table(self.entry, load_tools(self.replica))

    def die_in(self, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Load the table, and kill the load instead of the first call of this name to the target."""

        def die(*_: object, **__: object) -> None:
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(self.replica.target, call, die)
            with pytest.raises(Killed):
                self.load()

    @property
    def db(self) -> str:
        return self.replica.policy.source_db

    def create(self, parameters: dict[str, str] | None, **partitions: dict[str, str]) -> None:
        """Create the table at the source, with the partitions and their parameters."""
        self.writer.create_table(
            a_table(self.db, TABLE, partition_keys=["dt"], parameters=parameters, external=parameters is None)
        )
        table = self.writer.get_table(self.db, TABLE)
        made = [a_partition(table, value, parameters=own) for value, own in partitions.items()]
        self.writer.add_partitions(self.db, TABLE, made, environment={"DO_NOT_UPDATE_STATS": "true"})

    def change(self, value: str, parameters: dict[str, str]) -> None:
        """Alter a partition of the source."""
        partition = self.writer.get_partition(self.db, TABLE, [value])
        partition.parameters = {**(partition.parameters or {}), **parameters}
        environment = {"DO_NOT_UPDATE_STATS": "true"}
        self.writer.alter_partitions(self.db, TABLE, [partition], environment=environment)

    def give_statistics(self, value: str) -> None:
        """Write column statistics of a partition of the source."""
        statistics = whole_number_statistics(self.db, TABLE, "id", 2, partition_name=f"dt={value}")
        self.writer.update_partition_statistics(statistics)

    def give_outdated_statistics(self, value: str) -> None:
        """Write column statistics of a partition of the source, and remove the mark, as a change of rows
        does."""
        self.give_statistics(value)
        partition = self.writer.get_partition(self.db, TABLE, [value])
        partition.parameters = {k: v for k, v in (partition.parameters or {}).items() if k != ACCURATE}
        self.writer.alter_partitions(self.db, TABLE, [partition])

    def require_equal(self) -> None:
        """Assert that parameters, marks and column statistics of all partitions are those of the source."""
        assert self.replica.differences(files=False) == []
        target_db = self.replica.policy.target_db
        for ours in self.writer.all_partitions(self.db, TABLE):
            theirs = self.replica.target.get_partition(target_db, TABLE, ours.values)
            assert theirs.parameters == ours.parameters
            assert theirs.lastAccessTime == ours.lastAccessTime
        names = self.writer.partition_names(self.db, TABLE)
        ours_all = self.writer.partition_statistics(self.db, TABLE, names, ["id"])
        assert self.replica.target.partition_statistics(target_db, TABLE, names, ["id"]) == ours_all


@pytest.fixture
def loaded(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Loaded]:
    roots = [source.warehouse, source.external, source.cmroot]
    with closing(WritingMetastore([source.metastore])) as writer:
        writer.create_database(Database(name=database, parameters={"repl.source.for": "tests"}))
        replica = build_replica(source.metastore, target.metastore, db=database, roots=roots, start=False)
        replica.target.create_database(Database(name=replica.policy.target_db))
        made = Loaded(replica, writer)
        alter = replica.target.alter_partitions

        def record(db: str, table: str, partitions: Sequence[Partition], **options: Any) -> None:
            made.altered.append([each.values[0] for each in partitions])
            alter(db, table, partitions, **options)

        monkeypatch.setattr(replica.target, "alter_partitions", record)
        yield made
        replica.projection.close()


@pytest.mark.parametrize("parameters", [ACID, None], ids=["transactional", "external"])
def test_partitions_without_write_id_are_only_added(
    loaded: Loaded, parameters: dict[str, str] | None
) -> None:
    loaded.create(parameters, a={"note": "x"}, b={}, c=BASIC if parameters is None else {})
    loaded.load()
    assert loaded.altered == []
    loaded.require_equal()


def test_only_partitions_with_column_statistics_are_altered_and_keep_their_marks(loaded: Loaded) -> None:
    """Hive marks the statistics of a partition as accurate when they are written, also those that are
    outdated at the source."""
    loaded.create(None, accurate=BASIC, outdated={}, without=BASIC)
    loaded.give_statistics("accurate")
    loaded.give_outdated_statistics("outdated")
    loaded.load()
    assert loaded.altered == [["accurate", "outdated"]]
    loaded.require_equal()


def test_a_load_that_continues_alters_the_partitions_that_the_source_has_changed_since(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded.create(None, a={"note": "x"}, b={"note": "x"}, c={"note": "x"})
    loaded.die_in("alter_table", monkeypatch)
    loaded.change("b", {"note": "y"})
    loaded.load()
    assert loaded.altered == [["b"]]
    loaded.require_equal()


def test_a_load_that_was_killed_between_statistics_and_marks_writes_the_marks_when_it_continues(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source deletes the statistics meanwhile, so that only the comparison with the target shows what is
    left of them."""
    loaded.create(None, a=BASIC, b=BASIC)
    loaded.give_outdated_statistics("a")
    loaded.die_in("alter_partitions", monkeypatch)
    loaded.writer.delete_partition_statistics(loaded.db, TABLE, "dt=a", "id")
    loaded.load()
    assert loaded.altered == [["a"]]
    ours = loaded.writer.get_partition(loaded.db, TABLE, ["a"])
    theirs = loaded.replica.target.get_partition(loaded.replica.policy.target_db, TABLE, ["a"])
    assert theirs.parameters == ours.parameters
