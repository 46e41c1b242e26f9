"""Cycles of a replica's external tables that a test runs itself, in its own thread, and a source that counts
what is read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

from handlers.files.copying.pool import CopyPool
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.external.cycle import CycleProgress, ExternalCycle, ExternalSettings
from handlers.replication.external.records import CopyRecords
from handlers.replication.target.external_tables import ExternalTables
from handlers.structs.objects import FieldSchema, Partition, StorageDescriptor, Table
from state.external.directories import TableDirectories
from state.store import Store
from state.store.memory import MemoryStore


@dataclass
class ExternalCopies:
    """The external tables of one replica; its records survive from cycle to cycle."""

    context: Context
    settings: ExternalSettings = field(
        default_factory=lambda: ExternalSettings(every_s=60, delete=False, workers=4)
    )
    store: Store = field(default_factory=MemoryStore)
    stopping: threading.Event = field(default_factory=threading.Event)

    def open_pool(self) -> CopyPool:
        """Return new copy threads, protected as those of the daemon."""
        return CopyPool(self.context.build_copier(), workers=4)

    def build(self, source: Any, target: Any, copies: CopyPool) -> ExternalCycle:
        """Return a cycle over these clients."""
        return ExternalCycle(
            self.context,
            self.settings,
            CopyRecords(self.store),
            source=source,
            target=target,
            copies=copies,
            stopping=self.stopping,
        )

    def run(self) -> CycleProgress:
        """Run one cycle to its end and return its result."""
        with (
            closing(self.context.source.clone()) as source,
            closing(self.context.target.clone()) as target,
            closing(self.open_pool()) as copies,
        ):
            cycle = self.build(source, target, copies)
            cycle.run()
            return cycle.progress


@dataclass
class Source:
    """The calls that are made to the source's metastore; ``reads`` counts them."""

    tables: dict[str, Table] = field(default_factory=dict)
    partitions: dict[str, dict[str, str]] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    def create(self, name: str, location: str, *, partitioned: bool = False, external: bool = True) -> Table:
        self.tables[name] = Table(
            tableName=name,
            dbName="shop",
            sd=StorageDescriptor(location=location),
            partitionKeys=[FieldSchema(name="dt", type="string")] if partitioned else [],
            tableType="EXTERNAL_TABLE" if external else "MANAGED_TABLE",
        )
        return self.tables[name]

    def get_tables(self, _db: str, names: Sequence[str]) -> list[Table]:
        self.reads += names
        return [self.tables[name] for name in names if name in self.tables]

    def get_table(self, _db: str, name: str) -> Table:
        return self.tables[name]

    def partition_names(self, _db: str, table: str) -> list[str]:
        self.reads.append(f"{table}/*")
        return sorted(self.partitions.get(table, {}))

    def get_partitions(
        self, _db: str, table: str, names: Sequence[str], *, with_columns: bool
    ) -> list[Partition]:
        assert not with_columns
        return [partition(name, self.partitions[table][name]) for name in names]

    def refresh(self, known: ExternalTables, *names: str, load: object = None) -> list[TableDirectories]:
        self.reads.clear()
        found, errors = known.refresh(cast("Metastore", self), "shop", names, lambda _: load)
        assert not errors
        return found


def partition(name: str, location: str) -> Partition:
    values = [name.partition("=")[2]]
    return Partition(
        values=values, dbName="shop", tableName="parts", sd=StorageDescriptor(cols=[], location=location)
    )
