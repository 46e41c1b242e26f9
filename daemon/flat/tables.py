"""Flat tables as people look at them: columns, fill rates, who asks for them, what waits and why, how they came to be.

Everything is read from the key log's database, where the driver leaves a snapshot with each batch; neither Spark nor the metastore
is asked, so it is told while the driver is down too, and how old it is. Answers are plain values: HTTP serves them as JSON and as a
page.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from daemon.flat.settings import FLAT, flat_config
from daemon.keylog.opening import open_key_log
from state.errors import ConfigError, NotFound


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from daemon.config.model import Config
    from daemon.flat.progress import FlatStatus
    from daemon.flat.settings import FlatConfig
    from streaming.keylog.log import KeyLog
    from streaming.keylog.table_snapshots import TableSnapshot


CHANGES_MAX: Final = 300
_ASKED: Final = ("users", "days", "count", "last_s", "rank", "serves")
Answer = dict[str, Any]


class FlatAnswers:
    """Answers about the configured flat tables; for any thread, and each may wait for the database."""

    def __init__(self, config: Config, statuses: Callable[[], Sequence[FlatStatus]]) -> None:
        self._config = config
        self._statuses = statuses
        self._lock = threading.Lock()
        self._log: KeyLog | None = None

    def listing(self) -> Answer:
        """Return every flat table with its driver and the age of what is known of it."""
        from streaming.keylog.table_snapshots import read_snapshot

        log = self._opened()
        rows = []
        for name, flat in FLAT.of(self._config).items():
            snapshot = read_snapshot(log, flat.table)
            rows.append(
                {
                    "name": name,
                    "table": flat.table,
                    "raw_table": flat.raw_table,
                    "driver": self._driver(name),
                    **_moment(snapshot),
                    "columns": _live(snapshot),
                    "rows": None if snapshot is None else snapshot.document.get("rows"),
                }
            )
        return {"flat": rows}

    def show(self, name: str) -> Answer:
        """Return all that is known of one table; NotFound where none has the name."""
        from daemon.keylog.answers import key_answer
        from streaming.keylog.table_snapshots import read_changes, read_snapshot

        entry, flat = self._named(name)
        log = self._opened()
        snapshot, keys = read_snapshot(log, flat.table), key_answer(log, flat.keyed())
        document: Mapping[str, Any] = {} if snapshot is None else snapshot.document
        asked = {each["key"]: each for each in keys["keys"]}
        columns = [_column(each, asked) for each in document.get("columns", ())]
        live = {each["key"] for each in columns if each["state"] == "live"}
        return {
            "name": entry,
            "table": flat.table,
            "raw_table": flat.raw_table,
            "driver": self._driver(entry),
            **_moment(snapshot),
            "asked_days": keys["asked_days"],
            "told_by": keys["told_by"],
            "columns_max": keys["columns_max"],
            "totals": _totals(document),
            "columns": columns,
            "candidates": [_candidate(each) for each in keys["keys"] if each["key"] not in live],
            "changes": [
                dataclasses.asdict(each) for each in read_changes(log, flat.table, limit=CHANGES_MAX)
            ],
        }

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    def _named(self, name: str) -> tuple[str, FlatConfig]:
        try:
            flat = flat_config(self._config, name)
        except ConfigError as error:
            raise NotFound("there is no such flat table", name=name[:200], hint=error.hint) from None
        return next(entry for entry, each in FLAT.of(self._config).items() if each is flat), flat

    def _opened(self) -> KeyLog:
        with self._lock:
            if self._log is None:
                self._log = open_key_log(self._config)
            return self._log

    def _driver(self, name: str) -> Answer | None:
        """Return how the driver goes; None where this daemon runs none for the table."""
        found = next((each for each in self._statuses() if each.name == name), None)
        return None if found is None else dataclasses.asdict(found)


def _moment(snapshot: TableSnapshot | None) -> Answer:
    if snapshot is None:
        return {"version": None, "updated_at_s": None, "age_s": None}
    age_s = max(0, int(time.time()) - snapshot.updated_at_s)
    return {"version": snapshot.version, "updated_at_s": snapshot.updated_at_s, "age_s": age_s}


def _live(snapshot: TableSnapshot | None) -> int | None:
    if snapshot is None:
        return None
    return sum(1 for each in snapshot.document.get("columns", ()) if each.get("state") == "live")


def _column(told: Mapping[str, Any], asked: Mapping[str, Mapping[str, Any]]) -> Answer:
    why = asked.get(told.get("key") or "", {})
    return {**told, **{name: why.get(name) for name in _ASKED}}


def _candidate(row: Mapping[str, Any]) -> Answer:
    return {name: row.get(name) for name in ("key", "verdict", "reason", "into", *_ASKED)}


def _totals(document: Mapping[str, Any]) -> Answer:
    """Return sizes; the saving compares sealed hours, whose files' sizes are known, with the JSON that they were."""
    names = ("partitions", "sealed", "rows", "raw_bytes", "sealed_raw_bytes", "flat_bytes", "hours")
    totals = {name: document.get(name) for name in names}
    raw, flat = totals["sealed_raw_bytes"], totals["flat_bytes"]
    totals["saving"] = round(1 - flat / raw, 4) if raw and flat else None
    return totals
