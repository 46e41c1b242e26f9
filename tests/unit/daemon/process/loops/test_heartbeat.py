"""Steps of long work reach the heartbeat of the loop that waits for it."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from daemon.process.loops.heartbeat import Pulse
from daemon.sources.connections import CallMetrics, measured_metastore
from handlers.metastore.session import Session
from state.errors import InvalidRequest
from tests.builders.kafka.fake_log import Line


def test_a_pulse_beats_in_the_current_run_only() -> None:
    pulse, first, second = Pulse(), Line(), Line()
    pulse.beat()
    pulse.connect(first)
    pulse.beat()
    pulse.connect(second)
    pulse.beat()
    assert (first.beats, second.beats) == (1, 1)


def test_every_answered_metastore_call_is_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [["a"], InvalidRequest("no"), ["b"]]

    def invoke(*_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Session, "_invoke", invoke)
    beats = list[int]()
    build = measured_metastore(CallMetrics(CollectorRegistry()), "dr", lambda: beats.append(1))
    client = build(["localhost:9083"])
    assert client.database_names() == ["a"]
    with pytest.raises(InvalidRequest):
        client.database_names()
    assert client.database_names() == ["b"]
    assert len(beats) == 2, "a call that fails is no progress"
