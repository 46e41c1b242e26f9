"""A naive reader of a flat table: every file of every partition, columns by position as Hive takes them, without any engine."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlers.files.paths import parse


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handlers.metastore import Metastore


Row = dict[str, Any]


def read_table(metastore: Metastore, database: str, name: str) -> list[Row]:
    """Return all rows, with the names that the table's columns have now."""
    from pyarrow import orc

    columns = [column.name for column in metastore.get_table(database, name).sd.cols or []]
    names = metastore.partition_names(database, name)
    rows: list[Row] = []
    for partition in metastore.get_partitions(database, name, names):
        directory = Path(parse(partition.sd.location or "").path)
        for file in sorted(directory.glob("*.orc")) if directory.exists() else ():
            table = orc.ORCFile(str(file)).read()
            assert table.num_columns <= len(columns), file
            table = table.rename_columns(columns[: table.num_columns])
            rows += table.to_pylist()
    return rows


def check_rows(rows: Iterable[Row], events: Mapping[str, Mapping[str, Any]], keys: Iterable[str]) -> set[str]:
    """Assert that no row is there twice and every value is in its column or in ``_rescued``; return the rows' uuids.

    ``events`` are all that were ever sent, by their ``uuid``.
    """
    found: Counter[str] = Counter()
    asked = list(keys)
    for row in rows:
        uuid = row.get("uuid") or json.loads(row["_rescued"])["uuid"]
        found[uuid] += 1
        for key in asked:
            check_value(row, events[uuid], key)
    assert [uuid for uuid, count in found.items() if count > 1] == []
    return set(found)


def check_value(row: Row, event: Mapping[str, Any], key: str) -> None:
    """Assert that the event's value of ``key`` is the column's text, or rescued, or nowhere asked for."""
    if key not in row:
        return
    expected, value = event.get(key), row[key]
    if value is None:
        assert expected is None or row["_rescued"] is not None, (key, event, row)
        assert expected is None or json.loads(row["_rescued"])[key] == expected, (key, event, row)
    else:
        assert str(value) == (expected if isinstance(expected, str) else json.dumps(expected)), (
            key,
            event,
            row,
        )
