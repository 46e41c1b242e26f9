"""Flat tables in the daemon's status: in text, as metrics, for readiness; and which of them the daemon
runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.flat.loop import flat_status
from daemon.flat.status import FLATS, DriverProgress, FlatStatus
from daemon.process.loops.loop import Job
from daemon.status.model import DaemonStatus
from daemon.status.report.text import status_text
from daemon.status.reporter import SectionPart, StatusContext, StatusReporter
from tests.builders.daemon.assembly import SECTIONS, config_of, parts_of, registry_of
from tests.builders.daemon.loops import Scripted, daemon_status, eventually, supervise
from tests.builders.flat.fake_drivers import progress


FLAT = FlatStatus(
    "events",
    "web.events_flat",
    "following",
    pid=77,
    batch=1_234,
    rows=5_000_000,
    misfits=12,
    lag_records=7,
    lag_s=42.0,
    columns=300,
)


def test_the_status_reads_back_and_shows_a_line_per_table() -> None:
    status = daemon_status(sections={"flats": (FLAT,)})
    assert DaemonStatus.from_json(status.to_json(), SECTIONS) == status
    (line,) = [
        line for line in status_text(status, SECTIONS).splitlines() if line.startswith("web.events_flat")
    ]
    assert " ".join(line.split()) == "web.events_flat events following 1234 5,000,000 7 42 s 300 12 0"


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, []),
        ({"state": "backing-off"}, ["flat:events is backing-off"]),
        ({"lag_s": 301.0}, ["flat:events lags by 5 min 1 s"]),
        ({"lag_s": None}, []),
    ],
)
def test_a_flat_table_is_ready_as_a_projection_is(changes: dict[str, object], reasons: list[str]) -> None:
    values = {name: getattr(FLAT, name) for name in FlatStatus.__slots__} | changes
    status = daemon_status(sources=(), projections=(), sections={"flats": (FlatStatus(**values),)})
    assert status.unready_reasons(300, SECTIONS) == reasons


def test_its_state_and_lag_are_gauges() -> None:
    registry = registry_of(lambda: daemon_status(sections={"flats": (FLAT,)}))
    assert registry.get_sample_value("tideline_flat_lag_seconds", {"flat": "events"}) == 42
    state = {"flat": "events", "state": "following"}
    assert registry.get_sample_value("tideline_flat_state", state) == 1


def test_lag_counts_from_when_the_stream_was_last_caught_up() -> None:
    loop = Scripted(None)
    supervisor, _ = supervise(Job("flat:events", loop.run))
    news = DriverProgress().after(progress(0, lag={"0": 0}), 1.0)

    def collect(moment: StatusContext) -> tuple[FlatStatus, ...]:
        return (flat_status("events", "web.flat", "flat:events", news, 5, moment),)

    reporter = StatusReporter(supervisor, (), (), (SectionPart(FLATS, collect),))

    def reported() -> FlatStatus:
        return FLATS.of(reporter.status())[0]

    supervisor.start()
    eventually(loop.running.is_set)
    try:
        assert reported().lag_s == 0
        news = news.after(progress(1, lag={"0": 9}, watermark=1_000), 2.0)
        behind = reported()
        assert behind.lag_records == 9
        assert behind.lag_s is not None
        assert behind.lag_s < 60, "not since the watermark, which is as old as the night was quiet"
        assert (behind.rows, behind.misfits, behind.dead_letters) == (200, 6, 8)
        news = news.after(progress(2, lag={}), 3.0)
        assert reported().lag_s is None, "a directory does not report it"
    finally:
        supervisor.stop(10)


def test_the_daemon_runs_the_tables_that_have_a_stream_and_are_its_own_to_run(tmp_path: Path) -> None:
    stream: dict[str, object] = {
        "source": {"kind": "directory", "path": "file:/in"},
        "event_time": {"key": "epoch"},
    }
    given: dict[str, dict[str, object]] = {
        "mine": {**stream, "location": "file:/mine"},
        "other": {**stream, "location": "file:/other", "run": False},
        "keys": {},
    }
    tables = {name: {"table": f"web.{name}", "raw_table": "web.raw", **more} for name, more in given.items()}
    config = config_of({"flat": tables, "state": {"dir": str(tmp_path / "state")}})
    parts = parts_of(config, config_file=tmp_path / "tideline.yaml")
    assert [job.name for job in parts.jobs] == ["flat:mine"]
    supervisor, _ = supervise(*parts.jobs)
    (status,) = FLATS.of(StatusReporter(supervisor, (), (), parts.sections).status())
    assert (status.name, status.table, status.pid) == ("mine", "web.mine", None)
    assert parts_of(config, relays_only=True).jobs == ()
