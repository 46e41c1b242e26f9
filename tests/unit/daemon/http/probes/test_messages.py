"""What the daemon reports to the process for its probes."""

from __future__ import annotations

import io
from math import inf

import pytest

from daemon.http.endpoints import JSON, Made
from daemon.http.probes.messages import (
    Query,
    Report,
    read_answer,
    read_query,
    read_report,
    write_answer,
    write_message,
)


def test_a_report_names_the_loops_that_are_stuck() -> None:
    report = Report.of({"a": 5.0, "b": -inf, "c": 50.0, "d": inf}, now_s=10.0, silent_max_s=30.0)
    assert report.reasons(10.0) == ["a has no heartbeat", "b has no heartbeat"]


def test_a_loop_becomes_stuck_without_another_report() -> None:
    report = Report.of({"late": 50.0, "next": 20.0, "rests": inf}, now_s=10.0, silent_max_s=30.0)
    assert report.reasons(20.0) == []
    assert report.reasons(20.1) == ["next has no heartbeat"]


def test_a_daemon_that_reports_nothing_is_stuck_even_if_all_loops_rest() -> None:
    report = Report.of({"rests": inf}, now_s=10.0, silent_max_s=30.0)
    assert report.reasons(40.0) == []
    assert report.reasons(41.0) == ["the daemon has not reported for 31 s"]


@pytest.mark.parametrize("deadlines", [{}, {"a": 5.0, "b": 20.0}, {"rests": inf, "ended": -inf}])
def test_a_report_arrives_as_it_was_sent(deadlines: dict[str, float]) -> None:
    stream, report = io.BytesIO(), Report.of(deadlines, now_s=10.0, silent_max_s=30.0)
    write_message(stream, report)
    stream.seek(0)
    assert read_report(stream) == report
    assert read_report(stream) is None


def test_a_query_and_its_answer_arrive_as_they_were_sent() -> None:
    stream, query = io.BytesIO(), Query("/metrics", "text/plain\n", {"head": 3})
    made = Made(b"line 1\nline 2\n", JSON, 503)
    write_message(stream, query)
    write_answer(stream, made)
    stream.seek(0)
    assert read_query(stream) == query
    assert read_answer(stream) == made
    assert read_query(stream) is None
    assert read_answer(stream) is None


def test_an_answer_that_is_cut_off_is_none() -> None:
    stream = io.BytesIO()
    write_answer(stream, Made(b"much", JSON))
    assert read_answer(io.BytesIO(stream.getvalue()[:-1])) is None
