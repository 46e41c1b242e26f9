"""A flat table whose driver is killed repeatedly, and what two readers see after each kill."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev.stack.hive.sql_session import Session
from handlers.failpoints import VARIABLE
from handlers.metastore.client import Metastore
from handlers.structs.objects import FieldSchema
from tests.builders.flat.feeds import DirectoryFeed, Feed
from tests.builders.flat.kills.hostile_rows import DOUBLES, hostile_rows
from tests.builders.flat.naive_reader import (
    Row,
    as_bytes,
    check_rows,
    identity,
    key_of,
    read_by_path,
    read_letters,
    read_table,
)


BATCH = (
    "flat.evolve",
    "flat.evolved",
    "flat.planned",
    "flat.written",
    "flat.staged",
    "flat.decided",
    "flat.moved:1",
    "flat.moved:2",
    "flat.counted:1",
    "flat.published",
    "flat.noted",
    "flat.batch",
)
SEAL = ("flat.rewritten", "flat.switch", "flat.switched", "flat.replaced", "flat.deleted", "flat.kept:2")
PROMOTION = ("flat.promoting", "flat.rewritten", "flat.switched", "flat.flip", "flat.flipped")
NARROWING = ("flat.switched", "flat.narrow", "flat.narrowed")
REUSE = ("flat.evolve", "flat.evolved", "flat.planned", "flat.decided")
"""The steps at which a process is killed, by what the driver does then; ``:2`` is the second pass."""
HOUR_S = 3_600
KEYS = ("epoch", "uuid", "n", "action")
TABLE = "events_flat"
JAVA_TEXTS = {repr(float(sent)): text for sent, text in DOUBLES.items()}
ARRIVING_S = 0.2
"""How often events arrive while a driver runs."""


def plain(n: int) -> int:
    """A value that is a number."""
    return n


def mixed(n: int) -> int | str:
    """A value that is a number or a text."""
    return f"x{n}" if n % 2 else n


@dataclass
class Killed:
    """A table whose driver is killed repeatedly; without ``feed`` its source is a directory beside it.

    ``elsewhere`` has the settings of a table outside ``base``, ``conf`` the settings that Spark needs for it.
    """

    base: Path
    database: str
    metastore_uri: str
    sql: str
    keys: Sequence[str] = KEYS
    rules: dict[str, Any] = field(default_factory=dict)
    feed: Feed | None = None
    narrows: str = ""
    """The key whose column a run narrows instead of reading the source."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    """All events sent for the table, by their ``identity``; a text that is not JSON has no keys."""
    lost: set[str] = field(default_factory=set)
    """Events without a time, which become dead letters."""
    expired: set[str] = field(default_factory=set)
    """Events of hours that the table has dropped."""
    hostile: bool = False
    """Whether every call of ``land`` also sends ``hostile_rows``."""
    landed: int = 0
    finished: set[str] = field(default_factory=set)

    @property
    def location(self) -> str:
        """The table's directory."""
        return self.elsewhere.get("location") or f"{self.base}/table"

    @property
    def source(self) -> Feed:
        """The source of its events."""
        if self.feed is None:
            self.feed = DirectoryFeed(self.base / "landing")
        return self.feed

    def land(self, hours: range, value: Callable[[int], Any], *, count: int = 20, **more: Any) -> None:
        """Send ``count`` events of each of these hours, a text that is not JSON and an event without a
        time."""
        first = int(time.time()) // HOUR_S * HOUR_S - 20 * HOUR_S
        for hour in hours:
            name = f"{self.landed}-{hour}"
            rows = [
                {
                    "epoch": first + hour * HOUR_S + n % HOUR_S,
                    "uuid": f"{name}-{n}",
                    "n": value(n),
                    "action": f"a{n % 3}",
                    **more,
                }
                for n in range(count)
            ]
            # One row of the previous hour, so that a batch publishes to two hours.
            rows[0]["epoch"] -= HOUR_S
            self.events |= {row["uuid"]: row for row in rows} | {f"junk {name}": {}}
            self.lost |= {f"lost {name}"}
            more_rows = self._add_hostile(name, first + hour * HOUR_S) if self.hostile else []
            self.source.land([*rows, f"junk {name}", {"uuid": f"lost {name}"}, *more_rows])
            self.landed += 1

    def _add_hostile(self, name: str, epoch: int) -> list[bytes]:
        rows = list(hostile_rows(name, epoch, self.landed))
        self.events |= {row.identity: row.event for row in rows if not row.is_lost}
        self.lost |= {row.identity for row in rows if row.is_lost}
        return [row.text for row in rows]

    @contextmanager
    def arriving(self) -> Iterator[None]:
        """Send events continuously: sometimes of a new hour, and later with texts instead of numbers."""
        stopping = threading.Event()

        def send() -> None:
            while not stopping.wait(ARRIVING_S):
                hour = min(self.landed // 50, 19)
                self.land(range(hour, hour + 1), plain if self.landed < 100 else mixed)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            stopping.set()
            sender.join()

    def run(self, failpoint: str = "", *, follow: bool = False) -> int:
        """Run the driver until the source is exhausted or it is killed; return its exit code."""
        given = {
            "base": str(self.base),
            "database": self.database,
            "metastore": self.metastore_uri,
            "keys": list(self.keys),
            "rules": self.rules,
            "follow": follow,
            "narrows": self.narrows,
            "elsewhere": self.elsewhere,
            "conf": self.conf,
            **self.source.settings,
        }
        environment = {**os.environ, VARIABLE: failpoint} if failpoint else {**os.environ}
        command = [sys.executable, "-m", "tests.crash.programs.flat_program", json.dumps(given)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode in {0, -signal.SIGKILL}, done.stdout[-2_000:] + done.stderr[-4_000:]
        return done.returncode

    def dies(self, failpoint: str, *, follow: bool = False) -> None:
        """Run until the kill at this failpoint, then check the table."""
        assert self.run(failpoint, follow=follow) == -signal.SIGKILL, f"{failpoint} was not reached"
        self.check()

    def check(self) -> set[str]:
        """Check the table, with and without an engine, and the dead letters; return the identities in
        both."""
        rows = self.rows()
        found = check_rows(rows, self.events, self.keys)
        letters = self.letters()
        self._check_by_path(found)
        everything = found | set(letters)
        assert self.finished <= everything
        with Session.connect(self.sql) as session:
            session.run("set hive.fetch.task.conversion=none")
            table = f"{self.database}.{TABLE}"
            columns = {key_of(column): f"`{column.name}`" for column in self._columns()}
            if {"uuid", "n"} <= set(columns):
                counts = f"count(*), count(distinct {columns['uuid']}), count({columns['n']})"
                counted = session.rows(f"select {counts} from {table}")
                uuids, values = (sum(row[name] is not None for row in rows) for name in ("uuid", "n"))
                expected = [(str(len(found)), str(uuids), str(values))]
                assert counted == expected, (counted, expected)
                sevens = sum(str(row["n"]) == "7" for row in rows)
                filtered = session.rows(f"select count(*) from {table} where {columns['n']} = '7'")
                assert filtered == [(str(sevens),)], (filtered, sevens)
        return everything

    def _check_by_path(self, expected: set[str]) -> None:
        """Check that a reader that knows only the table's directory has the same rows, with all values."""
        rows = read_by_path(self.location, self._columns())
        assert check_rows(rows, self.events, self.keys) == expected

    def check_hive(self) -> None:
        """Check that Hive reads every value of every requested key as the reader without an engine does."""
        asked = [column for column in self._columns() if key_of(column) in self.keys]
        chosen = ", ".join(hive_text(column) for column in asked)
        with Session.connect(self.sql) as session:
            found = session.rows(f"select {chosen} from {self.database}.{TABLE}")
        # Files that were written before a column was appended have rows without it.
        expected = [tuple(digest(row.get(key_of(column))) for column in asked) for row in self.rows()]
        different = Counter(found) - Counter(expected)
        assert not different, (list(different)[:3], list(Counter(expected) - Counter(found))[:3])
        assert len(found) == len(expected)

    def rows(self) -> list[Row]:
        """Return the current state of the table."""
        with closing(Metastore(self.metastore_uri)) as metastore:
            return read_table(metastore, self.database, TABLE)

    def columns(self) -> dict[str, str]:
        """Return the types of the table's columns, in their order."""
        return {column.name: column.type for column in self._columns()}

    def _columns(self) -> list[FieldSchema]:
        with closing(Metastore(self.metastore_uri)) as metastore:
            return metastore.get_table(self.database, TABLE).sd.cols or []

    def letters(self) -> list[str]:
        """Return the dead letters that are not in the table; texts that are not JSON are in both, once
        each."""
        by_reason = read_letters(f"{self.location}/.dead-letters")
        malformed = by_reason.pop("malformed", [])
        assert len(malformed) == len(set(malformed))
        assert set(malformed) <= set(self.events)
        letters = [each for found in by_reason.values() for each in found]
        assert len(letters) == len(set(letters))
        assert set(letters) <= self.lost
        return letters

    def expires(self) -> None:
        """Remove the events of hours that the table dropped."""
        gone = set(self.events) - {identity(row) for row in self.rows()}
        self.finished -= gone
        self.expired |= gone
        self.events = {name: event for name, event in self.events.items() if name not in gone}

    def ends_well(self) -> None:
        """Run to the end and check that every event is in the table or in the dead letters once."""
        assert self.run() == 0
        self.finished = self.check()
        self.check_hive()
        assert self.finished == set(self.events) | self.lost
        held = Counter(identity({"_rescued": text}) for text in self.source.sent())
        assert set(held) == self.finished | self.expired
        assert set(held.values()) == {1}


def hive_text(column: FieldSchema) -> str:
    """Return an expression whose value Hive prints as ``digest`` does: texts as hashes, because they may
    contain control characters."""
    return f"md5(`{column.name}`)" if column.type == "string" else f"cast(`{column.name}` as string)"


def digest(value: Any) -> str:
    """Return what Hive prints for ``hive_text`` of a column with this value."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return JAVA_TEXTS.get(repr(value), repr(value))
    text = str(value)
    return hashlib.md5(as_bytes(text), usedforsecurity=False).hexdigest() if isinstance(value, str) else text
