"""The text of a status with many policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from daemon.replica.status.copies import CopyStatus
from daemon.retention.status import ReaderRetention, SourceRetention
from daemon.status.model import DaemonStatus, ProjectionView
from daemon.status.report.summary import QUEUED_MAX, SHOWN_MAX
from daemon.status.report.text import status_text
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import daemon_status


def views(number: int) -> list[ProjectionView]:
    return [
        ProjectionView(f"replication:p{each:03}", "lake", "following", "5", 5, 0, 0.5)
        for each in range(number)
    ]


def status_of(projections: Sequence[ProjectionView]) -> DaemonStatus:
    status = daemon_status(projections=tuple(projections))
    names = [view.name.partition(":")[2] for view in projections]
    readers = tuple(ReaderRetention(view.name, 5, None, None, None, None) for view in projections)
    sections = {
        **status.sections,
        "copies": tuple(CopyStatus(name, files=1) for name in names),
        "retention": (SourceRetention("lake", 0.0, None, None, None, None, None, None, readers),),
    }
    return replace(status, sections=sections)


def text_of(projections: Sequence[ProjectionView], *, shows_all: bool = False) -> str:
    return status_text(status_of(projections), SECTIONS, shows_all=shows_all)


def test_a_few_policies_are_all_shown() -> None:
    text = text_of(views(SHOWN_MAX))
    assert "replication:p019" in text
    assert "that deviate" not in text


def test_of_many_policies_those_that_deviate_are_shown_and_the_others_counted() -> None:
    many = views(500)
    many[3] = replace(many[3], lag_s=7_200.0, lag_events=9)
    many[4] = replace(many[4], state="paused", paused_since_s=1)
    many[5] = replace(many[5], quarantined=("db.a",))
    many[6] = replace(many[6], state="failed", problem="[gap] events are missing", code="gap")
    many[7] = replace(many[7], loading=("orders 5 of 9 files",))
    text = text_of(many)
    assert "500 projections: 498 following, 1 paused, 1 failed" in text
    assert "1 is behind by more than a minute, replication:p003 the most" in text
    assert "shown: 5 of 5 that deviate" in text
    for each in (3, 4, 5, 6, 7):
        assert f"replication:p{each:03}" in text
    assert "p008" not in text, "neither as a projection nor in a section"
    assert text.index("\nreplication:p006") < text.index("\nreplication:p003"), "failed ones first"
    assert len(text.splitlines()) < 60


def test_if_no_policy_deviates_none_is_shown() -> None:
    text = text_of(views(500))
    assert "500 projections: 500 following" in text
    assert "shown: none deviates" in text
    assert "replication:p" not in text
    assert "COPIES" not in text


def test_all_policies_are_shown_on_request() -> None:
    text = text_of(views(500), shows_all=True)
    assert all(f"replication:p{each:03}" in text for each in range(500))
    assert "that deviate" not in text


def test_policies_that_wait_for_their_bootstrap_are_listed_in_their_order() -> None:
    many = views(500)
    for place in range(1, 401):
        waiting = f"waiting for its bootstrap; position in the queue: {place}"
        number = 500 - place
        many[number] = replace(many[number], state="starting", loading=(waiting,), place=place)
    text = text_of(many)
    lines = [line for line in text.splitlines() if "waiting for its bootstrap;" in line]
    assert [line.rpartition(" ")[2] for line in lines] == [str(each) for each in range(1, QUEUED_MAX + 1)]
    assert "400 wait for their bootstrap" in text
    assert f"shown: {QUEUED_MAX} of 400 that deviate" in text
