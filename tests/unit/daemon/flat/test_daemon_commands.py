"""``tideline split``: what is printed, which hours are meant, and what is told when something is missing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from daemon.flat.driver import (
    DriverOrder,
    hours_between,
    keep_view,
    parse_hour,
    run_driver,
    spark_commands,
    view_name,
    write_view,
)
from daemon.flat.status import DriverProgress
from daemon.flat.text import backfill_text, event_text, plan_answer, plan_text, upkeep_text
from daemon.service.command_line import tideline
from state.columns.changes import Change, ChangeKind, Evolution
from state.columns.demand import Demand
from state.columns.paths import KeyPath
from state.columns.slots import Layout, Slot
from state.columns.types import ColumnType
from state.errors import BadInput, ConfigError, MalformedEvent, MetastoreUnavailable
from streaming.batch.schema_evolution import Proposal
from streaming.driver.progress import ProgressListener, report_rewrites, write_lines_to
from streaming.settings import FlatSettings
from streaming.upkeep.backfill import BackfillResult
from streaming.upkeep.maintenance import OpenHour, UpkeepResult
from tests.builders.flat.fake_drivers import progress
from tests.builders.flat.streams import Stream, key, rules


HOUR = 1_461_013_200
"""2016-04-18 21:00 UTC."""


def test_a_plan_reads_like_a_diff_and_says_why() -> None:
    layout = Layout(4, (*Layout.new().slots, Slot(1, "a/b", key("a.b"), ColumnType.INT, HOUR, HOUR)))
    evolution = Evolution(
        layout,
        (
            Change(ChangeKind.WAIT, "no row has brought it", key("zz")),
            Change(ChangeKind.WIDEN, "tinyint is too narrow", key("a.b"), 1, ColumnType.INT),
        ),
    )
    answer = plan_answer("web.flat", Proposal(Demand(()), evolution))
    assert plan_text(answer).splitlines() == [
        "web.flat would become version 4: 1 change, 1 key waits",
        "~ widen  a/b   int  tinyint is too narrow",
        "? wait   $.zz       no row has brought it",
    ]
    assert answer["changes"][1]["column"] == "a/b"
    assert plan_text(plan_answer("web.flat", Proposal(Demand(()), Evolution(layout, ())))) == (
        "web.flat stays at version 4: 0 changes, 0 keys wait"
    )


def test_a_plan_shows_promotions_apart_because_the_next_batch_does_not_make_them() -> None:
    layout = Layout(4, (*Layout.new().slots, Slot(1, "n", key("n"), ColumnType.INT, HOUR, HOUR)))
    change = Change(ChangeKind.PROMOTE, "20 values do not fit", key("n"), 1, ColumnType.STRING)
    text = plan_text(plan_answer("web.flat", Proposal(Demand(()), Evolution(layout, (change,)))))
    assert text.splitlines() == [
        "web.flat stays at version 4: 0 changes, 1 promotion announced, 0 keys wait",
        "~ promote  n  string  20 values do not fit",
    ]


def test_a_batch_is_one_line_with_what_matters() -> None:
    assert event_text(progress(12, rows=1_234)) == (
        "batch 12: 1,234 rows, 4.9 KiB, 5 columns, 2.0 s, 3 misfits, 4 dead letters, 7 behind, 2 hours to "
        "seal"
    )
    assert ", 1 dead letter, " in event_text(progress(12, dead_letters={"too-late": 1}))
    assert ", 5 with text behind their document, " in event_text(progress(12, trailing=5))
    assert event_text({"event": "stopped", "reason": "stop requested"}) == "stopped: stop requested"
    assert event_text({"event": "idle"}) == "idle"


def test_upkeep_and_backfills_are_told_in_words() -> None:
    assert upkeep_text(UpkeepResult(sealed=2, dropped=1, refused="it is too much")) == (
        "2 hours sealed, 1 hour dropped, no hour dropped: it is too much"
    )
    assert backfill_text(
        [
            BackfillResult(HOUR, 50, 50, is_done=True),
            BackfillResult(HOUR + 3_600, 50, 40, is_done=False),
            BackfillResult(HOUR + 7_200, 50, 60, is_done=True),
            BackfillResult(HOUR + 10_800, 50, 50, is_done=True, is_matched=True),
        ]
    ).splitlines() == [
        "2016-04-18 21h            50 rows  split again",
        "2016-04-18 22h            50 rows  unchanged: the raw table has 40",
        "2016-04-18 23h            60 rows  split again, 50 before",
        "2016-04-19 00h            50 rows  filled, other columns copied",
        "3 of 4 sealed hours were split again from the raw table",
    ]


@pytest.mark.parametrize("text", ["2016-04-18-21", "2016-04-18T21", "2016-04-18 21"])
def test_an_hour_is_named_in_utc(text: str) -> None:
    assert parse_hour(text) == HOUR


@pytest.mark.parametrize("text", ["2016-04-18-24", "2016-13-01", "yesterday", "2016-04-18-2", "٢٠١٦-04-18"])
def test_what_is_no_hour_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_hour(text)


def test_a_backfill_without_a_range_means_all_hours() -> None:
    assert hours_between(None, None) is None
    assert list(hours_between("2016-04-18-21", "2016-04-18-23") or ()) == [HOUR, HOUR + 3_600]
    assert HOUR in (hours_between(None, "2016-04-18-22") or ())
    assert HOUR in (hours_between("2016-04-18", None) or ())
    with pytest.raises(BadInput):
        hours_between("2016-04-18-21", "2016-04-18-21")


def test_without_spark_one_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigError, match="not installed") as caught:
        spark_commands()
    assert "tideline[flat]" in caught.value.hint


def test_a_driver_that_cannot_begin_tells_so_as_its_last_event() -> None:
    told: list[Mapping[str, Any]] = []

    def missing() -> DriverOrder:
        raise ConfigError("unknown flat table")

    with pytest.raises(ConfigError):
        run_driver(missing, told.append, once=True)
    assert [(event["event"], event["reason"]) for event in told] == [("stopped", "config")]


class FakeCommands:
    """What Spark would have done."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def seal(self, settings: FlatSettings, progress: ProgressListener) -> UpkeepResult:
        self.given.append(settings.name)
        report_rewrites(progress)("sealed", HOUR, 1, 3)
        waiting = OpenHour(HOUR + 3_600, HOUR + 7_200 + 900, HOUR + 3_700)
        return UpkeepResult(sealed=3, open=(waiting,))

    def backfill(
        self,
        settings: FlatSettings,
        hours: range | None,
        progress: ProgressListener,
        *,
        any_number: bool,
        key: KeyPath | None,
        match: KeyPath | None,
    ) -> list[BackfillResult]:
        progress(REWRITTEN)
        self.given += [settings.name, hours, any_number, key, match]
        return [BackfillResult(HOUR, 5, 4, is_done=False)]

    def plan(self, settings: FlatSettings) -> Proposal:
        self.given.append(settings.name)
        wait = Change(ChangeKind.WAIT, "no row has brought it", key("zz"))
        return Proposal(Demand(()), Evolution(Layout.new(), (wait,)))


REWRITTEN = {
    "event": "rewritten",
    "activity": "backfilled",
    "hour": HOUR,
    "done": 1,
    "total": 3,
    "left_s": 240.0,
}


@pytest.fixture
def split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """``tideline split`` with a table and without Spark; gives the exit code and the output."""
    config = tmp_path / "tideline.yaml"
    config.write_text(f"""
        flat:
          events:
            table: web.flat
            raw_table: web.raw
            location: {tmp_path}/flat
            source: {{kind: directory, path: {tmp_path}/in}}
            event_time: {{key: t}}
        state: {{dir: {tmp_path}/state}}
    """)
    monkeypatch.setattr("daemon.flat.driver.spark_commands", FakeCommands)

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(tideline, ["split", *arguments, "-c", str(config)])
        return done.exit_code, done.output

    return run


def test_prepare_names_the_archive_that_drivers_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(bytes(3_000_000))
    monkeypatch.setattr("daemon.flat.driver.spark_commands", lambda: SimpleNamespace(prepare=lambda: archive))
    told = CliRunner().invoke(tideline, ["split", "prepare"])
    assert (told.exit_code, told.output) == (0, f"{archive}: 3 MB; drivers of this installation use it\n")
    told = CliRunner().invoke(tideline, ["split", "prepare", "--json"])
    assert json.loads(told.output) == {"path": str(archive), "bytes": 3_000_000}


def test_the_current_files_are_listed_without_spark(
    split: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    code, output = split("files", "events")
    assert code == 1
    hour = tmp_path / "flat/yyyy_mm_dd=2016-04-18/hh=21"
    for version in ("v1", "v2"):
        (hour / version).mkdir(parents=True)
        (hour / version / "b.orc").touch()
    record = tmp_path / "flat" / ".tideline" / "current.json"
    record.parent.mkdir()
    record.write_text(
        json.dumps(
            {
                "format": 1,
                "columns": [["n", "int"]],
                "partition_columns": [["yyyy_mm_dd", "string"], ["hh", "int"]],
                "directories": {"yyyy_mm_dd=2016-04-18/hh=21": "v2", "yyyy_mm_dd=2016-04-18/hh=22": "v1"},
            }
        )
    )
    code, output = split("files", "web.flat")
    assert (code, output) == (0, f"file:{hour}/v2/b.orc\n")
    answer = json.loads(split("files", "events", "--json")[1])
    assert answer["columns"] == [{"name": "n", "type": "int"}]
    assert answer["files"] == [
        {"path": f"file:{hour}/v2/b.orc", "partition": {"yyyy_mm_dd": "2016-04-18", "hh": "21"}}
    ]


def test_commands_tell_what_they_did_in_words_or_as_json(split: Callable[..., tuple[int, str]]) -> None:
    code, output = split("seal", "events")
    assert (code, output.splitlines()) == (
        0,
        [
            "2016-04-18 21h sealed, 1 of 3",
            "3 hours sealed",
            (
                "2016-04-18 22h is open: sealed when events reach 2016-04-18 23:15:00; the latest are of "
                "2016-04-18 22:01:40"
            ),
        ],
    )
    assert json.loads(split("seal", "web.flat", "--json")[1].partition("\n")[2])["sealed"] == 3
    assert split("plan", "events")[1].startswith(
        "web.flat stays at version 1: 0 changes, 1 key waits\n? wait"
    )
    assert json.loads(split("plan", "events", "--json")[1])["changes"][0]["key"] == "$.zz"


def test_a_backfill_that_left_an_hour_ends_with_1(split: Callable[..., tuple[int, str]]) -> None:
    code, output = split("backfill", "events", "--from", "2016-04-18")
    assert code == 1
    assert "unchanged: " in output
    assert output.startswith("2016-04-18 21h backfilled, 1 of 3, about 4 min left\n")
    assert split("backfill", "events", "--key", "$.a.b")[0] == 1
    assert split("backfill", "events", "--key", "$.a.b", "--match", "$.uuid")[0] == 1
    assert split("backfill", "events", "--from", "then")[0] == 1


def test_rows_are_matched_only_to_fill_one_key(split: Callable[..., tuple[int, str]]) -> None:
    code, output = split("backfill", "events", "--match", "$.uuid")
    assert (code, "--match needs --key" in output) == (2, True)


def test_an_unknown_table_is_one_message_and_exit_code_1(tmp_path: Path) -> None:
    config = tmp_path / "tideline.yaml"
    config.write_text(f"state: {{dir: {tmp_path}/state}}\n")
    done = CliRunner().invoke(tideline, ["split", "plan", "none", "-c", str(config)])
    assert done.exit_code == 1
    assert isinstance(done.exception, ConfigError)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "progress"},
        progress(lag=None),
        progress(columns=3),
        progress(upkeep={}),
        progress(rows="many"),
        {"event": "upkeep"},
        {"event": "started"},
    ],
)
def test_an_event_without_what_belongs_to_it_changes_nothing(event: Mapping[str, Any]) -> None:
    with pytest.raises(MalformedEvent):
        DriverProgress().after(event, 1.0)


def test_events_of_tomorrow_only_tell_that_the_driver_lives() -> None:
    assert DriverProgress().after({"event": "dreaming"}, 5.0) == DriverProgress(reported_s=5.0)


def test_a_reader_that_has_gone_does_not_stop_the_driver() -> None:
    read, write = os.pipe()
    tell = write_lines_to(write)
    tell({"event": "idle"})
    assert json.loads(os.read(read, 100)) == {"event": "idle"}
    os.close(read)
    tell({"event": "idle"})
    tell({"event": "idle"})
    os.close(write)


def test_a_view_is_written_once_per_version_and_its_failure_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[str] = []
    failures = [MetastoreUnavailable("it is away")]

    def write(_settings: object, name: str) -> dict[str, Any]:
        written.append(name)
        if failures:
            raise failures.pop()
        return {}

    monkeypatch.setattr("daemon.flat.driver.write_view", write)
    told: list[Mapping[str, Any]] = []
    tell = keep_view(Stream.of_directory(tmp_path, "db", rules("a")).settings, "old", told.append)
    for version in (3, 3, 3, 4):
        tell(progress(layout_version=version))
    tell({"event": "idle"})
    assert written == ["old"] * 3, "tried again with the next batch, then once per version"
    assert len(told) == 5
    assert "it is away" in capsys.readouterr().err


def test_a_view_needs_a_metastore(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a metastore"):
        write_view(Stream.of_directory(tmp_path, "db", rules("a")).settings, "old")


def test_a_view_is_named_after_its_table_where_nothing_else_is_said() -> None:
    from daemon.flat.settings import FlatConfig

    assert view_name(FlatConfig(table="web.events_flat", raw_table="web.raw")) == "events_flat_compat"
    assert view_name(FlatConfig(table="web.events_flat", raw_table="web.raw", view="old")) == "old"


def test_the_time_left_is_estimated_from_the_hours_of_this_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 100.0, 110.0, 130.0, 500.0])
    clock = SimpleNamespace(monotonic=lambda: next(moments))
    monkeypatch.setattr("streaming.driver.progress.time", clock)
    told: list[Mapping[str, Any]] = []
    report = report_rewrites(told.append)
    for done in (1, 2, 3, 1):
        report("sealed", HOUR, done, 5)
    assert [event["left_s"] for event in told] == [None, 30.0, 30.0, None]
