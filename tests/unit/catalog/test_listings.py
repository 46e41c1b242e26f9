"""What is kept of a listing of whole partitions: their values and the parameters that followers read, in few objects."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.listings import Listing, ListingRequest, read_listing
from handlers.catalog.timelines.rules import Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.timelines.table_properties import PARTITION_PERIOD, TIME_COLUMNS


if TYPE_CHECKING:
    from collections.abc import Mapping


def read(source: MemorySource) -> Listing:
    metastore: Any = source
    request = ListingRequest(f"{DB}.t", trusted=False, progress=None, names=None, size=10)
    return read_listing(metastore, [TimelineFollower(Rules((), lens=True))], request)


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
