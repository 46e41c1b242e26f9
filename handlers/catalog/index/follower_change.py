"""The changes of one transaction to the partition index.

Tables load in pieces: the index stores the partitions under another name, a few hundred in each transaction,
and they replace the table's content at the end by one rename. So a table of a million partitions loads in
bounded memory, answers show the previous content until then, events reach the staged content meanwhile, and a
crash costs at most one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from handlers.catalog.following.table_info import (
    AcceptedColumns,
    AlteredTable,
    ChangedStatistics,
    CreatedTable,
    DroppedPartition,
    ForgottenTable,
    PartitionChange,
    PartitionInfo,
    PutPartition,
    RenamedTable,
    Spec,
    TableChange,
    TableInfo,
    TableLoad,
)
from handlers.catalog.index.payload_reader import PayloadReader
from handlers.catalog.index.payloads import (
    make_dictionary,
    merge_statistics,
    normalize,
    pack,
    store_dictionary,
)
from handlers.catalog.index.table_records import (
    STAGED,
    TableRecord,
    TableRecords,
    digest_columns,
    table_location,
)
from handlers.structs.objects import Partition
from state.errors import MalformedEvent
from state.partitions.index.index_change import IndexChange
from state.store import Transaction


class PartitionFollowerChange:
    """The changes to tables and partitions, in order."""

    def __init__(
        self,
        txn: Transaction,
        own: Transaction,
        index: IndexChange,
        accepts: Callable[[TableInfo], bool],
        publish_counts: Callable[[Mapping[str, int | None]], None],
    ) -> None:
        """Change ``index`` in the transaction ``own``; ``txn`` is the catalog's transaction, which may be the
        same.

        ``publish_counts`` receives the result of ``TableRecords.list_changed``.
        """
        self._own = own
        self._has_own_store = own is not txn
        self._index = index
        self._records = TableRecords(txn, own)
        self._payloads = PayloadReader(own)
        self._accepts = accepts
        self._publish_counts = publish_counts
        self._changed_tables: Mapping[str, int | None] = {}

    @property
    def has_discarded(self) -> bool:
        """Whether the content of a table waits for its removal."""
        return self._index.has_discarded

    def apply(self, change: TableChange) -> bool:
        """Apply a change; while its table is loaded, apply it to the staged content. Return False if the
        table needs another load.
        """
        match change:
            case PutPartition() | DroppedPartition() | ChangedStatistics():
                self._apply_partition(change)
                return True
            case CreatedTable():
                self._create(change.table)
                return True
            case AlteredTable():
                return self._alter(change.table)
            case AcceptedColumns():
                self._accept_columns(change.table)
                return True
            case RenamedTable():
                return self._rename(change.old, change.table)
            case ForgottenTable():
                self._forget(change.name)
                return True

    def take_load(self, load: TableLoad) -> bool:
        """Stage a piece; after the last piece, replace the table's content by the staged content.

        Returns False if the columns of the staged content are not those of the table.
        """
        table, piece = load.listing.table, load.listing.piece
        assert piece is not None, table.name
        if piece.is_first:
            self._begin_staging(table)
        elif not self._is_current(table.name + STAGED, table):
            return False
        self._put_partitions(table.name + STAGED, piece.partitions)
        if piece.is_last:
            self._finish_staging(table)
        return True

    def _create(self, table: TableInfo) -> None:
        """Index the table, without partitions."""
        self._forget(table.name)
        self._index.follow(table.name, table.keys)
        self._records.save(table.name, self._make_record(table))

    def _alter(self, table: TableInfo) -> bool:
        """Apply an altered table; return False if its partition or data columns changed, because no event
        reports the effect of CASCADE on partitions.
        """
        if not self._accepts(table):
            self._forget(table.name)
            return True
        target = self._target(table.name)
        if target is None or not self._is_current(target, table):
            return False
        record = self._make_record(table)
        if record != self._records.get(target):
            self._records.save(target, record)
        return True

    def _accept_columns(self, table: TableInfo) -> None:
        """Record the table's data columns; its partitions keep theirs."""
        if self._records.get(table.name) is not None:
            self._records.save(table.name, self._make_record(table))

    def _rename(self, old: str, table: TableInfo) -> bool:
        """Move the partitions to the new name;
        return False if directories or write ids may have changed.
        """
        before = self._records.get(old)
        if before is None or not self._accepts(table) or self._has_own_store:
            # The index's own store may already have the new name: a repeated rename would remove it.
            self._forget(old)
            return False
        self._index.rename(old, table.name)
        self._records.move(old, table.name)
        return before.location == table_location(table) and table.parameters.get("transactional") != "true"

    def _forget(self, name: str) -> None:
        """Forget the table's partitions and its staged partitions."""
        for each in (name, name + STAGED):
            self._index.forget(each)
            self._records.remove(each)

    def _apply_partition(self, change: PartitionChange) -> None:
        """Apply a change of one partition, if its table has content."""
        target = self._target(change.name)
        if target is None:
            return
        match change:
            case PutPartition():
                self._put_partitions(target, [change.partition])
            case DroppedPartition():
                self._drop(target, change.spec)
            case ChangedStatistics():
                self._update_statistics(target, change)

    def _update_statistics(self, target: str, change: ChangedStatistics) -> None:
        """Merge the parameters into the partition; an unknown one will be in the listing."""
        values = self._values_of(target, change.spec)
        payload = self._index.payload(target, values)
        if payload is None:
            return
        db, _, table = change.name.partition(".")
        before = self._payloads.unpack(payload, db, table)
        changed = merge_statistics(before, change.parameters, change.write_id)
        self._index.alter(target, values, self._pack(target, changed))

    def _drop(self, target: str, spec: Spec) -> None:
        """Drop the partition if it is known."""
        values = self._values_of(target, spec)
        if self._index.payload(target, values) is not None:
            self._index.drop(target, values)
            self._records.count(target, -1)

    def _begin_staging(self, table: TableInfo) -> None:
        """Start staging the table, without partitions."""
        staged = table.name + STAGED
        self._index.forget(staged)
        self._index.follow(staged, table.keys)
        self._records.remove(staged)
        self._records.save(staged, self._make_record(table))

    def _finish_staging(self, table: TableInfo) -> None:
        """Replace the table's content by the staged content."""
        staged = table.name + STAGED
        self._index.rename(staged, table.name)
        self._records.move(staged, table.name)
        self._records.save(table.name, self._make_record(table))

    def publish(self) -> None:
        """Make the changes visible to readers."""
        self._index.publish()
        self._publish_counts(self._changed_tables)

    def flush(self) -> None:
        """Write the table records; must be the last call in the transaction."""
        self._changed_tables = self._records.list_changed()
        self._records.flush()

    def _target(self, name: str) -> str | None:
        """Return the current name of a table's partitions in the store: the staged one while it is loaded."""
        for each in (name + STAGED, name):
            if self._index.follows(each) and self._records.get(each) is not None:
                return each
        return None

    def _put_partitions(self, target: str, partitions: Sequence[PartitionInfo]) -> None:
        by_values = {tuple(one.values): one for one in map(_normalize, partitions)}
        payloads = self._index.payloads(target, list(by_values))
        for values, partition in by_values.items():
            self._index.add(target, values, self._pack(target, partition))
        self._records.count(target, payloads.count(None))

    def _pack(self, target: str, partition: Partition) -> bytes:
        record = self._records.get(target)
        assert record is not None, target
        number = bytes.fromhex(record.dictionary)
        return pack(partition, number, self._payloads.dictionary(number))

    def _values_of(self, target: str, spec: Spec) -> list[str]:
        columns = [column.name for column in self._index.columns(target)]
        if set(columns) != set(spec):
            raise MalformedEvent(
                "the columns of a partition differ from those of its table", columns=columns, spec=dict(spec)
            )
        return [spec[column] for column in columns]

    def _is_current(self, name: str, table: TableInfo) -> bool:
        """Whether the content under ``name`` has the partition columns and data columns of ``table``."""
        record = self._records.get(name)
        if record is None or not self._index.follows(name):
            return False
        indexed = [(column.name, column.declared) for column in self._index.columns(name)]
        return indexed == table.keys and record.columns == digest_columns(table)

    def _make_record(self, table: TableInfo) -> TableRecord:
        assert table.whole is not None, table.name
        return TableRecord.of(table, store_dictionary(self._own, make_dictionary(table.whole)))


def _normalize(info: PartitionInfo) -> Partition:
    if info.partition is None:
        raise MalformedEvent(
            "a partition of the index must be listed whole, not by name", spec=dict(info.spec)
        )
    return normalize(info.partition, is_new=info.is_new)
