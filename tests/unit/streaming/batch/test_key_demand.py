"""The stream's access to the key log: the last answer applies until there is a newer one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from state.columns.changes import Change, ChangeKind
from state.columns.paths import KeyPath
from state.columns.types import ColumnType
from streaming.batch.key_demand import REFRESH_S, KeyLogDemand, open_key_demand
from streaming.keylog.key_rules import KeyRule, RuleKind, set_rule
from streaming.keylog.log import KeyLog
from streaming.keylog.table_snapshots import read_changes, read_snapshot
from streaming.settings import DirectorySource, EventTime, FlatSettings
from tests.builders.keylog.key_logs import RAW, key_request


FLAT = "web.events_flat"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def settings(tmp_path: Path) -> FlatSettings:
    return FlatSettings(
        database="web",
        table="events_flat",
        location=str(tmp_path / "flat"),
        checkpoint=str(tmp_path / "checkpoint"),
        source=DirectorySource(str(tmp_path / "raw")),
        event_time=EventTime(KeyPath(("epoch",))),
        raw_table=RAW,
        keylog_url=f"sqlite:///{tmp_path}/keylog.db",
    )


@pytest.fixture
def log(settings: FlatSettings) -> Iterator[KeyLog]:
    with KeyLog.open(settings.keylog_url) as opened:
        yield opened


def test_requested_keys_and_rules_reach_the_stream(settings: FlatSettings, log: KeyLog) -> None:
    key, other = KeyPath(("a",)), KeyPath(("b",))
    now_s = int(time.time())
    asked = [
        replace(key_request("a"), at_s=now_s),
        replace(key_request("b", raw_table="another.raw"), at_s=now_s),
    ]
    log.record(asked, source="s", position="p")
    set_rule(log, KeyRule(FLAT, RuleKind.PIN, key, ColumnType.BIGINT))
    set_rule(log, KeyRule(FLAT, RuleKind.ALWAYS, other))
    found = open_key_demand(settings).read()
    assert [each.key for each in found.keys] == [key]
    assert found.rules.whitelist == {other}
    assert found.rules.pins == {key: ColumnType.BIGINT}


def test_without_a_key_log_only_the_rules_request_keys(settings: FlatSettings) -> None:
    assert open_key_demand(replace(settings, keylog_url="")).read().keys == ()


def test_an_unavailable_key_log_keeps_the_last_answer_and_is_reported(
    settings: FlatSettings, log: KeyLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    stream = KeyLogDemand(settings, clock)
    set_rule(log, KeyRule(FLAT, RuleKind.SKIP, "$.x"))
    assert stream.read().rules.skip == ("$.x",)
    with closing(sqlite3.connect(tmp_path / "keylog.db")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            database.execute(f"DROP TABLE {name}")
    clock.now_s += REFRESH_S
    assert stream.failure == ""
    assert stream.read().rules.skip == ("$.x",)
    assert "not read, using the last answer" in caplog.text
    assert stream.failure
    stream.save_snapshot(2, {}, [])
    assert "snapshot of web.events_flat not stored" in caplog.text


def test_a_saved_snapshot_can_be_read(settings: FlatSettings, log: KeyLog) -> None:
    change = Change(ChangeKind.APPEND, "asked for by 2 users", KeyPath(("a",)), 1, ColumnType.INT)
    for _ in range(2):
        open_key_demand(settings).save_snapshot(2, {"rows": 7}, [change])
    told = read_snapshot(log, FLAT)
    assert told is not None
    assert (told.version, told.document) == (2, {"rows": 7})
    assert [(each.kind, each.slot, each.key) for each in read_changes(log, FLAT)] == [("append", 1, "$.a")]
