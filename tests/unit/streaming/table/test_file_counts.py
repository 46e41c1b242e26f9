"""Counts of files: values per slot, stored with a digest of the files that were counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streaming.storage.port import StorageEntry
from streaming.table.parameters import LAYOUT_VERSION, NONNULL, VALUE_CHARS_MAX
from streaming.table.value_counts import count_retained_values, format_nonnull, parse_nonnull
from tests.builders.flat.layouts import HOUR, a_layout
from tests.builders.flat.local_storage import LocalStorage
from tests.builders.flat.memory_catalog import a_flat_table, an_hour_with_files


FILES = [
    StorageEntry("b-1.orc", is_directory=False, size_bytes=10),
    StorageEntry("b-2.orc", is_directory=False, size_bytes=20),
]


@given(counts=st.lists(st.integers(0, 2**62), max_size=1_500))
def test_a_count_is_read_back_within_a_factor_of_two_and_zero_exactly(counts: list[int]) -> None:
    parameters = format_nonnull(3, counts, FILES)
    assert len(parameters[NONNULL]) <= VALUE_CHARS_MAX
    found = parse_nonnull(parameters, FILES)
    assert found is not None
    assert all((least == 0) == (count == 0) for least, count in zip(found, counts, strict=True))
    assert all(least <= count < max(2 * least, 1) for least, count in zip(found, counts, strict=True))


def test_the_order_in_which_files_are_listed_does_not_matter() -> None:
    assert parse_nonnull(format_nonnull(1, [5], FILES), FILES[::-1]) == (4,)


def test_counts_of_other_files_or_of_another_layout_are_ignored() -> None:
    parameters = format_nonnull(3, [1, 0], FILES)
    grown = [FILES[0], StorageEntry("b-2.orc", is_directory=False, size_bytes=21)]
    assert parse_nonnull(parameters, FILES[:1]) is None
    assert parse_nonnull(parameters, grown) is None
    assert parse_nonnull({**parameters, LAYOUT_VERSION: "4"}, FILES) is None


def test_invalid_counts_are_ignored() -> None:
    for text in ("", "x", "1.2.3", "1.0123456789abcdef.!", "\u0661.0123456789abcdef.0"):
        assert parse_nonnull({LAYOUT_VERSION: "1", NONNULL: text}, FILES) is None


def test_footers_are_read_only_without_a_valid_count(tmp_path: Path) -> None:
    table = a_flat_table(tmp_path, a_layout({}))
    storage, asked = LocalStorage(), []

    def footers(files: Sequence[str]) -> list[int]:
        asked.append(list(files))
        return [0, 1, 7]

    for hour in (HOUR, HOUR + 3_600):
        an_hour_with_files(table, hour, "a.orc", "_SUCCESS")
        table.add_hour(hour)
    place = table.partitions([HOUR])[0].location
    files = [StorageEntry("a.orc", is_directory=False, size_bytes=1)]
    table.set_hour_parameters(HOUR, format_nonnull(1, [2, 0], files))
    assert count_retained_values(table.partitions(), storage, footers) == (2, 1, 7)
    assert asked == [[str(table.partitions([HOUR + 3_600])[0].location) + "/a.orc"]]
    assert count_retained_values(table.partitions([HOUR]), storage, footers) == (2, 0)
    assert place.name == "v1"
