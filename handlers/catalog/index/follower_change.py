"""One transaction's changes to the partition index.

Tables are loaded in pieces (``Staging``): the partitions go under another name in the index, a few hundred per transaction, and
take the table's place at the end by one rename. So a table of a million partitions is loaded in bounded memory, answers from
before stay whole until then, events reach what is staged meanwhile, and a crash costs the piece it hit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.catalog.index.payloads import (
    Packer,
    make_dictionary,
    merge_statistics,
    normalize,
    store_dictionary,
)
from handlers.catalog.index.table_records import (
    STAGED,
    IndexRecord,
    IndexRecords,
    digest_columns,
    table_location,
)
from state.errors import MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from handlers.catalog.following.table_info import PartitionInfo, Spec, TableInfo
    from handlers.structs.objects import Partition
    from state.partitions.index.index_change import IndexChange
    from state.store import Transaction


class PartitionFollowerChange:
    """What happened to tables and partitions, in order."""

    def __init__(
        self,
        txn: Transaction,
        own: Transaction,
        index: IndexChange,
        accepts: Callable[[TableInfo], bool],
        show: Callable[[Mapping[str, int | None]], None],
    ) -> None:
        """Change ``index`` through ``own``; ``txn`` is the catalog's, perhaps the same. ``show`` takes ``IndexRecords.shown``."""
        self._own = own
        self._is_apart = own is not txn
        self._index = index
        self._records = IndexRecords(txn, own)
        self._packer = Packer(own)
        self._wants = accepts
        self._show = show
        self._shown: Mapping[str, int | None] = {}
        self.doubtful: set[str] = set()

    @property
    def staging(self) -> PartitionFollowerChange:
        """Itself."""
        return self

    def create_table(self, table: TableInfo) -> None:
        """Index it, empty."""
        self.forget_table(table.name)
        self._index.follow(table.name, table.keys)
        self._records.save(table.name, self._record_of(table))

    def alter_table(self, table: TableInfo) -> None:
        """Have it loaded again where partition columns differ, or where its data columns do: CASCADE is in no event."""
        if not self._wants(table):
            self.forget_table(table.name)
            return
        target = self._target(table.name)
        if target is None or not self._is_of(target, table):
            self.doubtful.add(table.name)
        elif (known := self._records.get(target)) is not None:
            record = self._record_of(table)
            if record != known:
                self._records.save(target, record)

    def rename_table(self, old: str, table: TableInfo) -> None:
        """Carry the partitions over; where directories moved, or write ids may have, the table is loaded again too."""
        before = self._records.get(old)
        if before is None or not self._wants(table) or self._is_apart:
            # In a store of its own the new name may have been written before: a repeated rename would take that away.
            self.forget_table(old)
            self.doubtful.add(table.name)
            return
        self.forget_table(table.name)
        self._index.rename(old, table.name)
        self._records.move(old, table.name)
        if before.location != table_location(table) or table.parameters.get("transactional") == "true":
            self.doubtful.add(table.name)

    def forget_table(self, name: str) -> None:
        """Forget its partitions, and those that were staged."""
        for each in (name, name + STAGED):
            self._index.forget(each)
            self._records.remove(each)

    def load_from_properties(self, table: TableInfo) -> bool:  # noqa: ARG002 - the same for all tables
        """It cannot be."""
        return False

    def load_partitions(self, table: TableInfo, partitions: Iterable[PartitionInfo]) -> None:
        """Take all at once."""
        self.begin(table)
        self._put(table.name + STAGED, list(partitions))
        self.finish(table)

    def put_partition(self, name: str, partition: PartitionInfo) -> None:
        """Add or replace it, where it is staged if the table is under load."""
        target = self._target(name)
        if target is not None:
            self._put(target, [partition])

    def update_statistics(
        self, name: str, spec: Spec, parameters: Mapping[str, str], write_id: int | None
    ) -> None:
        """Change its parameters; one that is not known comes with the listing."""
        target = self._target(name)
        values = None if target is None else self._values(target, spec)
        payload = None if target is None or values is None else self._index.payload(target, values)
        if target is None or values is None or payload is None:
            return
        db, _, table = name.partition(".")
        changed = merge_statistics(self._packer.unpack(payload, db, table), parameters, write_id)
        self._index.alter(target, values, self._packed(target, changed))

    def drop_partition(self, name: str, spec: Spec) -> None:
        """Drop it."""
        target = self._target(name)
        if target is not None:
            values = self._values(target, spec)
            if self._index.payload(target, values) is not None:
                self._index.drop(target, values)
                self._records.count(target, -1)

    def begin(self, table: TableInfo) -> None:
        """Stage it, empty."""
        staged = table.name + STAGED
        self._index.forget(staged)
        self._index.follow(staged, table.keys)
        self._records.remove(staged)
        self._records.save(staged, self._record_of(table))

    def fits(self, table: TableInfo) -> bool:
        """Whether it has the columns of what is staged."""
        return self._is_of(table.name + STAGED, table)

    def stage(self, name: str, partitions: Sequence[PartitionInfo]) -> None:
        """Write a piece."""
        self._put(name + STAGED, partitions)

    def finish(self, table: TableInfo) -> None:
        """Put what is staged in the table's place."""
        staged = table.name + STAGED
        self._index.rename(staged, table.name)
        self._records.move(staged, table.name)
        self._records.save(table.name, self._record_of(table))

    def publish(self) -> None:
        """Show the index."""
        self._index.publish()
        self._show(self._shown)

    def flush(self) -> None:
        """Write what is told once for each table: the last thing in the transaction."""
        self._shown = self._records.shown()
        self._records.flush()

    def _target(self, name: str) -> str | None:
        """Return where the partitions of a table go: to what is staged while it is under load."""
        for each in (name + STAGED, name):
            if self._index.follows(each) and self._records.get(each) is not None:
                return each
        return None

    def _put(self, target: str, partitions: Sequence[PartitionInfo]) -> None:
        found = {tuple(one.values): one for one in map(_settled, partitions)}
        known = self._index.payloads(target, list(found))
        for values, partition in found.items():
            self._index.add(target, values, self._packed(target, partition))
        self._records.count(target, known.count(None))

    def _packed(self, target: str, partition: Partition) -> bytes:
        record = self._records.get(target)
        assert record is not None, target
        return self._packer.pack(partition, bytes.fromhex(record.dictionary))

    def _values(self, target: str, spec: Spec) -> list[str]:
        columns = [column.name for column in self._index.columns(target)]
        if set(columns) != set(spec):
            raise MalformedEvent(
                "a partition has other columns than its table", columns=columns, spec=dict(spec)
            )
        return [spec[column] for column in columns]

    def _is_of(self, name: str, table: TableInfo) -> bool:
        """Whether what is indexed under ``name`` has the partition columns and data columns of ``table``."""
        record = self._records.get(name)
        if record is None or not self._index.follows(name):
            return False
        indexed = [(column.name, column.declared) for column in self._index.columns(name)]
        return indexed == table.keys and record.columns == digest_columns(table)

    def _record_of(self, table: TableInfo) -> IndexRecord:
        assert table.whole is not None, table.name
        return IndexRecord.of(table, store_dictionary(self._own, make_dictionary(table.whole)))


def _settled(seen: PartitionInfo) -> Partition:
    if seen.partition is None:
        raise MalformedEvent("a partition is known by its name alone", spec=dict(seen.spec))
    return normalize(seen.partition, is_new=seen.is_new)
