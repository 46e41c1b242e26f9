"""What is kept of a listing of whole partitions: their values and the parameters that followers read, in few
objects."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.loads.listings import ListingRequest, TextList, read_listing
from handlers.catalog.following.table_info import Listing
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.timelines.table_properties import PARTITION_PERIOD, TIME_COLUMNS


def read(source: MemorySource) -> Listing:
    metastore: Any = source
    request = ListingRequest(f"{DB}.t", trusted=False, progress=None, names=None, size=10)
    return read_listing(metastore, [TimelineFollower(Rules((), lens=True))], request)


def read_names(source: MemorySource) -> Listing:
    metastore: Any = source
    request = ListingRequest(f"{DB}.t", trusted=False, progress=None, names=None, size=10)
    rules = Rules((Rule((f"{DB}.*",), columns=("dt",)),), lens=False)
    return read_listing(metastore, [TimelineFollower(rules)], request)


def lens_table(partitions: Mapping[tuple[str, str], Mapping[str, str]]) -> MemorySource:
    """Return a table of Lens, whose partitions have their periods in parameters: names do not suffice."""
    source = MemorySource()
    source.create("t", ("dt", "x"), {TIME_COLUMNS: "dt"})
    for values, parameters in partitions.items():
        source.add("t", *values, parameters=dict(parameters))
    return source


@given(
    st.dictionaries(
        st.tuples(st.text(), st.text()),
        st.fixed_dictionaries({}, optional={PARTITION_PERIOD: st.text(max_size=3), "numRows": st.text()}),
        max_size=5,
    )
)
def test_values_and_periods_of_whole_partitions_are_kept_exactly(
    partitions: dict[tuple[str, str], dict[str, str]],
) -> None:
    found = {
        (one.spec["dt"], one.spec["x"]): one.parameters for one in read(lens_table(partitions)).partitions()
    }
    assert found == {
        values: {key: value for key, value in parameters.items() if key == PARTITION_PERIOD}
        for values, parameters in partitions.items()
    }


def test_a_listing_of_whole_partitions_keeps_no_object_for_each_that_a_garbage_collection_looks_at() -> None:
    days = {("2015-01-01", f"{number}"): {PARTITION_PERIOD: "DAILY", "numRows": "1"} for number in range(500)}
    source = lens_table(days)
    gc.collect()
    before = len(gc.get_objects())
    listing = read(source)
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    assert len(list(listing.partitions())) == 500


def test_the_names_of_a_listing_are_kept_in_few_strings() -> None:
    source = MemorySource()
    source.create("t")
    for number in range(3_000):
        source.add("t", f"{number}", "de")
    listing = read_names(source)
    assert isinstance(listing.whole, TextList)
    assert len(list(listing.partitions())) == 3_000


def test_a_name_that_the_metastore_repeats_is_one_partition() -> None:
    source = MemorySource()
    source.create("t")
    source.add("t", "2015-01-01", "de")
    once = source.partition_names(DB, "t")
    source.partition_names = lambda *_: once * 3  # type: ignore[method-assign]
    listing = read_names(source)
    assert [one.spec for one in listing.partitions()] == [{"dt": "2015-01-01", "x": "de"}]
