"""Rows of JSON, and their values from the splitter and from ``get_json_object``."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state.columns.paths import KeyPath
from state.columns.slots import RESCUED, Layout, Slot
from state.columns.types import DOUBLE_EXACT_MAX, ColumnType
from streaming.split.parse_schema import quote
from streaming.split.split_plan import MALFORMED, TRAILING
from streaming.split.splitter import split
from tests.builders.flat.columns import spark_json_path


def layout_of(types: Mapping[KeyPath, ColumnType]) -> Layout:
    """Return a layout with one slot per key, in order."""
    layout = Layout.new()
    for index, (key, column_type) in enumerate(types.items(), 1):
        layout = layout.with_slot(Slot(index, f"c{index}", key, column_type))
    layout.check()
    return layout


@dataclass(frozen=True)
class Told:
    """One row: the text of the column and the text from ``get_json_object``, by key."""

    text: str | None
    malformed: bool
    trailing: bool
    """Whether there is more text behind the document."""
    rescued: bool
    flat: Mapping[KeyPath, str | None]
    raw: Mapping[KeyPath, str | None]

    def differences(
        self, types: Mapping[KeyPath, ColumnType]
    ) -> list[tuple[KeyPath, str | None, str | None]]:
        """The keys whose value violates the rule, with both texts."""
        return [
            (key, self.flat[key], self.raw[key])
            for key, column_type in types.items()
            if not self._is_kept(self.flat[key], self.raw[key], column_type)
        ]

    def _is_kept(self, flat: str | None, raw: str | None, column_type: ColumnType) -> bool:
        if flat is None and raw is not None:
            return self.rescued and column_type is not ColumnType.STRING
        return flat == raw or (column_type is ColumnType.DOUBLE and _is_same_integer(flat, raw))


def _is_same_integer(flat: str | None, raw: str | None) -> bool:
    if flat is None or raw is None or not raw.removeprefix("-").isdecimal():
        return False
    return abs(int(raw)) <= DOUBLE_EXACT_MAX and float(flat) == int(raw)


def told(
    spark: Any,
    texts: Sequence[str | None],
    types: Mapping[KeyPath, ColumnType],
    numeric_strings: Collection[KeyPath] = (),
) -> list[Told]:
    """Split the rows, and call ``get_json_object`` for every key with a path that it supports (others keep
    the split text)."""
    frame = spark.createDataFrame(list(enumerate(texts)), "id int, value string").repartition(2)
    rows = split(frame, layout_of(types), keep=["id", "value"], numeric_strings=numeric_strings)
    flat = [f"CAST(c{index} AS STRING) AS c{index}" for index in range(1, len(types) + 1)]
    raw = [f"{_raw(key, f'c{index}')} AS g{index}" for index, key in enumerate(types, 1)]
    rescued = f"{quote(RESCUED)} IS NOT NULL AS rescued"
    found = rows.selectExpr("id", "value", MALFORMED, TRAILING, rescued, *flat, *raw).collect()
    return [
        Told(
            row["value"],
            row[MALFORMED],
            row[TRAILING],
            row["rescued"],
            {key: row[f"c{index}"] for index, key in enumerate(types, 1)},
            {key: row[f"g{index}"] for index, key in enumerate(types, 1)},
        )
        for row in sorted(found, key=lambda row: int(row["id"]))
    ]


def _raw(key: KeyPath, column: str) -> str:
    path = spark_json_path(key)
    if path is None:
        return f"CAST({column} AS STRING)"
    escaped = path.replace("\\", "\\\\").replace("'", "\\'")
    return f"get_json_object(value, '{escaped}')"


def webhooks(archive: Path) -> Iterator[str]:
    """The payloads of the GitHub events, as JSON lines."""
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            if not member.name.endswith("index.json"):
                continue
            content = files.extractfile(member)
            assert content is not None
            for event in json.load(content):
                for example in event["examples"]:
                    yield json.dumps(example, ensure_ascii=False, separators=(",", ":"))


def mutated(texts: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """Valid rows with a character removed, doubled or replaced, or truncated."""
    chance = random.Random(seed)  # noqa: S311 (seeded data, no secret)
    for _ in range(count):
        text = chance.choice(texts)
        at = chance.randrange(len(text))
        middle = chance.choice(("", text[at] * 2, chance.choice('{}[],:"\\ 0-.e\t\x01é'), None))
        yield text[:at] if middle is None else text[:at] + middle + text[at + 1 :]
