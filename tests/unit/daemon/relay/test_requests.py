"""Crossing a gap: by the running daemon, or here if there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.process.inbox import requests_directory
from daemon.relay import loop as loop_module
from daemon.relay.requests import cross_gap_of
from daemon.status import client
from state.errors import ConfigError, NotFound


@pytest.fixture
def config(tmp_path: Path) -> Any:
    def source(*, enabled: bool) -> SimpleNamespace:
        return SimpleNamespace(relay=SimpleNamespace(enabled=enabled))

    sources = {"lake": source(enabled=True), "read": source(enabled=False)}
    return SimpleNamespace(state=SimpleNamespace(dir=tmp_path), sources=sources)


@pytest.mark.parametrize("name", ["read", "unknown"])
def test_a_source_that_is_not_relayed_here_is_refused(config: Any, name: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        cross_gap_of(config, name)
    assert refusal.value.hint == "Sources of this relay: lake."


def test_the_running_daemon_is_asked(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Path, dict[str, Any]]] = []

    def send(directory: Path, request: dict[str, Any], _timeout_s: float, absent: NotFound) -> dict[str, Any]:
        if not directory.is_dir():
            raise absent
        sent.append((directory, request))
        return {"before": 3, "after": 7}

    monkeypatch.setattr(client, "find_daemon", lambda _: object())
    monkeypatch.setattr(client, "send_request", send)
    with pytest.raises(NotFound, match="does not relay this source"):
        cross_gap_of(config, "lake")
    directory = requests_directory(config.state.dir, "relay", "lake")
    directory.mkdir(parents=True)
    assert cross_gap_of(config, "lake") == {"before": 3, "after": 7}
    assert sent == [(directory, {"do": "cross-gap"})]


def test_without_a_daemon_the_gap_is_crossed_here_and_the_relay_closed(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass
    class Crossed:
        before: int
        after: int

    class Relay:
        is_closed = False

        def cross_gap(self) -> Crossed:
            return Crossed(3, 7)

        def close(self) -> None:
            self.is_closed = True

    relay = Relay()
    monkeypatch.setattr(client, "find_daemon", lambda _: None)
    monkeypatch.setattr(loop_module, "build_relay", lambda *_: relay)
    assert cross_gap_of(config, "lake") == {"before": 3, "after": 7}
    assert relay.is_closed
