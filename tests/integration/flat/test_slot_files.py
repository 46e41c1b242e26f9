"""Files of slots from Tideline's own writer are those that Spark's writer makes of the same rows, byte by
byte."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dev.fixtures.json_events import lines
from state.columns.slots import RESCUED, Layout, Slot, SlotState
from state.columns.types import ColumnType
from streaming.split.file_columns import write_files
from streaming.split.plain_rows import is_available
from streaming.split.split_plan import MALFORMED, SLOTS
from streaming.split.splitter import SHORT_LIVED_OPTIONS, replace_rescued, split_packed
from tests.builders.flat.columns import a_key
from tests.builders.flat.json_rows import layout_of
from tests.integration.flat.test_plain_rows import TYPES, session, without_parser
from tests.integration.flat.test_split_equals_get_json_object import types_seen


__all__ = ["session"]

ZSTD = {"compression": "zstd"}
ZERO = re.compile(r"([:,\[]\s*)-?0(\.0*)?(?=[,}\]\s])")
ALL_TYPES = {a_key(f"k{number}"): column_type for number, column_type in enumerate(TYPES)}


def write_both(
    session: Any,
    directory: Path,
    texts: Sequence[str | None],
    layout: Layout,
    *,
    options: Mapping[str, str] = ZSTD,
    textual: frozenset[int] = frozenset(),
) -> list[list[bytes]]:
    """Write the rows by both writers, malformed ones beside the others, and return the contents of their
    files."""
    contents = []
    for used in (session, without_parser(session)):
        frame = used.createDataFrame([(text,) for text in texts], "value string").coalesce(1)
        rows = split_packed(frame, layout)
        out = directory / ("own" if is_available(used) else "spark")
        write_files(rows, layout, str(out), options=options, textual=textual, by=[MALFORMED])
        contents.append(
            [path.read_bytes() for path in sorted(out.rglob("*.orc"), key=lambda path: path.parent)]
        )
    return contents


@pytest.mark.parametrize(
    "options", [ZSTD, {"compression": "snappy"}, {**ZSTD, **SHORT_LIVED_OPTIONS}], ids=str
)
def test_files_of_all_types_are_equal(session: Any, tmp_path: Path, options: Mapping[str, str]) -> None:
    """More rows than one batch of ORC has, some longer than what is collected, with columns without any value
    and malformed rows."""
    rows: list[str | None] = [
        json.dumps(
            {
                "k0": n % 100,
                "k1": -n,
                "k2": n * 70_000,
                "k3": n << 40,
                "k4": (n + 1) / 3,  # zero would have other bounds
                "k5": f"é{n}",
                "k6": n > 5,
            }
        )
        for n in range(3_000)
    ]
    rows[7] = '{"k0":null}'
    rows[8] = json.dumps({"k5": "x" * 30_000, "k6": True})
    rows[9] = json.dumps({"k5": "y" * 2_000_000})
    rows[10:12] = [None, "{"]
    rows[12] = '{"k0":300,"k1":"no number"}'
    own, spark = write_both(session, tmp_path, rows, layout_of(ALL_TYPES), options=options)
    assert own == spark
    assert len(own) == 2


def test_files_of_hundreds_of_columns_are_equal(session: Any, tmp_path: Path) -> None:
    texts = [ZERO.sub(r"\g<1>7", text) for text in lines(1_500, seed=21)]  # zero has other bounds
    layout = layout_of(types_seen(texts))
    layout = layout.with_slot(replace(layout.slots[5], state=SlotState.EMPTY))
    own, spark = write_both(session, tmp_path, texts, layout)
    assert len(layout.slots) > 200
    assert own == spark


def test_files_with_numbers_written_as_text_are_equal(session: Any, tmp_path: Path) -> None:
    texts = [json.dumps({"k2": n, "k4": n / 4}) for n in range(100)]
    own, spark = write_both(session, tmp_path, texts, layout_of(ALL_TYPES), textual=frozenset({3, 5}))
    assert own == spark


def test_a_split_without_rows_makes_the_files_of_spark(session: Any, tmp_path: Path) -> None:
    names = []
    for used in (session, without_parser(session)):
        out = tmp_path / str(is_available(used))
        rows = split_packed(used.createDataFrame([], "value string"), Layout.new())
        write_files(rows, Layout.new(), str(out), options=ZSTD)
        names.append([path.name.partition("-c000")[2] for path in out.glob("*.orc")])
    assert names[0] == names[1] == [".zstd.orc"]


def test_the_text_of_a_dead_letter_replaces_the_rescued_text_alone(session: Any) -> None:
    layout = Layout.new().with_slot(Slot(1, "it's `a`\\", a_key("a"), ColumnType.INT))
    rows = split_packed(session.createDataFrame([('{"a":1}',)], "value string"), layout, keep=["value"])
    (row,) = rows.selectExpr(f"{replace_rescued(layout, 'value')} AS {SLOTS}").collect()
    assert row[SLOTS].asDict() == {RESCUED: '{"a":1}', "it's `a`\\": 1}
