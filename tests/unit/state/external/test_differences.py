"""Which files are copied again, against a model of both sides that knows the content of each file."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import StateCorrupt
from state.external.differences import (
    BATCH_BYTES,
    WRITING,
    CopiedFile,
    FileVersion,
    cut_batches,
    plan_directory,
    settle_copies,
)


@dataclass
class Side:
    """A directory that counts its changes: every write has a new time."""

    files: dict[str, tuple[str, FileVersion]] = field(default_factory=dict)
    ticks: int = 0

    def write(self, name: str, content: str) -> None:
        self.ticks += 1
        self.files[name] = (content, FileVersion(len(content), self.ticks))

    def versions(self) -> dict[str, FileVersion]:
        return {name: version for name, (_, version) in self.files.items()}

    def contents(self) -> dict[str, str]:
        return {name: content for name, (content, _) in self.files.items()}


def run_cycle(
    source: Side, target: Side, records: dict[str, CopiedFile], *, delete: bool, during: list[Change]
) -> tuple[str, ...]:
    """Copy one directory as the product does; ``during`` happens after the files were copied. Return what was
    copied."""
    before = source.versions()
    plan = plan_directory(before, target.versions(), records, delete=delete)
    written = {name: target.contents().get(name) != source.files[name][0] for name in plan.copied}
    for name in plan.copied:
        if written[name]:
            target.write(name, source.files[name][0])
    for change in during:
        change.apply(source)
    settled = settle_copies(written, before, source.versions(), target.versions())
    records |= settled.records
    for name in (*settled.withdrawn, *plan.removed):
        target.files.pop(name, None)
        records.pop(name, None)
    for name in plan.forgotten:
        del records[name]
    return plan.copied


@dataclass(frozen=True)
class Change:
    """A write of a file, or its removal."""

    name: str
    content: str | None

    def apply(self, side: Side) -> None:
        if self.content is None:
            side.files.pop(self.name, None)
        else:
            side.write(self.name, self.content)


CHANGES = st.lists(
    st.builds(Change, st.sampled_from("abcd"), st.one_of(st.none(), st.sampled_from(["x", "y", "long"]))),
    max_size=5,
)


@given(st.lists(st.tuples(CHANGES, CHANGES, CHANGES), max_size=6), st.booleans())
def test_after_a_quiet_cycle_the_target_has_the_content_of_the_source(
    cycles: list[tuple[list[Change], list[Change], list[Change]]], delete: bool
) -> None:
    source, target, records = Side(), Side(), dict[str, CopiedFile]()
    for changes, during, meddling in cycles:
        for change in changes:
            change.apply(source)
        run_cycle(source, target, records, delete=delete, during=during)
        for change in meddling:
            change.apply(target)
    run_cycle(source, target, records, delete=delete, during=[])
    contents = target.contents()
    assert {name: contents[name] for name in source.files} == source.contents()
    assert run_cycle(source, target, records, delete=delete, during=[]) == (), "nothing is copied twice"


@given(CHANGES, CHANGES, CHANGES, st.booleans())
def test_only_copies_of_vanished_files_are_removed_and_only_on_request(
    changes: list[Change], foreign: list[Change], later: list[Change], delete: bool
) -> None:
    source, target, records = Side(), Side(), dict[str, CopiedFile]()
    for change in foreign:
        change.apply(target)
    for change in changes:
        change.apply(source)
    run_cycle(source, target, records, delete=delete, during=[])
    copied, present = set(source.files), set(target.files)
    for change in later:
        change.apply(source)
    run_cycle(source, target, records, delete=delete, during=[])
    removed = present - set(target.files)
    assert removed == ((copied - set(source.files)) if delete else set())


@pytest.mark.parametrize("suffix", WRITING)
@pytest.mark.parametrize("growing", [False, True])
def test_the_copy_of_a_file_that_was_being_written_is_removed_when_it_has_its_final_name(
    suffix: str, *, growing: bool
) -> None:
    source, target, records = Side(), Side(), dict[str, CopiedFile]()
    writing = f"a{suffix}"
    source.write(writing, "x")
    during = [Change(writing, "xy")] if growing else []
    run_cycle(source, target, records, delete=False, during=during)
    assert writing in target.files
    run_cycle(source, target, records, delete=False, during=[])
    source.files["a"] = source.files.pop(writing)
    run_cycle(source, target, records, delete=False, during=[])
    assert target.contents() == source.contents()
    source.write(writing, "the next one")
    run_cycle(source, target, records, delete=False, during=[])
    assert target.contents() == source.contents(), "both are at the source"


@given(st.lists(st.integers(0, 2 * BATCH_BYTES), max_size=50), st.integers(0, 30_000))
def test_batches_have_all_files_in_order_and_are_few_for_small_files(sizes: list[int], small: int) -> None:
    files = [(str(number), size) for number, size in enumerate([*sizes, *([1] * small)])]
    batches = list(cut_batches(files))
    assert [name for batch in batches for name in batch] == [name for name, _ in files]
    assert len(batches) <= 10 + len(sizes) + 1
    size_of = dict(files)
    assert all(sum(size_of[name] for name in batch[:-1]) < BATCH_BYTES for batch in batches)


def test_a_file_that_vanished_while_it_was_copied_does_not_stay() -> None:
    source, target = Side(), Side()
    source.write("a", "x")
    run_cycle(source, target, {}, delete=False, during=[Change("a", None)])
    assert target.files == {}


def test_a_file_that_was_there_before_and_vanished_meanwhile_stays() -> None:
    source, target = Side(), Side()
    source.write("a", "x")
    target.write("a", "x")
    run_cycle(source, target, {}, delete=False, during=[Change("a", None)])
    assert target.contents() == {"a": "x"}


def test_a_file_of_the_same_size_is_copied_again_if_its_time_or_inode_differs() -> None:
    old = FileVersion(3, 10, 1)
    records = {"a": CopiedFile(old, old)}
    for new in (FileVersion(3, 11, 1), FileVersion(3, 10, 2), FileVersion(4, 10, 1)):
        assert plan_directory({"a": new}, {"a": old}, records, delete=False).copied == ("a",)
        assert plan_directory({"a": old}, {"a": new}, records, delete=False).copied == ("a",)
    assert plan_directory({"a": old}, {"a": old}, records, delete=False).copied == ()


def test_files_without_a_time_are_always_compared() -> None:
    version = FileVersion(3, None)
    records = {"a": CopiedFile(version, version)}
    assert plan_directory({"a": version}, {"a": version}, records, delete=False).copied == ("a",)
    assert settle_copies({"a": True}, {"a": version}, {"a": version}, {"a": version}).records == {}


@given(st.builds(FileVersion, st.integers(0), st.one_of(st.none(), st.integers()), st.integers()))
def test_a_record_is_read_back(version: FileVersion) -> None:
    record = CopiedFile(version, FileVersion(1, 2))
    assert CopiedFile.from_bytes(record.to_bytes()) == record


@pytest.mark.parametrize("value", [b"", b"{}", b"[1,2]", b"[[1],[2]]", b"\xff"])
def test_a_damaged_record_is_reported(value: bytes) -> None:
    with pytest.raises(StateCorrupt):
        CopiedFile.from_bytes(value)
