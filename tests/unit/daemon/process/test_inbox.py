"""Every request is executed once and answered once, whichever side fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from daemon.process import inbox as requests
from daemon.process.inbox import (
    KEPT_S,
    REQUEST_BYTES_MAX,
    Inbox,
    SteppedWork,
    StillWorking,
    error_from_json,
    error_to_json,
    send_request,
)
from state.errors import BadInput, ConfigError, FilesUnavailable, NotFound, Refused, Transient
from tests.builders.stores.full_disk import full_disk


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path / "requests")
    made.open()
    return made


def asked(inbox: Inbox, directory: Path, do: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Send a request while another thread serves."""
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.wait(0.005):
            inbox.serve(do)

    server = threading.Thread(target=serve)
    server.start()
    try:
        return send_request(directory, {"do": "it"}, 10)
    finally:
        stopping.set()
        server.join()


def test_a_request_is_executed_and_its_answer_returned(inbox: Inbox, tmp_path: Path) -> None:
    directory = tmp_path / "requests"
    assert asked(inbox, directory, lambda request: {"got": request}) == {"got": {"do": "it"}}
    assert list(directory.iterdir()) == []
    assert directory.stat().st_mode & 0o777 == 0o700


def test_an_error_of_the_daemon_is_raised_with_its_class(inbox: Inbox, tmp_path: Path) -> None:
    def fail(_: dict[str, Any]) -> dict[str, Any]:
        raise NotFound("no such table", table="a.b", hint="Look elsewhere.")

    with pytest.raises(NotFound, match="no such table") as caught:
        asked(inbox, tmp_path / "requests", fail)
    assert caught.value.context == {"table": "a.b"}
    assert caught.value.hint == "Look elsewhere."


def test_a_request_without_an_answer_is_removed(inbox: Inbox, tmp_path: Path) -> None:
    with pytest.raises(Transient, match="did not answer"):
        send_request(tmp_path / "requests", {"do": "it"}, 0.01)
    assert inbox.serve(lambda _: pytest.fail("it was taken back")) == 0


def test_a_missing_directory_has_no_daemon_and_cannot_be_created_below_a_file(tmp_path: Path) -> None:
    with pytest.raises(FilesUnavailable, match="request cannot be written") as caught:
        send_request(tmp_path / "none", {}, 1)
    assert "Check the state volume" in caught.value.hint
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        Inbox(tmp_path / "file" / "requests").open()


@pytest.mark.parametrize("content", [b"{", b"[]", b" " * (REQUEST_BYTES_MAX + 1)])
def test_a_malformed_request_is_answered_with_an_error(inbox: Inbox, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "requests" / "1.request").write_bytes(content)
    assert inbox.serve(lambda _: pytest.fail("nothing to do")) == 1
    answer = (tmp_path / "requests" / "1.answer").read_bytes()
    assert b"bad-input" in answer


def test_answers_that_are_not_fetched_are_removed(inbox: Inbox, tmp_path: Path) -> None:
    old = tmp_path / "requests" / "1.answer"
    old.write_bytes(b"{}")
    inbox.serve(lambda _: {})
    assert old.exists()
    long_ago = time.time() - KEPT_S - 1
    os.utime(old, (long_ago, long_ago))
    inbox.serve(lambda _: {})
    assert not old.exists()


def test_a_request_is_served_again_if_the_disk_is_full_for_its_answer(inbox: Inbox, tmp_path: Path) -> None:
    (tmp_path / "requests" / "1.request").write_bytes(b"{}")
    with full_disk(0), pytest.raises(FilesUnavailable, match="state volume"):
        inbox.serve(lambda _: {"done": True})
    assert inbox.serve(lambda _: {"done": True}) == 1


def test_an_error_is_unchanged_by_its_json_form() -> None:
    told = error_from_json(error_to_json(BadInput("no", value=1, hint="yes")))
    assert (type(told), told.message, told.context, told.hint) == (BadInput, "no", {"value": 1}, "yes")
    assert type(error_from_json({"code": "from-the-future", "message": "?"})) is Refused


def test_a_request_that_fails_unexpectedly_is_answered_and_not_served_again(
    inbox: Inbox, tmp_path: Path
) -> None:
    def fail(_: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError("a defect")

    request = tmp_path / "requests" / "a.request"
    request.write_text('{"do": "check"}')
    assert inbox.serve(fail) == 1
    assert b"a defect" in request.with_suffix(".answer").read_bytes()
    assert inbox.serve(fail) == 0


def test_a_request_that_is_not_finished_is_served_again_and_delays_no_other(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "STEP_S", 0.0)
    work, turns = SteppedWork(), []

    def count() -> Generator[None, None, int]:
        yield
        yield
        return 3

    def do(request: dict[str, Any]) -> dict[str, Any]:
        turns.append(request["do"])
        if request["do"] == "short":
            return {}
        monkeypatch.setattr(requests, "STEP_S", 0.0 if turns.count("long") < 3 else 10.0)
        return {"result": work.advance("long", count)}

    directory = tmp_path / "requests"
    (directory / "a.request").write_text('{"do": "long"}')
    (directory / "b.request").write_text('{"do": "short"}')
    assert inbox.serve(do) == 1
    assert inbox.has_waiting()
    assert [inbox.serve(do), inbox.serve(do), inbox.serve(do)] == [0, 1, 0]
    assert not inbox.has_waiting()
    assert turns == ["long", "short", "long", "long"]
    assert b"3" in (directory / "a.answer").read_bytes()


def test_work_that_nobody_continues_is_dropped_for_newer_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "STEP_S", 0.0)
    work, begun = SteppedWork(), []

    def begin(name: str) -> Generator[None, None, None]:
        begun.append(name)
        yield

    for number in range(requests.BEGUN_MAX + 1):
        with pytest.raises(StillWorking):
            work.advance(str(number), lambda number=number: begin(str(number)))  # type: ignore[misc]
    monkeypatch.setattr(requests, "STEP_S", 10.0)
    work.advance("1", lambda: begin("1"))
    assert begun == ["1"]
    work.advance("0", lambda: begin("0"))
    assert begun == ["1", "0"], "begun anew"
