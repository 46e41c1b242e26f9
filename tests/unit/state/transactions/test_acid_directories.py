"""The directories of a snapshot, against a naive model that keeps the rows of every directory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.errors import BadInput
from state.transactions.acid_directories import (
    AcidDirectory,
    SelectedDirectories,
    is_hidden_original,
    select_directories,
)
from state.transactions.valid_write_ids import ValidWriteIds


Rows = frozenset[str]


def parse(names: Iterable[str], marked: str = "") -> list[AcidDirectory]:
    parsed = [each for each in map(AcidDirectory.parse, names) if each is not None]
    return [replace(each, is_marked=each.name == marked) for each in parsed]


@dataclass
class NaiveTable:
    """A table whose directories are sets of inserted and deleted rows; rows are named by their write id."""

    directories: dict[str, tuple[Rows, Rows]] = field(default_factory=dict)
    """Inserted and deleted rows of each directory."""
    outcomes: list[str] = field(default_factory=list)
    """``committed`` or ``aborted`` for write ids 1, 2 and so on; later ones may be ``open``."""
    history: list[Rows] = field(default_factory=lambda: [frozenset({"original"})])
    """The rows after each write id."""
    writes: dict[int, tuple[Rows, Rows]] = field(default_factory=dict)
    """Rows that each committed write id inserted and deleted, without overwrites."""
    next_txn: int = 100
    ended: set[int] = field(default_factory=set)
    base: int = 0

    @property
    def rows(self) -> Rows:
        return self.history[-1]

    def write(self, outcome: str, *, statements: int, deletes: bool, replaces: bool) -> None:
        """Write under the next write id: insert a row for each statement, delete one, or overwrite
        everything."""
        write_id = len(self.outcomes) + 1
        added = frozenset(f"{write_id}.{number}" for number in range(statements))
        gone = frozenset(sorted(self.rows)[:1]) if deletes and not replaces else frozenset()
        self.outcomes.append(outcome)
        if replaces:
            self.directories[f"base_{write_id:07d}"] = (added, frozenset())
        for number in range(0 if replaces else statements):
            name = f"delta_{write_id:07d}_{write_id:07d}_{number:04d}"
            self.directories[name] = (frozenset({f"{write_id}.{number}"}), frozenset())
        if gone:
            self.directories[f"delete_delta_{write_id:07d}_{write_id:07d}_0000"] = (frozenset(), gone)
        if outcome == "committed" and not replaces:
            self.writes[write_id] = (added, gone)
        if outcome == "committed" and replaces:
            self.base = write_id
        kept = frozenset() if replaces else self.rows - gone
        self.history.append(kept | added if outcome == "committed" else self.rows)

    def first_open(self) -> int:
        return next(
            (n for n, outcome in enumerate(self.outcomes, 1) if outcome == "open"), len(self.outcomes) + 1
        )

    def compact(self, *, major: bool, commits: bool, cleans: bool) -> None:
        """Compact everything below the lowest open write id, or all deltas above the base, as Hive's
        compactor does."""
        last = self.first_open() - 1
        first = 1 if major else self.base + 1
        if last < first or self.base > last:
            return
        txn, self.next_txn = self.next_txn, self.next_txn + 1
        if major:
            made = {f"base_{last:07d}_v{txn:07d}": (self.history[last], frozenset[str]())}
        else:
            made = self.merge(first, last, txn)
        covered = [name for name in self.directories if self.is_covered(name, first, last)]
        self.directories |= made
        if commits:
            self.ended.add(txn)
            self.base = last if major else self.base
            if cleans:
                for name in covered:
                    del self.directories[name]

    def merge(self, first: int, last: int, txn: int) -> dict[str, tuple[Rows, Rows]]:
        """Return the directories of a minor compaction: committed rows of the range, those added and those
        deleted."""
        parts = [rows for write_id, rows in self.writes.items() if first <= write_id <= last]
        inserted = frozenset[str]().union(*(added for added, _ in parts))
        deleted = frozenset[str]().union(*(gone for _, gone in parts))
        return {
            f"delta_{first:07d}_{last:07d}_v{txn:07d}": (inserted, frozenset()),
            f"delete_delta_{first:07d}_{last:07d}_v{txn:07d}": (frozenset(), deleted),
        }

    def is_covered(self, name: str, first: int, last: int) -> bool:
        found = AcidDirectory.parse(name)
        assert found is not None
        if found.is_compacted and found.txn_id not in self.ended:
            return False
        return first <= found.first and found.last <= last

    def read(self, selected: SelectedDirectories) -> Rows:
        """Read the rows of the selected directories as a reader merges them."""
        inserted = [self.directories[name][0] for name in selected.names]
        deleted = frozenset[str]().union(*(self.directories[name][1] for name in selected.names))
        counted = [row for rows in inserted for row in rows]
        assert len(counted) == len(set(counted)), "a row is in two selected directories"
        originals = frozenset({"original"}) if selected.originals else frozenset()
        return (originals | frozenset(counted)) - deleted

    def select(self, mark: int) -> SelectedDirectories:
        aborted = tuple(n for n in range(1, mark + 1) if self.outcomes[n - 1] == "aborted")
        return select_directories(
            parse(self.directories),
            ValidWriteIds("db.t", mark, (), aborted),
            is_ended=lambda txn_id: txn_id in self.ended,
            is_committed=lambda write_id: self.outcomes[write_id - 1] == "committed",
        )


writes = st.tuples(
    st.just("write"),
    st.sampled_from(["committed", "committed", "aborted", "open"]),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 5),
)
compactions = st.tuples(
    st.just("compact"), st.booleans(), st.sampled_from([True, True, False]), st.booleans()
)


@given(st.lists(st.one_of(writes, compactions), max_size=16), st.integers(0, 16))
@settings(max_examples=600)
def test_the_selected_directories_contain_exactly_the_rows_of_the_snapshot(
    steps: list[tuple[object, ...]], mark: int
) -> None:
    table = NaiveTable()
    for step in steps:
        match step:
            case ("write", str() as outcome, int() as statements, bool() as deletes, int() as kind):
                table.write(outcome, statements=statements, deletes=deletes, replaces=kind == 0)
            case ("compact", bool() as major, bool() as commits, bool() as cleans):
                table.compact(major=major, commits=commits, cleans=cleans)
    mark = min(mark, table.first_open() - 1)
    selected = table.select(mark)
    if selected.beyond is None:
        assert table.read(selected) == table.history[mark]
    else:
        found = AcidDirectory.parse(selected.beyond)
        assert found is not None
        assert found.last > mark


@given(st.lists(st.one_of(writes, compactions), max_size=16))
@settings(max_examples=300)
def test_the_newest_snapshot_can_always_be_read(steps: list[tuple[object, ...]]) -> None:
    table = NaiveTable()
    for step in steps:
        match step:
            case ("write", str() as outcome, int() as statements, bool() as deletes, int() as kind):
                ended = "aborted" if outcome == "open" else outcome
                table.write(ended, statements=statements, deletes=deletes, replaces=kind == 0)
            case ("compact", bool() as major, bool() as commits, bool() as cleans):
                table.compact(major=major, commits=commits, cleans=cleans)
    selected = table.select(len(table.outcomes))
    assert selected.beyond is None
    assert table.read(selected) == table.rows


def select(
    names: list[str], mark: int, aborted: tuple[int, ...] = (), marked: str = "", **known: set[int]
) -> SelectedDirectories:
    return select_directories(
        parse(names, marked),
        ValidWriteIds("db.t", mark, (), aborted),
        is_ended=lambda txn_id: txn_id in known.get("ended", set()),
        is_committed=lambda write_id: write_id in known.get("committed", set()),
    )


def test_a_delete_delta_without_inserts_is_replaced_by_the_compaction_of_its_range() -> None:
    names = ["delta_1_4_v9", "delete_delta_1_4_v9", "delete_delta_2_2_0000", "delta_5_5"]
    assert select(names, 5, ended={9}).names == ("delta_1_4_v9", "delete_delta_1_4_v9", "delta_5_5")


def test_of_two_compactions_of_one_range_the_later_one_is_read() -> None:
    names = ["delta_1_4_v9", "delete_delta_1_4_v9", "delta_1_4_v12", "delete_delta_1_4_v12"]
    assert set(select(names, 4, ended={9, 12}).names) == {"delta_1_4_v12", "delete_delta_1_4_v12"}


def test_a_delta_that_adds_only_aborted_writes_to_those_already_selected_is_skipped() -> None:
    assert select(["delta_1_5", "delta_4_7"], 7, aborted=(6, 7)).names == ("delta_1_5",)
    assert select(["delta_1_5", "delta_4_7"], 7, aborted=(7,)).names == ("delta_1_5", "delta_4_7")


def test_all_statements_of_a_write_are_read_but_no_statement_next_to_a_whole_write() -> None:
    assert select(["delta_1_1_0000", "delta_1_1_0001"], 1).names == ("delta_1_1_0000", "delta_1_1_0001")
    assert select(["delta_1_1", "delta_1_1_0001"], 1).names == ("delta_1_1",)


def test_a_compaction_that_is_not_committed_is_ignored() -> None:
    assert select(["base_4_v9", "delta_4_4"], 4).names == ("delta_4_4",)


def test_a_compacted_base_above_an_aborted_write_id_is_read() -> None:
    assert select(["base_4_v9"], 4, aborted=(4,), ended={9}) == SelectedDirectories(
        ("base_4_v9",), originals=False
    )


def test_a_marked_base_is_a_compaction_although_its_name_is_that_of_an_overwrite() -> None:
    aborted = (4,)
    assert select(["base_4", "delta_3_3"], 4, aborted).names == ("delta_3_3",)
    assert select(["base_4", "delta_3_3"], 4, aborted, marked="base_4").names == ("base_4",)
    assert select(["base_4", "delta_3_3"], 3, marked="base_4").beyond == "base_4"
    assert select(["base_4", "delta_5_5"], 5, aborted, marked="base_4").names == ("base_4", "delta_5_5")


def test_deltas_of_a_compaction_without_a_suffix_replace_those_in_their_range() -> None:
    names = ["delta_1_4", "delete_delta_1_4", "delta_2_2_0000", "delete_delta_3_3_0000", "delta_5_5_0000"]
    assert select(names, 5).names == ("delta_1_4", "delete_delta_1_4", "delta_5_5_0000")
    assert select(names, 3).beyond == "delta_1_4"


@pytest.mark.parametrize(
    ("name", "merged"),
    [
        ("base_5", False),
        ("delta_5_5", False),
        ("base_5_v9", True),
        ("delta_5_7", True),
        ("delta_5_5_v9", True),
    ],
)
def test_a_directory_of_several_write_ids_may_have_rows_of_several_writes(name: str, merged: bool) -> None:
    (directory,) = parse([name])
    assert directory.is_merged is merged
    assert replace(directory, is_marked=True).is_merged


def test_a_later_overwrite_makes_the_snapshot_unreadable_once_it_is_committed() -> None:
    names = ["delta_1_1", "base_2"]
    assert select(names, 1).names == ("delta_1_1",)
    assert select(names, 1, committed={2}).beyond == "base_2"


@pytest.mark.parametrize(
    "name", ["base_", "delta_1", "delta_2_1", "base_x", "delta_1_1_v", "delete_delta_1_2_3_4"]
)
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        select([name], 9)


@pytest.mark.parametrize("name", ["HIVE_UNION_SUBDIR_1", "dt=1", "deltas"])
def test_other_directories_are_not_acid(name: str) -> None:
    assert AcidDirectory.parse(name) is None


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("dt=a", False),
        ("HIVE_UNION_SUBDIR_1", False),
        ("dt=a/base_data", False),
        ("base_0000002_v0000009", False),
        ("dt=a/base_0000002_v0000009", False),
        ("delta_0000002_0000002_0000/x", False),
        ("dt=a/delta_0000001_0000001_0000", False),
        ("dt=a/delta_0000002_0000002_0000", True),
        ("dt=a/delete_delta_0000002_0000002_0000/x", True),
        ("dt=a/delta_0000001_0000002_v0000009", False),
        ("dt=a/delta_0000036_0000036_0000", True),
        ("dt=a/base_0000002", True),
    ],
)
def test_files_that_another_table_left_count_by_the_write_id_of_their_directory(
    path: str, hidden: bool
) -> None:
    assert is_hidden_original(path, ValidWriteIds("db.t", 3, (), (2,))) is hidden
