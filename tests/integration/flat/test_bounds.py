"""Texts with emoji beside full-width letters, and zeros of both signs: no reader skips a row that matches."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from dev.stack.hive.sql_session import Session
from handlers.files.paths import Location
from state.columns.types import ColumnType
from streaming.batch.footers import FooterReader
from streaming.split.file_columns import write_columns
from streaming.table.current_files import CurrentTableFile
from streaming.table.hours import HourColumns
from streaming.table.metastore_table import MetastoreTable
from tests.builders.flat.layouts import HOUR, a_layout
from tests.integration.flat.test_plain_rows import session, without_parser
from tideline import open_dataset


__all__ = ["session"]

ROWS = 1_200
ZSTD = {"compression": "zstd"}
LAYOUT = a_layout({"v": ColumnType.STRING})
FULL_WIDTH = "\uff21\uff22\uff23"
EMOJI = "\U0001f600"
ALPHABET = ("", "a", "\ud7ff", "\ue000", "\uff21", "\uffff", "\U00010000", EMOJI, "\U0010ffff")
GROUPS = (
    ("a", FULL_WIDTH, EMOJI),
    (f"a{FULL_WIDTH}", f"a{EMOJI}"),
    ("plain", "texts"),
    (EMOJI, "a"),
    (FULL_WIDTH, "\ue000"),
    (None, EMOJI),
    (f"b{EMOJI}" * 400, f"b{FULL_WIDTH}" * 400),
)
"""Values of groups of rows, each with its own bounds. The longest texts have truncated bounds."""


def units(text: str) -> bytes:
    """Return the key of the order by UTF-16 units."""
    return text.encode("utf-16-be")


def test_a_text_beyond_a_bound_by_units_is_beyond_all_values_by_bytes(session: Any) -> None:
    texts = ["".join(each) for each in product(ALPHABET, repeat=3)]
    chosen = random.Random(30)  # noqa: S311 - seeded randomness generates data, not secrets
    bounds = session._jvm.tideline.split.Bounds
    unbounded = 0
    for _ in range(600):
        values = chosen.sample(texts, chosen.choice([1, 2, 5]))
        lower, upper = bounds.lower(min(values)), bounds.upper(max(values))
        assert lower <= min(values)
        assert units(lower) <= min(map(units, values))
        if upper is None:
            unbounded += 1
            assert max(values)[0] >= "\uffff"
            continue
        assert upper >= max(values)
        assert units(upper) >= max(map(units, values))
        for other in chosen.sample(texts, 50):
            assert units(other) >= units(lower) or other < min(values), (values, other)
            assert units(other) <= units(upper) or other > max(values), (values, other)
    assert 0 < unbounded < 400


def write_groups(session: Any, directory: str) -> None:
    """Write a file in which each of ``GROUPS`` is a group of rows; its rows alternate between the values."""
    rows = [(None, group[n % len(group)]) for group in GROUPS for n in range(ROWS)]
    frame = session.createDataFrame(rows, "_rescued string, v string").coalesce(1)
    write_columns(frame, LAYOUT, directory, options={**ZSTD, "orc.row.index.stride": str(ROWS)})


def count(matches: Callable[[str], bool]) -> int:
    """Return how many of the rows match, compared as Python compares: by code points."""
    return sum(ROWS // len(group) for group in GROUPS for each in group if each is not None and matches(each))


CONDITIONS: dict[str, Callable[[str], bool]] = {
    f"v = '{FULL_WIDTH}'": lambda v: v == FULL_WIDTH,
    f"v IN ('{EMOJI}', 'plain')": lambda v: v in {EMOJI, "plain"},
    f"v < '{EMOJI}'": lambda v: v < EMOJI,
    f"v >= '{FULL_WIDTH}'": lambda v: v >= FULL_WIDTH,
    f"v BETWEEN 'b' AND '{FULL_WIDTH}'": lambda v: "b" <= v <= FULL_WIDTH,
    f"v LIKE 'b{EMOJI}%'": lambda v: v.startswith(f"b{EMOJI}"),
}


def count_pushed(session: Any, directory: str, condition: str) -> int:
    assert session.conf.get("spark.sql.orc.filterPushdown") == "true"
    frame = session.read.schema("_rescued string, v string").orc(directory).where(condition)
    return int(frame.count())


def test_spark_finds_all_rows_with_pushed_filters(session: Any, tmp_path: Path) -> None:
    own, plain = str(tmp_path / "own"), str(tmp_path / "spark")
    write_groups(session, own)
    write_groups(without_parser(session), plain)
    for condition, matches in CONDITIONS.items():
        assert count_pushed(session, own, condition) == count(matches) > 0, condition
    condition, matches = next(iter(CONDITIONS.items()))
    assert count_pushed(session, plain, condition) < count(matches), "Spark's own writer"
    reader = FooterReader(session)
    footers = [reader.read_all(map(str, (tmp_path / name).glob("*.orc"))) for name in ("own", "spark")]
    assert footers[0] == footers[1], "counts are those of Spark's writer"


def test_zeros_of_both_signs_are_equal_in_pushed_filters(session: Any, tmp_path: Path) -> None:
    layout = a_layout({"v": ColumnType.DOUBLE})
    for zero, name in ((-0.0, "own"), (0.0, "positive")):
        frame = session.createDataFrame([(None, zero)] * 3, "_rescued string, v double")
        write_columns(frame, layout, str(tmp_path / name), options=ZSTD)
        for condition in ("v = 0", "v = -0.0d", "v <= -0.0d", "v >= 0", "v IN (0.0d, 7.0d)"):
            found = session.read.orc(str(tmp_path / name)).where(condition)
            assert found.count() == 3, (zero, condition)


def test_hive_and_a_reader_by_path_find_all_rows(
    session: Any, hive_flat: MetastoreTable, external: Location, source_sql: Session, database: str
) -> None:
    import pyarrow.dataset as ds

    hive_flat.create(LAYOUT, location=external.child("events_flat"), columns=HourColumns())
    place = str(hive_flat.add_hour(HOUR).location)
    write_groups(session, place)
    CurrentTableFile(hive_flat, hive_flat._storage).write(hive_flat.read())
    source_sql.run("set hive.fetch.task.conversion=none")
    dataset = open_dataset(hive_flat.read().location.path)
    for condition in (f"v = '{FULL_WIDTH}'", f"v < '{EMOJI}'"):
        found = source_sql.rows(f"select count(*) from {database}.events_flat where {condition}")
        assert found == [(str(count(CONDITIONS[condition])),)], condition
    assert dataset.count_rows(filter=ds.field("v") == FULL_WIDTH) == count(lambda v: v == FULL_WIDTH)
