"""A source that exists in memory: tables and partitions, the events that its changes cause, and the calls that loading makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from handlers.events import (
    DatabaseDropped,
    Embedded,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
)
from handlers.structs import tjson
from handlers.structs.objects import FieldSchema, Partition, Table
from handlers.structs.statistics import ColumnStatistics
from state.errors import NotFound
from tests.builders.hive_tables import a_partition, a_table, whole_number_statistics


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from handlers.structs.struct import Struct


S = TypeVar("S", bound="Struct")
DB = "db"


def embedded(kind: type[S], value: S) -> Embedded[S]:
    """An object as a message holds it."""
    return Embedded(tjson.encode(value), lambda text: tjson.decode(kind, text))


class ModelSource:
    """One database; every change appends its event. ``meanwhile`` is called while a table is listed, to change it then."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.partitions: dict[str, dict[tuple[str, ...], Partition]] = {}
        self.events: list[Event] = []
        self.listings = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.broken: Exception | None = None
        self.parameters: dict[str, str] = {}
        """What every table that is made has."""

    def create(
        self, name: str, columns: Sequence[str] = ("dt", "x"), parameters: dict[str, str] | None = None
    ) -> None:
        table = a_table(
            DB, name, partition_keys=columns, parameters=parameters or self.parameters, location=f"/w/{name}"
        )
        self.tables[name], self.partitions[name] = table, {}
        self._log(TableCreated, "CREATE_TABLE", name, after=embedded(Table, table))

    def add(self, name: str, *values: str, parameters: dict[str, str] | None = None) -> None:
        partition = a_partition(self.tables[name], *values, parameters=parameters)
        self.partitions[name][values] = partition
        told = partition.copy()
        told.writeId = len(self.events) + 1  # Hive logs it and does not store it
        self._log(PartitionsAdded, "ADD_PARTITION", name, owner=None, partitions=(embedded(Partition, told),))

    def alter_partition(self, name: str, values: tuple[str, ...], parameters: dict[str, str]) -> None:
        after = self.partitions[name][values].copy()
        after.parameters, after.writeId = dict(parameters), len(self.events)
        self.partitions[name][values] = after
        self._log(
            PartitionsAltered, "ALTER_PARTITIONS", name, owner=None, after=(embedded(Partition, after),)
        )

    def describe(self, name: str, values: tuple[str, ...], parameters: dict[str, str]) -> None:
        """Compute statistics, which changes parameters of a partition."""
        after = self.partitions[name][values].copy()
        after.parameters = {**(after.parameters or {}), **parameters}
        self.partitions[name][values] = after
        columns = [key.name for key in self.tables[name].partitionKeys or []]
        partition_name = "/".join(f"{c}={v}" for c, v in zip(columns, values, strict=True))
        statistics = whole_number_statistics(DB, name, "id", 1, partition_name=partition_name)
        self._log(
            StatisticsUpdated,
            "UPDATE_PART_COL_STAT_EVENT",
            name,
            owner=None,
            statistics=embedded(ColumnStatistics, statistics),
            parameters=parameters,
        )

    def cascade(self, name: str) -> None:
        """Add a data column to a table and its partitions, of which only the table's event tells."""
        before = self.tables[name]
        after = before.copy()
        column = FieldSchema(name=f"c{len(self.events)}", type="int")
        after.sd.cols = [*(before.sd.cols or []), column]
        self.tables[name] = after
        for values, partition in self.partitions[name].items():
            changed = partition.copy()
            changed.sd.cols = [*(changed.sd.cols or []), column]
            self.partitions[name][values] = changed
        self._log(
            TableAltered, "ALTER_TABLE", name, before=embedded(Table, before), after=embedded(Table, after)
        )

    def drop(self, name: str, *values: str) -> None:
        del self.partitions[name][values]
        columns = [key.name for key in self.tables[name].partitionKeys or []]
        spec = dict(zip(columns, values, strict=True))
        self._log(PartitionsDropped, "DROP_PARTITION", name, owner=None, specs=(spec,))

    def rename_partition(self, name: str, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        before = self.partitions[name].pop(old)
        after = self.partitions[name][new] = a_partition(self.tables[name], *new)
        self._log(
            PartitionsAltered,
            "ALTER_PARTITION",
            name,
            owner=None,
            before=embedded(Partition, before),
            after=(embedded(Partition, after),),
        )

    def rename(self, old: str, new: str) -> None:
        self.alter(old, new, self.tables[old].parameters or {})

    def alter(self, old: str, new: str, parameters: dict[str, str]) -> None:
        before = self.tables.pop(old)
        after = before.copy()
        after.tableName, after.parameters = new, dict(parameters)
        self.tables[new], self.partitions[new] = after, self.partitions.pop(old)
        # The event has the new name, as Hive 4 writes it.
        self._log(
            TableAltered, "ALTER_TABLE", new, before=embedded(Table, before), after=embedded(Table, after)
        )

    def drop_table(self, name: str) -> None:
        del self.tables[name], self.partitions[name]
        self._log(TableDropped, "DROP_TABLE", name)

    def drop_database(self) -> None:
        for name in list(self.tables):
            self.drop_table(name)
        self._log(DatabaseDropped, "DROP_DATABASE", None)

    def log(self, event: type[Event], kind: str, table: str | None, **fields: object) -> None:
        """Append an event that the model does not know."""
        self._log(event, kind, table, **fields)

    def _log(self, event: type[Event], kind: str, table: str | None, **fields: object) -> None:
        common = {"event_id": len(self.events) + 1, "time_s": 0, "kind": kind, "db": DB, "table": table}
        self.events.append(event(**common, **fields))  # type: ignore[arg-type]  # fields are the event's

    # what the loader asks

    def current_event_id(self) -> int:
        if self.broken is not None:
            raise self.broken
        return len(self.events)

    def database_names(self) -> list[str]:
        return [DB]

    def table_names(self, db: str) -> list[str]:
        assert db == DB
        return sorted(self.tables)

    def get_tables(self, db: str, names: Sequence[str]) -> list[Table]:
        assert db == DB
        return [self.tables[name] for name in names]

    def get_table(self, db: str, name: str) -> Table:
        assert db == DB
        if name not in self.tables:
            raise NotFound("no such table", table=name)
        return self.tables[name]

    def partition_names(self, db: str, name: str) -> list[str]:
        assert db == DB
        self.listings += 1
        columns = [key.name for key in self.tables[name].partitionKeys or []] if name in self.tables else []
        names = [
            "/".join(f"{column}={value}" for column, value in zip(columns, values, strict=True))
            for values in self.partitions.get(name, ())
        ]
        self.meanwhile()
        return names

    def get_partitions(self, db: str, name: str, names: Sequence[str]) -> list[Partition]:
        assert db == DB
        self.meanwhile()
        columns = [key.name for key in self.tables[name].partitionKeys or []] if name in self.tables else []
        found = {
            "/".join(f"{column}={value}" for column, value in zip(columns, values, strict=True)): partition
            for values, partition in self.partitions.get(name, {}).items()
        }
        return [found[one] for one in names if one in found]

    def all_partitions(self, db: str, name: str) -> Iterator[Partition]:
        assert db == DB
        self.listings += 1
        values = list(self.partitions.get(name, ()))
        for number, value in enumerate(values):
            if number == len(values) // 2:
                self.meanwhile()
            found = self.partitions.get(name, {}).get(value)
            if found is not None:
                yield found

    def close(self) -> None:
        """Nothing to release."""
