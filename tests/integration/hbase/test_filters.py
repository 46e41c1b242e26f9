"""On HBase every filter finds what it finds in memory, and HBase leaves out only rows that do not match."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.hbase.store import HBaseStore
from state.partitions.filters.conditions import AllOf, AnyOf, Condition, Leaf, compile_check
from state.partitions.filters.dialect import Dialect
from state.partitions.filters.intervals import Interval
from state.partitions.index.partition_index import PartitionIndex
from state.store import prefix_end
from tests.builders.partitions.indexed_tables import (
    NAIVE_COLUMNS,
    TABLE,
    NaiveColumn,
    an_index,
    conditions,
    rows_of,
)


DIALECT = Dialect(all_types=True)
SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.permutations(NAIVE_COLUMNS), st.integers(1, 4), st.data())
@SOME
def test_any_filter_finds_the_same_partitions_as_in_memory(
    store: HBaseStore, columns: list[NaiveColumn], count: int, data: st.DataObject
) -> None:
    chosen = [(column.name, column.declared) for column in columns[:count]]
    rows = data.draw(rows_of(columns[:count]), "partitions")
    with store.transaction() as txn:
        txn.delete_range(b"px/", b"px0")
    here, there = an_index(chosen, rows), an_index(chosen, rows, store)
    for _ in range(5):
        text = data.draw(conditions(columns[:count]), "filter").text
        expected = here.partitions(here.prepare(TABLE, text, DIALECT))
        assert there.partitions(there.prepare(TABLE, text, DIALECT)) == expected
        assert there.count(there.prepare(TABLE, text, DIALECT)) == len(expected)
    there.check()


TEXTS = ["'", "''", "a'b", "a\x00", "\x01", "", "ÿ", "日", ",", ") AND (", "binary:", "\\", "a b"]
FIELDS = st.sampled_from([b"\x01" + text.encode() for text in TEXTS]) | st.binary(min_size=1, max_size=3)
LEAVES = st.builds(
    lambda column, edges: Leaf(column, (Interval(min(edges), max(edges)),)),
    st.integers(0, 1),
    st.tuples(FIELDS, FIELDS).filter(lambda edges: edges[0] != edges[1]),
)
BOUNDS: st.SearchStrategy[Condition] = st.recursive(
    LEAVES,
    lambda part: st.builds(
        lambda kind, parts: kind(tuple(parts)),
        st.sampled_from([AllOf, AnyOf]),
        st.lists(part, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


@pytest.fixture
def filled(store: HBaseStore) -> PartitionIndex:
    return an_index([("a", "string"), ("b", "string")], [(a, b) for a in TEXTS for b in TEXTS], store)


@given(BOUNDS)
@settings(parent=SOME, max_examples=60)
def test_hbase_leaves_out_exactly_the_rows_that_an_interval_of_any_bytes_excludes(
    filled: PartitionIndex, store: HBaseStore, condition: Condition
) -> None:
    start = filled.table(TABLE).rows
    end, check = prefix_end(start), compile_check(condition, 2)
    expected = [key for key in store.scan_keys(start, end) if check(key)]
    assert list(store.scan_matching(start, end, condition)) == expected


def test_rows_fetched_are_those_that_match(store: HBaseStore) -> None:
    """Twice as many where postings are read, because each row is looked at."""
    days = [f"2020-01-{day:02}" for day in range(1, 21)]
    rows = [(ds, str(hr), region) for ds in days for hr in range(6) for region in "abcd"]
    index = an_index([("ds", "date"), ("hr", "int"), ("region", "string")], rows, store)
    for text, times in [
        ("ds = '2020-01-05'", 1),
        ("ds >= '2020-01-05' and region = 'a' or ds < '2020-01-02' and hr != 3", 1),
        ("hr = 3 and ds < '2020-01-05'", 2),
    ]:
        prepared = index.prepare(TABLE, text)
        before = store.counts["rows-fetched"]
        matching = index.count(prepared)
        assert matching
        assert store.counts["rows-fetched"] - before <= times * matching, text
