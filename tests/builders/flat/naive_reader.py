"""A naive reader of a flat table without an engine: all files of all partitions, with columns by position as in Hive."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from tests.builders.components.remote_files import orc_files


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handlers.metastore.client import Metastore


Row = dict[str, Any]


def read_table(metastore: Metastore, database: str, name: str) -> list[Row]:
    """Return all rows with the current column names."""
    columns = [column.name for column in metastore.get_table(database, name).sd.cols or []]
    names = metastore.partition_names(database, name)
    rows: list[Row] = []
    for partition in metastore.get_partitions(database, name, names):
        for file, table in orc_files(partition.sd.location or ""):
            assert table.num_columns <= len(columns), file
            rows += table.rename_columns(columns[: table.num_columns]).to_pylist()
    return rows


def read_letters(root: str) -> dict[str, list[str]]:
    """Return the identities of the dead letters below ``root``, by reason."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, table in orc_files(root):
        found[file.partition("/")[0]] += [identity({"_rescued": text.as_py()}) for text in table.column(0)]
    return found


def identity(row: Row) -> str:
    """Return a row's ``uuid``, or its whole text if it is not JSON."""
    if uuid := row.get("uuid"):
        return str(uuid)
    try:
        return str(json.loads(row["_rescued"])["uuid"])
    except ValueError:
        return str(row["_rescued"])


def check_rows(rows: Iterable[Row], events: Mapping[str, Mapping[str, Any]], keys: Iterable[str]) -> set[str]:
    """Assert that no row is duplicated and every value is in its column or in ``_rescued``; return the identities.

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
    else:
        assert str(value) == (expected if isinstance(expected, str) else json.dumps(expected)), (
            key,
            event,
            row,
        )
