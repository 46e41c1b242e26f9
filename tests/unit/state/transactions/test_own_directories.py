"""Which directories have the files of one write, and when its files are known to be all."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from state.transactions.acid_directories import AcidDirectory
from state.transactions.own_directories import is_complete, select_own


def parse(name: str) -> AcidDirectory:
    """Parse a name; a base with a "*" is marked as one of a compaction."""
    directory = AcidDirectory.parse(name.rstrip("*"))
    assert directory is not None
    return replace(directory, is_marked=name.endswith("*"))


@pytest.mark.parametrize(
    "name",
    [
        "delta_0000005_0000005",
        "delta_0000005_0000005_0000",
        "delta_0000005_0000005_0003",
        "delete_delta_0000005_0000005_0000",
        "base_0000005",
    ],
)
def test_a_write_makes_directories_of_its_own_write_id(name: str) -> None:
    others = ["delta_0000004_0000004_0000", "delta_0000006_0000006", "base_0000003", "base_0000004*"]
    own = select_own(map(parse, [*others, name]), 5)
    assert own.names == (name,)
    assert own.covered_by is None


@pytest.mark.parametrize(
    "name",
    [
        "base_0000006",
        "base_0000006*",
        "base_0000005*",
        "base_0000005_v0000012",
        "delta_0000001_0000005",
        "delta_0000005_0000007",
        "delete_delta_0000004_0000006",
        "delta_0000005_0000005_v0000012",
    ],
)
def test_a_directory_that_may_have_the_rows_of_the_write_and_of_others_covers_it(name: str) -> None:
    own = select_own(map(parse, ["delta_0000005_0000005_0000", name]), 5)
    assert own.covered_by == name.rstrip("*")
    assert own.names == ("delta_0000005_0000005_0000",)


def test_a_covering_directory_counts_even_if_nothing_of_the_write_is_left() -> None:
    assert select_own([parse("base_0000009*")], 5).covered_by == "base_0000009"
    assert select_own([], 5).covered_by is None


def test_only_insert_events_prove_that_the_files_of_a_covered_write_are_known() -> None:
    complete = {
        (covered, named, added, full)
        for covered, named, added, full in product([False, True], repeat=4)
        if is_complete(is_covered=covered, is_named=named, is_added=added, is_full_acid=full)
    }
    uncovered = {(False, *others) for others in product([False, True], repeat=3)}
    assert complete == uncovered | {(True, True, False, True)}
