"""Answers about flat tables: columns, fill rates, the users of each key, keys without a column, and the
history.

They come from the database of the key log, where the driver leaves a snapshot of the table with each batch.
So the answers need neither Spark nor the metastore, and are available while the driver is down; they contain
the age of the snapshot. Answers are plain values, which HTTP serves as JSON and as a page. The current files
(``tideline split files``) come from the table's directory, without Spark and in parallel with its driver.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from daemon.flat.settings import FLAT, flat_config
from daemon.keylog.opening import open_key_log
from handlers.files.filesystems import read_chunks
from handlers.files.paths import Location, parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import ConfigError, NotFound
from streaming.table.current_files import find_current_files


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from daemon.config.model import Config
    from daemon.flat.settings import FlatConfig
    from daemon.flat.status import FlatStatus
    from daemon.keylog.settings import KeyedTable
    from handlers.files.filesystems import FileSystem
    from streaming.keylog.log import KeyLog
    from streaming.keylog.table_snapshots import TableSnapshot


CHANGES_MAX: Final = 300
_DEMAND: Final = ("users", "days", "count", "last_s", "rank", "serves")
Answer = dict[str, Any]


class FlatAnswers:
    """Answers about the configured flat tables. Thread-safe. Every method may block on the database."""

    def __init__(self, config: Config, statuses: Callable[[], Sequence[FlatStatus]]) -> None:
        self._config = config
        self._statuses = statuses
        self._lock = threading.Lock()
        self._log: KeyLog | None = None

    def list_tables(self) -> Answer:
        """Return every flat table with the state of its driver and the age of its snapshot."""
        from streaming.keylog.table_snapshots import read_snapshot

        log = self.open_log()
        rows = []
        for name, flat in FLAT.of(self._config).items():
            snapshot = read_snapshot(log, flat.table)
            rows.append(
                {
                    "name": name,
                    "table": flat.table,
                    "raw_table": flat.raw_table,
                    "driver": self._driver(name),
                    **_age(snapshot),
                    "columns": _count_live(snapshot),
                    "rows": None if snapshot is None else snapshot.document.get("rows"),
                }
            )
        return {"flat": rows}

    def show_table(self, name: str) -> Answer:
        """Return the columns, the other keys and the history of one table; raise NotFound."""
        from daemon.keylog.answers import read_keys
        from streaming.keylog.table_snapshots import read_changes, read_snapshot

        entry, flat = self._find(name)
        log = self.open_log()
        snapshot, keys = read_snapshot(log, flat.table), read_keys(log, flat.keyed())
        document: Mapping[str, Any] = {} if snapshot is None else snapshot.document
        demand = {each["key"]: each for each in keys["keys"]}
        columns = [_column(each, demand) for each in document.get("columns", ())]
        live = {each["key"] for each in columns if each["state"] == "live"}
        return {
            "name": entry,
            "table": flat.table,
            "raw_table": flat.raw_table,
            "driver": self._driver(entry),
            **_age(snapshot),
            "requested_days": keys["requested_days"],
            "reasons_from": keys["reasons_from"],
            "columns_max": keys["columns_max"],
            "totals": _totals(document),
            "calendar": document.get("calendar") or {},
            "columns": columns,
            "candidates": [_candidate(each) for each in keys["keys"] if each["key"] not in live],
            "changes": [
                dataclasses.asdict(each) for each in read_changes(log, flat.table, limit=CHANGES_MAX)
            ],
        }

    def list_keys(self, name: str) -> Answer:
        """Return the keys of one table, each with its verdict and the reason; raise NotFound."""
        from daemon.keylog.answers import read_keys

        return read_keys(self.open_log(), self.keyed_table(name))

    def list_rules(self, name: str) -> Answer:
        """Return the decisions about the keys of one table; raise NotFound."""
        from daemon.keylog.answers import list_rules

        return list_rules(self.open_log(), self.keyed_table(name))

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    def keyed_table(self, name: str) -> KeyedTable:
        """Return a table with the rules that decide about its keys; raise NotFound."""
        return self._find(name)[1].keyed()

    def _find(self, name: str) -> tuple[str, FlatConfig]:
        try:
            flat = flat_config(self._config, name)
        except ConfigError as error:
            raise NotFound("unknown flat table", name=name[:200], hint=error.hint) from None
        return next(entry for entry, each in FLAT.of(self._config).items() if each is flat), flat

    def open_log(self) -> KeyLog:
        """Return the key log, after opening it at the first call; raise KeyLogUnavailable."""
        with self._lock:
            if self._log is None:
                self._log = open_key_log(self._config)
            return self._log

    def _driver(self, name: str) -> Answer | None:
        """Return the state of the driver; None if this daemon does not run it."""
        status = next((each for each in self._statuses() if each.name == name), None)
        return None if status is None else dataclasses.asdict(status)


def _age(snapshot: TableSnapshot | None) -> Answer:
    if snapshot is None:
        return {"version": None, "updated_at_s": None, "age_s": None}
    age_s = max(0, int(time.time()) - snapshot.updated_at_s)
    return {"version": snapshot.version, "updated_at_s": snapshot.updated_at_s, "age_s": age_s}


def _count_live(snapshot: TableSnapshot | None) -> int | None:
    if snapshot is None:
        return None
    return sum(1 for each in snapshot.document.get("columns", ()) if each.get("state") == "live")


def _column(column: Mapping[str, Any], demand: Mapping[str, Mapping[str, Any]]) -> Answer:
    row = demand.get(column.get("key") or "", {})
    return {**column, **{name: row.get(name) for name in _DEMAND}}


def _candidate(row: Mapping[str, Any]) -> Answer:
    return {name: row.get(name) for name in ("key", "verdict", "reason", "into", *_DEMAND)}


def _totals(document: Mapping[str, Any]) -> Answer:
    """Return the total sizes. The saving compares the files of sealed hours with the JSON of their rows."""
    names = (
        "partitions",
        "sealed",
        "rows",
        "trailing",
        "raw_bytes",
        "sealed_raw_bytes",
        "flat_bytes",
        "hours",
    )
    totals = {name: document.get(name) for name in names}
    raw, flat = totals["sealed_raw_bytes"], totals["flat_bytes"]
    totals["saving"] = round(1 - flat / raw, 4) if raw and flat else None
    return totals


def list_current_files(config: Config, flat: FlatConfig) -> dict[str, Any]:
    """Return the current files of a table, its columns and its partition columns.

    Raises ConfigError if this process knows no location of the table, and NotFound before its driver has
    written it.
    """
    if flat.location is None:
        raise ConfigError(
            "the flat table has no location in this configuration",
            table=flat.table,
            hint="Set location, source and event_time (docs/CONFIG.md).",
        )
    table = parse_location(flat.location)
    files = _Files(open_file_systems(config.files.all_options(), [table]).of(table))
    current, data_files = find_current_files(table, files.read, files.list_directory)
    names = [name for name, _ in current.partition_columns]
    return {
        "table": flat.table,
        "columns": [{"name": name, "type": kind} for name, kind in current.columns],
        "partition_columns": [{"name": name, "type": kind} for name, kind in current.partition_columns],
        "files": [
            {"path": str(each.location), "partition": dict(zip(names, each.values, strict=True))}
            for each in data_files
        ],
    }


class _Files:
    def __init__(self, system: FileSystem) -> None:
        self._system = system

    def read(self, location: Location) -> str | None:
        try:
            return b"".join(read_chunks(self._system, location)).decode()
        except NotFound:
            return None

    def list_directory(self, directory: Location) -> list[str]:
        try:
            return [entry.name for entry in self._system.list(directory) if not entry.is_directory]
        except NotFound:
            return []
