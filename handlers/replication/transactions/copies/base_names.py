"""The names of bases on the target, which decide when readers see an overwrite.

INSERT OVERWRITE of a transactional table writes ``base_0000005``. Hive 4 shows such a base before its
transaction ends, if no older write of the table is open (``AcidUtils.isValidBase``). At the source, the
statement's lock keeps readers out; replay takes no locks, so readers of the target would see a base without
all of its files, and without rows that are not committed.

``base_0000005_v0000010`` is shown if and only if transaction 10 is committed and no write up to 5 is open
(``isDirUsable``, ``ValidReaderWriteIdList.isValidBase``). So a base gets the target's transaction as its
suffix. If an older write of the table is open, readers would not see it even after the commit; then it has no
suffix, and becomes visible by its commit alone.

Exception: ``LOAD DATA … OVERWRITE`` puts files without Hive's row ids into a base of a table with full ACID
semantics. Hive looks for row ids in every base with a suffix, so this one gets none.

A killed run may have copied files under the other name. That base is removed, because readers could choose it
after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from handlers.events import FilesWritten, SourceFile
from handlers.files.paths import parse_location, to_target_subdir
from handlers.replication.context import Context
from handlers.replication.effects.files.plain_files import remove_directory
from handlers.replication.target.objects import is_insert_only
from handlers.replication.transactions.lookahead import WriteIdLookahead


_BASE: Final = "base_"
_WITH_ROW_IDS: Final = "bucket_"
"""Beginning of the names of files with row ids (``AcidUtils.BUCKET_PREFIX``)."""


def has_base(files: Iterable[SourceFile]) -> bool:
    """Return whether some of the files are in a base."""
    return any(_is_in_base(file) for file in files)


class BaseNames:
    """Chooses the names of bases for the transactions being replayed."""

    def __init__(self, context: Context, lookahead: WriteIdLookahead) -> None:
        """``lookahead`` knows the target's transactions that were opened ahead of their turn."""
        self._context = context
        self._lookahead = lookahead
        self._oldest: set[tuple[int, str]] = set()
        """Transactions and tables without an open older write, now and later."""

    def find_suffix(self, event: FilesWritten) -> str:
        """Return the suffix of the bases of a write; empty if the write has no base, or if its bases must
        not have a suffix, or not yet.
        """
        if not has_base(event.files) or not self._may_have_suffix(event):
            return ""
        key = (event.txn_id, event.table or "")
        if key not in self._oldest and self._has_older_open_write(event):
            return ""
        self._oldest.add(key)
        return _format_suffix(self._find_target_txn(event.txn_id))

    def list_suffixes(self, txn_id: int) -> tuple[str, ...]:
        """Return the suffixes that a killed run may have given to bases of a transaction,
        as far as the mapping knows.
        """
        target_txn = self._context.tables.write_ids.find_target_txn(txn_id)
        return ("",) if target_txn is None else ("", _format_suffix(target_txn))

    def _may_have_suffix(self, event: FilesWritten) -> bool:
        """Whether Hive can read the event's files in a base with a suffix."""
        if is_insert_only(self._context.table_cache.table(event.table or "")):
            return True
        names = (file.uri.rpartition("/")[2] for file in event.files if _is_in_base(file))
        return all(name.startswith(_WITH_ROW_IDS) for name in names)

    def _has_older_open_write(self, event: FilesWritten) -> bool:
        open_write_ids = self._context.tables.write_ids.held_write_ids(f"{event.db}.{event.table}")
        if any(write_id < event.write_id for write_id, _ in open_write_ids):
            return True  # the target may leave it out of its list (ValidWriteIds.may_be_cut)
        name = f"{self._context.policy.target_db}.{event.table}"
        (valid,) = self._context.target.valid_write_ids([name])
        return valid.has_open_up_to(event.write_id - 1)

    def _find_target_txn(self, txn_id: int) -> int:
        """Return the open transaction of the target,
        by a call if the mapping does not know it because the state was lost.
        """
        target_txn = self._context.tables.write_ids.find_target_txn(
            txn_id
        ) or self._lookahead.find_target_txn(txn_id)
        return target_txn or self._context.target.open_replayed(self._context.policy.txn_map_key, txn_id)

    def remove_others(self, event: FilesWritten, directory: str, base_suffix: str) -> None:
        """Remove bases of the write that have the other form of the name (with a suffix instead of
        without, or the reverse).
        """
        if not has_base(event.files):
            return
        other = "" if base_suffix else _format_suffix(self._find_target_txn(event.txn_id))
        for uri in find_bases(event.files, directory, other):
            remove_directory(self._context, uri)

    def forget(self, txn_id: int) -> None:
        """Forget a committed transaction."""
        self._oldest = {key for key in self._oldest if key[0] != txn_id}

    def clear(self) -> None:
        """Forget everything, as after a failure."""
        self._oldest.clear()


def _format_suffix(target_txn: int) -> str:
    """Return the suffix that lets readers see a base when this transaction is committed."""
    return f"_v{target_txn:07d}"


def rename_in_entry(entry: str, base_suffix: str) -> str:
    """Return an entry of a write event with the directory's name on the target:
    the metastore looks for the file there.
    """
    head, separator, subdir = entry.rpartition("#")
    return head + separator + to_target_subdir(subdir, base_suffix)


def find_bases(files: Iterable[SourceFile], root_uri: str, base_suffix: str) -> set[str]:
    """Return the bases that files of a write are in, below a location of the target;
    each branch of a union may have one.
    """
    root = parse_location(root_uri)
    paths = {to_target_subdir(file.subdir, base_suffix) for file in files if _is_in_base(file)}
    return {str(root.join(_cut_below_base(path))) for path in paths}


def _cut_below_base(path: str) -> str:
    names = path.split("/")
    depth = next(depth for depth, name in enumerate(names, 1) if name.startswith(_BASE))
    return "/".join(names[:depth])


def _is_in_base(file: SourceFile) -> bool:
    return _BASE in file.subdir and any(name.startswith(_BASE) for name in file.subdir.split("/"))
