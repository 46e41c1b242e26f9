"""Logs have one format, no secrets, and few repetitions."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from daemon.process.logs import LogSettings, Repeats, configure_logs
from daemon.process.redaction import MASK


Written = Callable[[], list[dict[str, Any]]]
"""Returns the lines that were written so far."""

PLANTED = ("hunter2", 'p@ss/w\\rd"quoted"')


@pytest.fixture
def written() -> Written:
    """Configure JSON logs with planted secrets."""
    stream = io.StringIO()
    configure_logs(LogSettings(format="json", secrets=PLANTED), stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_its_context(written: Written) -> None:
    with structlog.contextvars.bound_contextvars(loop="relay:lake", event_id=7):
        structlog.get_logger().info("stopped", seconds=1.5)
    (line,) = written()
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "stopped", "level": "info", "loop": "relay:lake", "event_id": 7, "seconds": 1.5}


def test_records_below_the_level_are_not_written(written: Written) -> None:
    structlog.get_logger().debug("every event")
    logging.getLogger("library").debug("chatter")
    logging.getLogger("uvicorn.error").info("started server")
    assert written() == []


def test_secrets_appear_nowhere(written: Written) -> None:
    log = structlog.get_logger()
    for secret in PLANTED:
        log.info(
            "text",
            more="text " + secret,
            value=secret,
            nested={"a": [secret, {"b": (secret,)}]},
            thing=ValueError(secret),
        )
        log.info("named", password="anything", sasl_password=1, headers={"Authorization": "anything"})
        log.info("address", url=f"thrift://user:{secret[:4]}@host:1")
        logging.getLogger("library").error("std %s", secret)
        log.error("failed", exc_info=ValueError(secret))
        logging.getLogger("library").error("failed too", exc_info=ValueError(secret))
    text = json.dumps(written())
    for secret in (*PLANTED, "anything", "p@ss"):
        assert secret not in text
    assert MASK in text


def test_foreign_text_cannot_start_a_new_line() -> None:
    stream = io.StringIO()
    configure_logs(LogSettings(format="console"), stream)
    structlog.get_logger().info('x\n{"level":"error"}', table="a\r\nb")
    assert len(stream.getvalue().splitlines()) == 1


def test_the_same_warning_is_written_once_and_then_counted() -> None:
    now = [0.0]
    repeats = Repeats(60, clock=lambda: now[0])

    def say(event: str, **more: object) -> dict[str, Any] | None:
        try:
            return dict(repeats(None, "", {"level": "warning", "event": event, **more}))
        except structlog.DropEvent:
            return None

    assert say("away", code="kafka", pause_s=1) is not None
    assert say("away", code="kafka", pause_s=2) is None
    assert say("away", code="metastore") is not None
    assert say("other", code="kafka") is not None
    now[0] = 61.0
    again = say("away", code="kafka", pause_s=3)
    assert again is not None
    assert again["repeated"] == 1
    assert say("away", code="kafka") is None


def test_information_is_never_omitted() -> None:
    repeats = Repeats(60)
    for _ in range(3):
        assert repeats(None, "", {"level": "info", "event": "same"})


def test_the_memory_for_repeats_is_bounded() -> None:
    repeats = Repeats(60)
    for number in range(5000):
        repeats(None, "", {"level": "warning", "event": f"w{number}"})
    assert len(repeats._seen) <= 1024
