"""The record of actions, and its file."""

from __future__ import annotations

from pathlib import Path

from daemon.http.actions import FILE, KEPT, Audit
from daemon.process.redaction import use_secrets
from state.errors import NotFound


def test_the_record_survives_a_restart(tmp_path: Path) -> None:
    audit = Audit(tmp_path, clock=lambda: 7.0)
    audit.record("anna", "pause", "shop", None, {"reason": "maintenance"})
    audit.record("ben", "release", "shop", NotFound("no such table", table="t"))
    restarted = Audit(tmp_path)
    restarted.load()
    assert restarted.last() == audit.last()
    assert [each.code for each in restarted.last()] == ["not-found", None]
    restarted.record("anna", "resume", "shop", None)
    assert [each.action for each in restarted.last()] == ["resume", "release", "pause"]


def test_the_record_keeps_the_last_actions(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    for number in range(KEPT + 1):
        audit.record("anna", "pause", str(number), None)
    restarted = Audit(tmp_path)
    restarted.load()
    assert [each.object for each in restarted.last()] == [str(number) for number in range(KEPT, 0, -1)]


def test_an_action_is_recorded_although_its_file_cannot_be_written(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "missing")
    audit.record("anna", "pause", "shop", None)
    assert len(audit.last()) == 1


def test_the_record_contains_no_secrets(tmp_path: Path) -> None:
    use_secrets(["hunter2hunter2"])
    try:
        audit = Audit(tmp_path)
        refused = NotFound("no such policy: hunter2hunter2")
        audit.record("anna", "pause", "hunter2hunter2", refused, {"reason": "it is hunter2hunter2"})
    finally:
        use_secrets([])
    assert b"hunter2" not in (tmp_path / FILE).read_bytes()
    assert "hunter2" not in str(audit.answer())
