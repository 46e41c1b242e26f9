"""Reads the description of a table from one side, in pages:
the metastore's objects first, then the files that readers see.

It omits directories that readers do not see (obsolete, aborted, or of transactions that are still open), and
reads contents only for checksums. It lists several directories at a time, because each costs a round trip on
an object store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from handlers.files.filesystems import FileSystems, is_unfinished
from handlers.files.paths import AllowedRoots, Location, parse_location
from handlers.metastore.client import Metastore
from handlers.replication.effects.avro_schemas import describe_schemas
from handlers.replication.policy.locations import describe_locations, list_row_directories
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.replicability import is_view
from handlers.replication.target.objects import (
    ELSEWHERE,
    format_partition_name,
    is_external,
    is_insert_only,
    is_transactional,
    map_external_location,
    partition_key_names,
)
from handlers.replication.verification.descriptions import Description, Statistics
from handlers.replication.verification.facts import (
    Facts,
    describe_constraints,
    describe_function,
    describe_partition,
    describe_table,
)
from handlers.replication.verification.file_rules import AcidFiles, Files
from handlers.replication.verification.findings import NotCompared
from handlers.replication.verification.visible_files import list_acid_files, list_tree, read_md5
from handlers.structs.objects import Partition, Table
from handlers.structs.statistics import ColumnStatisticsObj
from handlers.structs.struct import Struct
from state.errors import NotFound
from state.transactions.valid_write_ids import ValidWriteIds


PAGE: Final = 500
"""Partitions of a page, compared and forgotten before the next one is read."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison."""

    metastore: Metastore
    db: str
    files: FileSystems
    executor: Executor
    policy: Policy
    at_source: bool
    allowed: AllowedRoots | None = None
    """The directories from which files may be read; None at the target."""
    checksums: bool = False
    beat: Callable[[], None] = lambda: None

    def find_table(self, name: str) -> OneTable | None:
        """Return the table, with its write-id list; None if it does not exist."""
        try:
            table = self.metastore.get_table(self.db, name)
        except NotFound:
            return None
        acid = is_transactional(table) and self.policy.copies_rows(name)
        write_ids = self.metastore.valid_write_ids([f"{self.db}.{name}"])[0] if acid else None
        return OneTable(self, table, write_ids)

    def describe_functions(self) -> Facts:
        """Return a fact for each function of the database; one that is dropped meanwhile is left out."""
        facts: Facts = {}
        for name in self.metastore.function_names(self.db):
            with suppress(NotFound):
                function = self.metastore.get_function(self.db, name)
                facts["function", name.lower()] = describe_function(
                    function, self.policy if self.at_source else None
                )
                self.beat()
        return facts


@dataclass(frozen=True, slots=True)
class OneTable:
    """A table on one side. Its files are listed under the write-id list read before them."""

    side: Side
    table: Table
    write_ids: ValidWriteIds | None
    is_placed_by_target: bool = False
    """Whether the target chose the location, although the table is external there
    (``translate_plain_table``)."""

    @property
    def name(self) -> str:
        """The table's name."""
        return (self.table.tableName or "").lower()

    @property
    def is_partitioned(self) -> bool:
        """Whether rows are in partitions."""
        return bool(self.table.partitionKeys) and not is_view(self.table)

    @property
    def is_below_base(self) -> bool:
        """Whether the target has the table at the place of the source's location below ``external_base``."""
        has_base = self.side.policy.external_base is not None
        return has_base and is_external(self.table) and not self.is_placed_by_target

    @property
    def _base(self) -> str | None:
        return self.side.policy.external_base if self.is_below_base else None

    @property
    def has_files(self) -> bool:
        """Whether the table has replicated rows in its own files."""
        return not is_view(self.table) and bool(self.table.sd.location) and self.copies_rows

    @property
    def copies_rows(self) -> bool:
        """Whether the table's rows are replicated."""
        return self.side.policy.copies_rows(self.name)

    def describe(self) -> Description:
        """Return the description of the table itself; without partitions, with files and statistics."""
        side = self.side
        described = describe_schemas(self.table, side.files, {}, side.allowed, at_source=side.at_source)
        described = describe_locations(described, self._base, at_source=side.at_source)
        facts = describe_table(described, side.policy if side.at_source else None)
        if self.is_below_base:
            facts["location", ""] = self._map(self.table.sd.location)
        not_compared = self._add_constraints(facts)
        if not self.has_files or self.is_partitioned:
            return Description(facts, self._statistics(self.table, {}), not_compared=not_compared)
        columns = _texts(self._column_statistics())
        files, acid_files = self._list_all_files()
        return Description(
            facts, self._statistics(self.table, columns), files, acid_files, not_compared=not_compared
        )

    def partition_names(self) -> list[str]:
        """Return the names of all partitions, sorted."""
        return sorted(self.side.metastore.partition_names(self.side.db, self.name))

    def describe_partitions(self, names: Sequence[str]) -> dict[str, Description]:
        """Return the descriptions of those of the named partitions that exist, by name."""
        keys = partition_key_names(self.table)
        partitions = {
            format_partition_name(keys, list(each.values or [])): each
            for each in self.side.metastore.get_partitions(self.side.db, self.name, names)
        }
        digests: dict[Location, str] = {}
        side = self.side
        partitions = {
            name: describe_schemas(each, side.files, digests, side.allowed, at_source=side.at_source)
            for name, each in partitions.items()
        }
        if not self.copies_rows:
            return {name: self._describe_partition(each, {}, {}, {}) for name, each in partitions.items()}
        columns = self._partition_column_statistics(list(partitions))
        listed = self.side.executor.map(
            self.list_files, [each.sd.location or "" for each in partitions.values()]
        )
        described = {}
        for (name, each), (files, acid_files) in zip(partitions.items(), listed, strict=True):
            described[name] = self._describe_partition(each, _texts(columns.get(name, ())), files, acid_files)
            self.side.beat()
        return described

    def _describe_partition(
        self, partition: Partition, columns: Mapping[str, str], files: Files, acid_files: AcidFiles
    ) -> Description:
        described = describe_locations(partition, self._base, at_source=self.side.at_source)
        facts = describe_partition(described.sd, described.parameters)
        location = self._partition_location(partition)
        if location is not None:
            facts["location", ""] = location
        return Description(facts, self._statistics(partition, columns), files, acid_files)

    def _partition_location(self, partition: Partition) -> str | None:
        """Return the partition's location in the form of both sides; None if it is outside of the table's
        directory, because the target then chooses it.
        """
        if self.is_below_base:
            return self._map(partition.sd.location)
        root, at = parse_location(self.table.sd.location or ""), parse_location(partition.sd.location or "")
        path = at.path[len(root.path) :] if root.contains(at) else None
        return None if path is not None and path.startswith(f"/{ELSEWHERE}") else path

    def _map(self, location: str | None) -> str:
        """Return a location as the target has it."""
        mapped = map_external_location(location, self.side.policy) if self.side.at_source else location
        return str(parse_location(mapped)) if mapped else ""

    def _add_constraints(self, facts: Facts) -> tuple[NotCompared, ...]:
        skipped = []
        if is_view(self.table):
            return ()
        policy = self.side.policy if self.side.at_source else None
        for kind, columns in self.side.metastore.all_constraints(self.side.db, self.name).items():
            for fact in describe_constraints(kind, columns, policy):
                if isinstance(fact, NotCompared):
                    skipped.append(fact)
                else:
                    facts[fact[0]] = fact[1]
        return tuple(skipped)

    def _statistics(self, item: Table | Partition, columns: Mapping[str, str]) -> Statistics:
        if not self.copies_rows:
            return Statistics({}, {})
        write_id = item.writeId or 0
        valid = self.write_ids is None or write_id <= 0 or self.write_ids.is_visible(write_id)
        transactional = self.write_ids is not None
        return Statistics(Statistics.select(item.parameters), columns, valid, write_id, transactional)

    def _column_names(self) -> list[str]:
        return [column.name or "" for column in self.table.sd.cols or []]

    def _column_statistics(self) -> list[ColumnStatisticsObj]:
        valid = self.write_ids.format() if self.write_ids else None
        return self.side.metastore.table_statistics(
            self.side.db, self.name, self._column_names(), valid_write_ids=valid
        )

    def _partition_column_statistics(self, names: list[str]) -> dict[str, list[ColumnStatisticsObj]]:
        if not names:
            return {}
        valid = self.write_ids.format() if self.write_ids else None
        return self.side.metastore.partition_statistics(
            self.side.db, self.name, names, self._column_names(), valid_write_ids=valid
        )

    @property
    def has_row_ids(self) -> bool:
        """Whether files hold ACID events; those of insert-only tables hold plain rows."""
        return self.write_ids is not None and not is_insert_only(self.table)

    def _list_all_files(self) -> tuple[Files, AcidFiles]:
        """Return the files in the directories of a table without partitions; the files of a second
        directory have a prefix.
        """
        first, *others = list_row_directories(self.table)
        files, acid_files = self.list_files(first)
        for other in others:
            files = {**files, **{f"path/{name}": file for name, file in self.list_files(other)[0].items()}}
        return files, acid_files

    def list_files(self, location: str, *, contents: bool = True) -> tuple[Files, AcidFiles]:
        """Return the files that readers see:
        those of a plain table, or those of a transactional one by directory.

        Without ``contents``, omits checksums even if the verification compares them.
        """
        root, allowed = parse_location(location), self.side.allowed
        if allowed is not None:
            allowed.require_directory(root)
        files = self.side.files.of(root)
        read = partial(read_md5, files) if self.side.checksums and contents else None
        if self.write_ids is None:
            return list_tree(files, root, read, skip=self._is_skipped), {}
        return {}, list_acid_files(files, root, self.write_ids, read)

    def _is_skipped(self, path: str) -> bool:
        """Whether a file is still being written at the source, so that it is not copied."""
        return self.side.at_source and is_unfinished(path)


def _texts(statistics: Iterable[ColumnStatisticsObj]) -> dict[str, str]:
    """Return the statistics of each column as text."""
    return {each.colName or "": _text(each.statsData) for each in statistics}


def _text(value: Any) -> str:
    """Return the set fields of a struct as text; bytes as a digest, because bit vectors are long."""
    if isinstance(value, bytes):
        return hashlib.md5(value, usedforsecurity=False).hexdigest()[:12]
    if not isinstance(value, Struct):
        return str(value)
    return ", ".join(f"{name}={_text(each)}" for name, each in value.set_fields().items())
