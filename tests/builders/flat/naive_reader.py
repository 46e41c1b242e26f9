"""A naive reader of a flat table without an engine: all files of all partitions, with columns by position as
in Hive."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Self

import pyarrow as pa
from pyarrow.fs import S3FileSystem

from handlers.metastore.client import Metastore
from handlers.structs.objects import FieldSchema
from state.columns.paths import KeyPath
from state.errors import NotFound
from tests.builders.components.object_store import TestStore
from tests.builders.components.remote_files import orc_files
from tideline import open_dataset


Row = dict[str, Any]


class JavaDouble(float):
    """A number that is sent as a fraction, with its text in a STRING column if that differs from Python's."""

    def __new__(cls, value: str | float, text: str = "") -> Self:
        made = super().__new__(cls, value)
        made.text = text or repr(float(value))
        return made

    text: str


def read_table(metastore: Metastore, database: str, name: str) -> list[Row]:
    """Return all rows by the current keys of the columns, or by the names of columns without a key."""
    columns = list(map(key_of, metastore.get_table(database, name).sd.cols or []))
    names = metastore.partition_names(database, name)
    rows: list[Row] = []
    for partition in metastore.get_partitions(database, name, names):
        for file, table in orc_files(partition.sd.location or ""):
            assert table.num_columns <= len(columns), file
            rows += _read_rows(table.rename_columns(columns[: table.num_columns]))
    return rows


def key_of(column: FieldSchema) -> str:
    """Return a member of the top level by its exact name, a deeper key as a path, and a column without a key
    by its name."""
    comment = column.comment or ""
    key = json.loads(comment).get("k") if comment.startswith("{") else None
    if key is None:
        return column.name
    members = KeyPath.of_json_path(key).members
    return members[0] if len(members) == 1 else str(key)


def read_by_path(location: str, columns: Iterable[FieldSchema]) -> list[Row]:
    """Return all rows as programs read them that know only the table's directory; none before the first
    batch."""
    store = TestStore.named() if location.startswith("s3a:") else None
    system = S3FileSystem(**store.arrow) if store else None
    try:
        dataset = open_dataset(location.removeprefix("s3a://") if store else location, system)
    except NotFound:
        return []
    keys = {column.name: key_of(column) for column in columns}
    table = dataset.to_table(columns=[name for name in dataset.schema.names if name in keys])
    return _read_rows(table.rename_columns([keys[name] for name in table.column_names]))


def read_letters(root: str) -> dict[str, list[str]]:
    """Return the identities of the dead letters below ``root``, by reason."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, table in orc_files(root):
        found[file.partition("/")[0]] += [
            identity(row) for row in _read_rows(table.select([0]).rename_columns(["_rescued"]))
        ]
    return found


def as_text(value: bytes) -> str:
    """Return a text for bytes that need not be UTF-8; different bytes have different texts."""
    return value.decode(errors="surrogateescape")


def as_bytes(text: str) -> bytes:
    """Return the bytes for which ``as_text`` returns the text."""
    return text.encode(errors="surrogateescape")


def _read_rows(table: pa.Table) -> list[Row]:
    """Return the rows; texts need not be UTF-8."""
    import pyarrow as pa

    for index, column in enumerate(table.schema):
        if column.type == pa.string():
            table = table.set_column(index, column.name, table.column(index).cast(pa.binary()))
    return [
        {name: as_text(value) if isinstance(value, bytes) else value for name, value in row.items()}
        for row in table.to_pylist()
    ]


def identity(row: Row) -> str:
    """Return a row's ``uuid``, or its whole text if it is not JSON."""
    if uuid := row.get("uuid"):
        return str(uuid)
    text = str(row["_rescued"])
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(value["uuid"]) if isinstance(value, dict) and "uuid" in value else text


def check_rows(rows: Iterable[Row], events: Mapping[str, Mapping[str, Any]], keys: Iterable[str]) -> set[str]:
    """Assert that no row is duplicated and every value is in its column or in ``_rescued``;
    return the identities.

    ``events`` are all events that were sent, by their identities.
    """
    found: Counter[str] = Counter()
    asked = list(keys)
    for row in rows:
        name = identity(row)
        found[name] += 1
        for key in asked:
            check_value(row, events[name], key)
    assert [name for name, count in found.items() if count > 1] == []
    return set(found)


def check_value(row: Row, event: Mapping[str, Any], key: str) -> None:
    """Assert that the event's value of ``key`` is the column's text, or rescued, or not requested."""
    if key not in row:
        return
    expected, value = event.get(key), row[key]
    if value is None:
        assert expected is None or row["_rescued"] is not None, (key, event, row)
        assert expected is None or json.loads(row["_rescued"])[key] == expected, (key, event, row)
    elif isinstance(value, float) and isinstance(expected, JavaDouble):
        assert repr(value) == repr(float(expected)), (key, event, row)
    else:
        assert str(value) == _column_text(expected), (key, event, row)


def _column_text(value: Any) -> str:
    """Return the text of a value in a STRING column (docs/SPLITTING.md)."""
    if isinstance(value, JavaDouble):
        return value.text
    if isinstance(value, float) and math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
