"""Readers see an overwrite with its commit, whatever they read before and after it:
a model of Hive's readers, and random histories.

A reader takes its snapshot first, the lists of write ids and of transactions, and lists the directories some
time later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handlers.events import SourceFile
from handlers.replication.transactions.copies.base_names import BaseNames
from state.transactions.acid_directories import AcidDirectory
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.replay_events import a_table, written


FIRST_TXN = 100
"""The transaction of write id 1 on the target; the next write id belongs to the next one."""


@dataclass(frozen=True)
class Snapshot:
    """What a reader may see."""

    write_ids: ValidWriteIds
    committed: frozenset[int]
    """Write ids."""

    def is_valid_base(self, base: AcidDirectory) -> bool:
        """AcidUtils.isDirUsable, AcidUtils.isValidBase and ValidReaderWriteIdList.isValidBase."""
        if base.txn_id is not None and base.txn_id - FIRST_TXN + 1 not in self.committed:
            return False
        min_open = self.write_ids.min_open
        if min_open is not None and base.last <= min_open:
            return True
        if base.txn_id is not None:
            return (min_open is None or base.last < min_open) and base.last <= self.write_ids.high_water_mark
        return self.write_ids.is_visible(base.last)

    def read(self, directories: frozenset[str], *, row_ids: bool) -> list[int]:
        """Return the write ids of the rows that a reader finds; with row ids it skips rows of invisible
        writes, also in a base."""
        parsed = [each for each in map(AcidDirectory.parse, directories) if each is not None]
        bases = [each for each in parsed if each.kind == "base" and self.is_valid_base(each)]
        start = max((each.last for each in bases), default=0)
        rows = [
            each.last for each in bases if each.last == start and (not row_ids or self._is_visible(start))
        ]
        deltas = [each.last for each in parsed if each.kind == "delta" and each.last > start]
        return sorted([*rows, *filter(self._is_visible, deltas)])

    def _is_visible(self, write_id: int) -> bool:
        return self.write_ids.is_visible(write_id)

    def expected(self, overwrites: frozenset[int]) -> list[int]:
        """Return the write ids of the rows of the snapshot: those of the last overwrite and of what followed
        it."""
        start = max(self.committed & overwrites, default=0)
        return sorted(each for each in self.committed if each >= start)


@dataclass
class Target:
    """A table on the target, and everything that readers could have seen of it."""

    overwrites: set[int] = field(default_factory=set)
    open: dict[int, bool] = field(default_factory=dict)
    """Open write ids, and whether an overwrite has them."""
    ended: dict[int, bool] = field(default_factory=dict)
    """Write ids, and whether they were committed."""
    directories: set[str] = field(default_factory=set)
    moments: list[tuple[Snapshot, frozenset[str]]] = field(default_factory=list)
    suffixed: bool = True
    """Whether bases are named as replay names them."""

    def __post_init__(self) -> None:
        context: Any = SimpleNamespace(
            tables=SimpleNamespace(
                write_ids=SimpleNamespace(
                    held_write_ids=lambda _: frozenset((each, each) for each in self.open),
                    find_target_txn=lambda txn_id: FIRST_TXN - 1 + txn_id,
                )
            ),
            target=SimpleNamespace(valid_write_ids=lambda _: [self.list_write_ids()]),
            table_cache=SimpleNamespace(table=lambda _: a_table()),
            policy=SimpleNamespace(target_db="shop_r"),
        )
        self._names = BaseNames(context, context)
        self.note()

    def list_write_ids(self) -> ValidWriteIds:
        aborted = sorted(each for each, committed in self.ended.items() if not committed)
        return ValidWriteIds("t", len(self.open) + len(self.ended), tuple(sorted(self.open)), tuple(aborted))

    def note(self) -> None:
        committed = frozenset(each for each, done in self.ended.items() if done)
        self.moments.append((Snapshot(self.list_write_ids(), committed), frozenset(self.directories)))

    def allocate(self, *, overwrites: bool) -> None:
        self.open[len(self.open) + len(self.ended) + 1] = overwrites
        self.note()

    def copy_early(self, write_id: int) -> None:
        """Copy files before the turn of the commit, which replay does only under a name with a suffix."""
        if self.open[write_id] and (suffix := self._find_suffix(write_id)):
            self.directories.add(f"base_{write_id:07d}{suffix}")
        self.note()

    def commit(self, write_id: int) -> None:
        if self.open[write_id]:
            self.overwrites.add(write_id)
            self.directories.add(f"base_{write_id:07d}{self._find_suffix(write_id)}")
        else:
            self.directories.add(f"delta_{write_id:07d}_{write_id:07d}_0000")
        self.note()
        del self.open[write_id]
        self.ended[write_id] = True
        self.note()

    def abort(self, write_id: int) -> None:
        del self.open[write_id]
        self.ended[write_id] = False
        self.note()

    def _find_suffix(self, write_id: int) -> str:
        if not self.suffixed:
            return ""
        base = SourceFile("file:/source/bucket_00000_0", subdir=f"base_{write_id:07d}")
        return self._names.find_suffix(written(1, base, txn_id=write_id, write_id=write_id))

    def find_wrong_reads(self, *, row_ids: bool) -> list[tuple[int, int]]:
        """Return the moments of snapshot and listing of which a reader finds other rows than those of its
        snapshot."""
        overwrites = frozenset(self.overwrites)
        return [
            (first, second)
            for first, (snapshot, _) in enumerate(self.moments)
            for second, (_, directories) in enumerate(self.moments[first:], first)
            if snapshot.read(directories, row_ids=row_ids) != snapshot.expected(overwrites)
        ]


def replay(actions: list[tuple[str, int]], *, suffixed: bool) -> Target:
    target = Target(suffixed=suffixed)
    for name, number in actions:
        held = sorted(target.open)
        if name in {"insert", "overwrite"}:
            target.allocate(overwrites=name == "overwrite")
        elif held:
            getattr(target, name)(held[number % len(held)])
    return target


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "overwrite", "copy_early", "commit", "abort"]), st.integers(0, 3)),
    max_size=14,
)


@given(ACTIONS, st.booleans())
# FBT001: hypothesis passes values by position
def test_every_reader_finds_the_rows_of_its_snapshot(actions: list[tuple[str, int]], row_ids: bool) -> None:  # noqa: FBT001
    assert replay(actions, suffixed=True).find_wrong_reads(row_ids=row_ids) == []


def test_without_suffixes_a_reader_finds_an_overwrite_too_early_or_nothing() -> None:
    actions = [("insert", 0), ("commit", 0), ("overwrite", 0), ("commit", 0)]
    assert replay(actions, suffixed=True).find_wrong_reads(row_ids=True) == []
    assert replay(actions, suffixed=False).find_wrong_reads(row_ids=True) != []
    assert replay(actions, suffixed=False).find_wrong_reads(row_ids=False) != []
