"""Three readers of one changing table: Spark's own ORC reader, Spark with Hive's SerDe, and Hive 4's engine.

The table lies once on disk and stands in two metastores. It is appended to, widened, given a new key in an
old slot, and has a number rewritten to text; after every step all readers have to give the same values and
the same answers to filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dev.stack.hive.sql_session import Session
from handlers.files.paths import Location
from state.columns.paths import KeyPath
from state.columns.slots import Layout, SlotState
from state.columns.types import ColumnType
from streaming.storage.hadoop import HadoopStorage
from streaming.table.compatibility_view import OldName, locate_collapsed
from streaming.table.hours import HOUR_S, HourColumns
from streaming.table.metastore_table import MetastoreTable
from streaming.table.value_counts import count_retained_values, format_nonnull, list_data_files
from tests.builders.flat.layouts import (
    HOUR,
    a_layout,
    compatibility_view,
    next_version,
    rekeyed,
    retyped,
    with_keys,
)


Rows = list[tuple[str, ...]]
Row = dict[str, object]
OPTIONS = ("spark.sql.hive.convertMetastoreOrc", "spark.sql.orc.filterPushdown")


class Mutating:
    """One directory and two metastores; every change is made in both."""

    def __init__(self, spark: Any, tables: Sequence[MetastoreTable], location: Location) -> None:
        self._spark = spark
        self._tables = tables
        layout = a_layout(
            {
                "action.name": ColumnType.STRING,
                "user.id": ColumnType.INT,
                "price": ColumnType.BIGINT,
                "old": ColumnType.STRING,
            }
        )
        self.states = [table.create(layout, location=location, columns=HourColumns()) for table in tables]

    @property
    def layout(self) -> Layout:
        return self.states[0].layout

    def alter(self, layout: Layout, *, proven: Sequence[int] = ()) -> None:
        pairs = zip(self._tables, self.states, strict=True)
        self.states = [table.alter(state, layout, proven=proven) for table, state in pairs]

    def write(self, hour: int, rows: Sequence[Row]) -> None:
        for table in self._tables:
            table.add_hour(hour)
        self._files(hour, 1, rows)

    def rewrite(self, hour: int, rows: Sequence[Row], kinds: dict[int, ColumnType]) -> None:
        place = self._files(hour, 2, rows, kinds)
        for table in self._tables:
            table.switch_hour(hour, place, {"tideline.sealed": "true"})

    def _files(
        self, hour: int, version: int, rows: Sequence[Row], kinds: dict[int, ColumnType] | None = None
    ) -> Location:
        from pyspark.sql import functions

        state = self.states[0]
        place = state.columns.directory(state.location, hour).child(f"v{version}")
        types = {slot.name: (kinds or {}).get(slot.index, slot.type).hive for slot in state.layout.slots}
        schema = ", ".join(f"`{name}` string" for name in types)
        texts = [tuple(None if row.get(n) is None else str(row[n]) for n in types) for row in rows]
        frame = self._spark.createDataFrame(texts, schema)
        typed = [functions.col(f"`{name}`").cast(kind).alias(name) for name, kind in types.items()]
        frame.select(typed).coalesce(1).write.mode("append").orc(str(place))
        return place


@pytest.fixture
def table(spark: Any, hive_flat: MetastoreTable, spark_flat: MetastoreTable, external: Location) -> Mutating:
    return Mutating(spark, [hive_flat, spark_flat], external.child("events_flat"))


@pytest.fixture
def readers(spark: Any, source_sql: Session, database: str) -> Callable[[str], dict[str, Rows]]:
    """Runs a query with all readers; ``{t}`` in the query is the database."""
    source_sql.run("set hive.fetch.task.conversion=none")

    def ask(query: str) -> dict[str, Rows]:
        text = query.format(t=database)
        with _setting(spark, OPTIONS[0], "false"):
            serde = _texts(spark.sql(text).collect())
        return {
            "hive": sorted(source_sql.rows(text)),
            "spark": _texts(spark.sql(text).collect()),
            "serde": serde,
        }

    return ask


@contextmanager
def _setting(spark: Any, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    yield
    spark.conf.unset(key)


def _texts(rows: Sequence[Any]) -> Rows:
    return sorted(tuple("NULL" if value is None else str(value) for value in row) for row in rows)


def alike(rows: Rows) -> dict[str, Rows]:
    """The same result from each reader."""
    return {reader: sorted(rows) for reader in ("hive", "spark", "serde")}


ALL = "SELECT hh, `action/name`, `user/id`, price FROM {t}.events_flat"


def test_all_readers_see_the_same_through_every_change(
    table: Mutating, readers: Callable[[str], dict[str, Rows]], spark: Any, hive_flat: MetastoreTable
) -> None:
    def agree(query: str, expected: Rows) -> None:
        assert readers(query) == alike(expected), query

    first: list[Row] = [
        {"action/name": "explorer", "user/id": 7, "price": 10},
        {"action/name": "other", "user/id": None, "price": 9_007_199_254_740_993},
    ]
    table.write(HOUR, first)
    table.alter(with_keys(next_version(table.layout), {"foo.bar": ColumnType.STRING}))
    second: list[Row] = [{"action/name": "explorer", "user/id": 8, "price": -1, "foo/bar": '{"baz1":"b"}'}]
    table.write(HOUR + HOUR_S, second)
    table.alter(retyped(next_version(table.layout), 2, ColumnType.BIGINT))
    storage = HadoopStorage(spark)
    assert count_retained_values(hive_flat.partitions(), storage, _footers(spark))[4] == 0
    table.alter(rekeyed(next_version(table.layout), 4, "brand.new"), proven=[4])
    third: list[Row] = [{"user/id": 5_000_000_000, "brand/new": "n", "price": 10}]
    table.write(HOUR + 2 * HOUR_S, third)

    agree(
        ALL,
        [
            ("21", "explorer", "7", "10"),
            ("21", "other", "NULL", "9007199254740993"),
            ("22", "explorer", "8", "-1"),
            ("23", "NULL", "5000000000", "10"),
        ],
    )
    agree("SELECT hh FROM {t}.events_flat WHERE `user/id` = 7", [("21",)])
    agree("SELECT hh FROM {t}.events_flat WHERE `user/id` > 2147483647", [("23",)])
    agree("SELECT hh FROM {t}.events_flat WHERE price IN (10, -1)", [("21",), ("22",), ("23",)])
    agree("SELECT hh, `brand/new` FROM {t}.events_flat WHERE `brand/new` IS NOT NULL", [("23", "n")])
    agree("SELECT count(*), count(`foo/bar`), count(`brand/new`) FROM {t}.events_flat", [("4", "1", "1")])

    as_text = {3: ColumnType.STRING}
    for hour, rows in ((HOUR, first), (HOUR + HOUR_S, second), (HOUR + 2 * HOUR_S, third)):
        table.rewrite(hour, rows, as_text)
    table.alter(retyped(next_version(table.layout), 3, ColumnType.STRING), proven=[3])
    agree("SELECT hh, price FROM {t}.events_flat WHERE price = '10'", [("21", "10"), ("23", "10")])
    agree("SELECT hh FROM {t}.events_flat WHERE price > '5' AND hh = 21", [("21",)])
    agree(
        "SELECT price, count(*) FROM {t}.events_flat GROUP BY price",
        [("10", "2"), ("-1", "1"), ("9007199254740993", "1")],
    )


def test_all_readers_see_old_names_through_a_view(
    table: Mutating,
    readers: Callable[[str], dict[str, Rows]],
    hive_flat: MetastoreTable,
    spark_flat: MetastoreTable,
    database: str,
) -> None:
    table.alter(with_keys(next_version(table.layout), {"foo.bar": ColumnType.STRING}))
    table.write(HOUR, [{"price": 3, "foo/bar": '{"baz1":"b","x-y":{"z":1}}'}, {"price": 4}])
    old = {
        "foo/bar/baz1": locate_collapsed(_key("foo.bar.baz1"), _key("foo.bar"), "foo/bar"),
        "foo/bar/x-y/z": locate_collapsed(_key("foo.bar.x-y.z"), _key("foo.bar"), "foo/bar"),
        "cost": OldName("price"),
        "gone": OldName("no/such/column"),
    }
    views = [compatibility_view(flat, "events_flat_compat") for flat in (hive_flat, spark_flat)]
    for view, state in zip(views, table.states, strict=True):
        assert view.old_names() == {}
        assert view.write(state, old)
        assert not view.write(state, view.old_names())
    query = (
        "SELECT `foo/bar/baz1`, `foo/bar/x-y/z`, cost FROM {t}.events_flat_compat WHERE hh = 21 AND cost > 0"
    )
    expected: Rows = [("NULL", "NULL", "4"), ("b", "1", "3")]
    assert readers(query) == alike(expected)

    table.alter(with_keys(next_version(table.layout), {"cost": ColumnType.STRING}))
    for view, state in zip(views, table.states, strict=True):
        assert view.refresh(state)
        assert "cost" not in view.old_names()
    query = "SELECT cost, `foo/bar/baz1` FROM {t}.events_flat_compat"
    assert readers(query) == alike([("NULL", "NULL"), ("NULL", "b")])


def test_a_collapsed_key_keeps_its_values_under_its_old_name(
    table: Mutating,
    readers: Callable[[str], dict[str, Rows]],
    hive_flat: MetastoreTable,
    spark_flat: MetastoreTable,
    database: str,
) -> None:
    table.alter(with_keys(next_version(table.layout), {"foo.bar.baz": ColumnType.INT}))
    table.write(HOUR, [{"foo/bar/baz": 5}])
    layout = with_keys(next_version(table.layout), {"foo.bar": ColumnType.STRING})
    table.alter(layout.with_slot(replace(layout.slots[5], state=SlotState.EMPTY)))
    table.write(HOUR + HOUR_S, [{"foo/bar": '{"baz":6}'}])
    for flat, state in zip((hive_flat, spark_flat), table.states, strict=True):
        assert compatibility_view(flat, "events_flat_compat").refresh(state)
    query = "SELECT hh, `foo/bar/baz` FROM {t}.events_flat_compat WHERE `foo/bar/baz` > 4"
    assert readers(query) == alike([("21", "5"), ("22", "6")])


def test_counts_are_used_only_for_the_files_that_were_counted(
    table: Mutating, hive_flat: MetastoreTable, spark: Any
) -> None:
    storage, asked = HadoopStorage(spark), []

    def footers(files: Sequence[str]) -> Sequence[int]:
        asked.append(len(files))
        return _footers(spark)(files)

    table.write(HOUR, [{"action/name": "a"}, {"action/name": "b", "price": 1}])
    files = list_data_files(storage, str(hive_flat.partitions([HOUR])[0].location))
    hive_flat.set_hour_parameters(HOUR, format_nonnull(1, [0, 2, 0, 1, 0], files))
    assert count_retained_values(hive_flat.partitions(), storage, footers) == (0, 2, 0, 1, 0)
    assert asked == []
    table.write(HOUR, [{"old": "late"}])
    assert count_retained_values(hive_flat.partitions(), storage, footers)[4] == 1
    assert asked == [2]


def _footers(spark: Any) -> Callable[[Sequence[str]], list[int]]:
    """Values per slot, counted by reading all rows."""

    def count(files: Sequence[str]) -> list[int]:
        totals: list[int] = []
        for file in files:
            frame = spark.read.orc(file)
            found = [frame.where(frame[index].isNotNull()).count() for index in range(len(frame.columns))]
            totals += [0] * (len(found) - len(totals))
            totals = [a + b for a, b in zip(totals, found + [0] * len(totals), strict=False)]
        return totals

    return count


def _key(text: str) -> KeyPath:
    return KeyPath.of_dotted(text)
