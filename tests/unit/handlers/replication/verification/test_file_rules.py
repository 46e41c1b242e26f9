"""Files of both sides are equal unless something was lost, added or changed, whatever either side
compacts."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.verification.file_rules import (
    AcidFiles,
    Directory,
    FileFacts,
    Files,
    compare_acid_files,
    compare_files,
)
from handlers.replication.verification.findings import Difference, Finding, NotCompared


def facts(size_bytes: int = 10) -> FileFacts:
    return FileFacts(size_bytes)


def differences(findings: list[Finding]) -> list[Difference]:
    return [each for each in findings if isinstance(each, Difference)]


def not_compared(findings: list[Finding]) -> int:
    return sum(each.count for each in findings if isinstance(each, NotCompared))


@dataclass(frozen=True)
class History:
    """Writes of a table, and up to which of them each side has compacted (0: not at all)."""

    writes: dict[int, Files]
    source_compacted: int
    target_compacted: int

    def side(self, compacted_up_to: int, txn: int) -> AcidFiles:
        """Return the visible directories of a side that has compacted up to a write id."""
        kept = {
            Directory(f"delta_{write_id:07d}_{write_id:07d}_0000", write_id, write_id): dict(files)
            for write_id, files in self.writes.items()
            if write_id > compacted_up_to
        }
        replaced = [files for write_id, files in self.writes.items() if write_id <= compacted_up_to]
        if replaced:
            size = 7 * len(replaced)
            base = Directory(f"base_{compacted_up_to:07d}_v{txn:07d}", 0, compacted_up_to, compacted=True)
            kept[base] = {"bucket_00000": facts(size)}
        return kept

    def both(self) -> tuple[AcidFiles, AcidFiles]:
        return self.side(self.source_compacted, 11), self.side(self.target_compacted, 22)


@st.composite
def histories(draw: st.DrawFn) -> History:
    ids = draw(st.lists(st.integers(1, 12), min_size=1, max_size=8, unique=True))
    sizes = st.dictionaries(
        st.sampled_from(["bucket_00000", "bucket_00001"]), st.builds(facts, st.integers(1, 99)), min_size=1
    )
    return History(
        {write_id: draw(sizes) for write_id in sorted(ids)},
        draw(st.integers(0, 13)),
        draw(st.integers(0, 13)),
    )


@given(histories())
def test_independent_compactions_are_never_a_difference_and_what_they_hide_is_counted(
    history: History,
) -> None:
    source, target = history.both()
    found = list(compare_acid_files(source, target))
    assert differences(found) == []
    compacted = max(history.source_compacted, history.target_compacted)
    hides_something = any(write_id <= compacted for write_id in history.writes)
    assert (not_compared(found) > 0) == hides_something


@given(histories(), st.data())
def test_a_lost_added_or_changed_file_of_a_write_that_nobody_compacted_is_found(
    history: History, data: st.DataObject
) -> None:
    source, target = history.both()
    plain = [each for each in target if not each.compacted and each in source]
    if not plain:
        return
    directory = data.draw(st.sampled_from(plain))
    name = data.draw(st.sampled_from(sorted(target[directory])))
    match data.draw(st.sampled_from(["lost", "changed", "added"])):
        case "lost":
            del target[directory][name]
            expected = {name}
        case "changed":
            target[directory][name] = facts(1_000)
            expected = {name}
        case _:
            target[directory]["bucket_00009"] = facts(1)
            expected = {"bucket_00009"}
    found = differences(list(compare_acid_files(source, target)))
    assert {each.key for each in found} == {f"{directory.name}/{each}" for each in expected}


@given(histories(), st.data())
def test_a_write_that_one_side_lost_is_found_unless_the_other_side_compacted_it(
    history: History, data: st.DataObject
) -> None:
    source, target = history.both()
    plain = [each for each in target if not each.compacted and each in source]
    if not plain:
        return
    directory = data.draw(st.sampled_from(plain))
    lost = target.pop(directory)
    found = differences(list(compare_acid_files(source, target)))
    assert {each.key for each in found} == {f"{directory.name}/{each}" for each in lost}
    mirrored = differences(list(compare_acid_files(target, source)))
    assert [(each.target, each.source) for each in mirrored] == [(each.source, each.target) for each in found]


def test_the_copy_of_a_compacted_directory_is_compared_with_it() -> None:
    source = {Directory("base_0000004_v0000099", 0, 4, compacted=True): {"bucket_00000": facts(5)}}
    copied = Directory("base_0000004", 0, 4)
    assert list(compare_acid_files(source, {copied: {"bucket_00000": facts(5)}})) == []
    (found,) = differences(list(compare_acid_files(source, {copied: {"bucket_00000": facts(6)}})))
    assert (found.key, found.source, found.target) == ("base_0000004/bucket_00000", "5 bytes", "6 bytes")


def test_a_compacted_directory_without_any_counterpart_is_missing() -> None:
    source = {Directory("base_0000004_v0000099", 0, 4, compacted=True): {"bucket_00000": facts(5)}}
    later = {Directory("delta_0000005_0000005_0000", 5, 5): {"bucket_00000": facts(5)}}
    found = differences(list(compare_acid_files(source, later)))
    assert sorted(each.key for each in found) == [
        "base_0000004/bucket_00000",
        "delta_0000005_0000005_0000/bucket_00000",
    ]


def test_rows_that_came_back_after_a_lost_overwrite_are_found() -> None:
    source = {Directory("base_0000002", 0, 2): {"bucket_00000": facts(5)}}
    target = {Directory("delta_0000001_0000001_0000", 1, 1): {"bucket_00000": facts(5)}}
    found = differences(list(compare_acid_files(source, target)))
    assert len(found) == 2


def test_plain_files_are_compared_by_size_and_by_checksum_where_it_was_read() -> None:
    assert list(compare_files({"a": FileFacts(1, "x")}, {"a": FileFacts(1, "x")})) == []
    (changed,) = differences(list(compare_files({"a": FileFacts(1, "x")}, {"a": FileFacts(1, "y")})))
    assert (changed.source, changed.target) == ("1 byte, md5 x", "1 byte, md5 y")


REPLAYED = Directory("base_0000005_v0000010", 0, 5, compacted=True)
OVERWRITTEN = Directory("base_0000005", 0, 5)


def test_the_base_of_an_overwrite_is_compared_although_it_has_a_suffix_on_the_target() -> None:
    source = {OVERWRITTEN: {"bucket_00000_0": facts(5), "bucket_00001_0": facts(6)}}
    assert list(compare_acid_files(source, {REPLAYED: dict(source[OVERWRITTEN])})) == []
    found = list(compare_acid_files(source, {REPLAYED: {"bucket_00000_0": facts(4), "more": facts(1)}}))
    assert [(each.key, each.source, each.target) for each in differences(found)] == [
        ("base_0000005/bucket_00000_0", "5 bytes", "4 bytes"),
        ("base_0000005/bucket_00001_0", "6 bytes", None),
        ("base_0000005/more", None, "1 byte"),
    ]
    assert len(differences(list(compare_acid_files(source, {REPLAYED: {}})))) == len(source[OVERWRITTEN])


def test_a_base_that_a_compactor_of_the_target_wrote_is_not_compared_with_an_overwrite() -> None:
    source: AcidFiles = {OVERWRITTEN: {"bucket_00000_0": facts(5)}}
    found = list(compare_acid_files(source, {REPLAYED: {"bucket_00000": facts(9)}}))
    assert differences(found) == []
    assert not_compared(found) == 2


MINOR = Directory("delta_0000001_0000003", 1, 3)
"""Of a minor compaction by Hive 3.1, or the copy of one."""


def test_a_minor_compaction_by_hive_3_1_at_the_source_is_no_difference() -> None:
    writes: AcidFiles = {
        Directory(f"delta_000000{each}_000000{each}_0000", each, each): {"bucket_00000": facts(each)}
        for each in (1, 2, 3)
    }
    deletes = Directory("delete_delta_0000001_0000003", 1, 3)
    found = list(compare_acid_files({MINOR: {"bucket_00000": facts(9)}, deletes: {}}, writes))
    assert differences(found) == []
    assert not_compared(found) == 4


def test_the_copy_of_a_minor_compaction_is_compared_and_a_missing_one_is_found() -> None:
    source: AcidFiles = {MINOR: {"bucket_00000": facts(9)}}
    assert list(compare_acid_files(source, dict(source))) == []
    (changed,) = differences(list(compare_acid_files(source, {MINOR: {"bucket_00000": facts(8)}})))
    assert changed.key == "delta_0000001_0000003/bucket_00000"
    (lost,) = differences(list(compare_acid_files(source, {})))
    assert (lost.source, lost.target) == ("9 bytes", None)


def test_only_the_source_may_have_compactions_without_a_suffix() -> None:
    write = Directory("delta_0000001_0000001_0000", 1, 1)
    found = list(compare_acid_files({write: {"bucket_00000": facts(9)}}, {MINOR: {"bucket_00000": facts(9)}}))
    assert len(differences(found)) == 2
