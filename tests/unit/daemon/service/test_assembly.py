"""Loops are built from settings, without opening files or connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.config.model import Config
from daemon.kafka.broker import broker_settings
from daemon.kafka.topic import source_topic
from daemon.process.loops.heartbeat import LazyLoop
from daemon.process.loops.loop import Job, LoopState
from daemon.replica.policies import handler_policy
from state.errors import ConfigError, StateCorrupt
from tests.builders.daemon.assembly import config_of, parts_of
from tests.builders.daemon.loops import Scripted, eventually, supervise


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    source = {"metastore": ["thrift://127.0.0.1:1"], "topic": "lake", "read_roots": ["file:/w"]}
    return config_of(
        {
            "sources": {
                "lake": source | {"relay": {"start": 7, "batch_events": 50}},
                "pond": source | {"topic": "pond", "relay": {"enabled": False}},
            },
            "targets": {"dr": {"metastore": ["thrift://127.0.0.1:1"]}},
            "policies": {
                "shop": {
                    "source": "lake",
                    "target": "dr",
                    "database": "shop",
                    "target_database": "shop_r",
                    "tables": {"include": ["a*"], "exclude": ["ab"]},
                }
            },
            "kafka": {
                "bootstrap": "127.0.0.1:1",
                "options": {"enable.ssl.certificate.verification": True},
                "secrets": {"sasl.password": {"env": "KAFKA_PASSWORD"}},
            },
            "state": {"dir": str(tmp_path / "state")},
        }
    )


def test_there_is_a_loop_per_source_and_per_policy_and_nothing_is_opened(config: Config) -> None:
    parts = parts_of(config)
    assert [job.name for job in parts.jobs] == [
        "relay:lake",
        "watch:pond",
        "replication:shop",
        "compactions:dr",
        "requests",
        "retention:lake",
        "retention:pond",
    ]
    assert [(part.name, part.relays) for part in parts.sources] == [("lake", True), ("pond", False)]
    (replica,) = parts.projections
    assert replica.target == "dr/shop_r"
    assert replica.status().state == "starting"
    assert not config.state.dir.exists()


def test_a_relay_alone_has_neither_projections_nor_watches(config: Config) -> None:
    parts = parts_of(config, relays_only=True)
    assert [job.name for job in parts.jobs] == ["relay:lake", "retention:lake"]


def test_librdkafka_gets_options_in_its_own_spelling_and_the_secrets(config: Config) -> None:
    assert config.kafka is not None
    assert broker_settings(config.kafka).client == {
        "enable.ssl.certificate.verification": "true",
        "sasl.password": "hunter2",
    }


def test_the_topic_accepts_the_largest_record_of_its_relay(config: Config) -> None:
    source = config.sources["lake"]
    assert source_topic(config, source).settings.message_bytes_max >= 2 * source.relay.record_bytes_max


def test_settings_that_librdkafka_rejects_are_a_configuration_error(config: Config) -> None:
    assert config.kafka is not None
    wrong = config.model_copy(update={"kafka": config.kafka.model_copy(update={"options": {"no.such": 1}})})
    with pytest.raises(ConfigError):
        source_topic(wrong, config.sources["lake"])


def test_all_settings_of_a_policy_reach_replay(config: Config) -> None:
    policy = handler_policy(config, "shop")
    assert (policy.source_db, policy.target_db, policy.external_base) == ("shop", "shop_r", None)
    assert policy.on_failure == "quarantine"
    assert policy.covers("shop", "aa")
    assert not policy.covers("shop", "ab")


def test_state_that_cannot_be_opened_fails_its_loop_and_no_other() -> None:
    def corrupt() -> Scripted:
        raise StateCorrupt("the file is damaged")

    lazy, healthy = LazyLoop(corrupt), Scripted(None)
    supervisor, _ = supervise(Job("late", lazy.run), Job("healthy", healthy.run))
    supervisor.start()
    eventually(lambda: supervisor.statuses()["late"].state is LoopState.FAILED)
    assert healthy.running.wait(10)
    assert lazy.built is None
    assert supervisor.stop(5) == []


def test_a_loop_with_corrupt_state_is_closed_and_built_again() -> None:
    built: list[_Closing] = []

    class _Closing(Scripted):
        closed = False

        def close(self) -> None:
            self.closed = True

    def build() -> _Closing:
        built.append(_Closing(*([StateCorrupt("damaged")] if not built else [None])))
        return built[-1]

    lazy = LazyLoop(build)
    supervisor, _ = supervise(Job("late", lazy.run), failed_s=0.001)
    supervisor.start()
    eventually(lambda: len(built) == 2 and built[1].running.is_set())
    assert [each.closed for each in built] == [True, False]
    assert lazy.read(lambda each: each.runs, 0) == 1
    assert supervisor.stop(5) == []


def test_a_loop_is_built_once_and_run_again() -> None:
    built: list[Scripted] = []

    def build() -> Scripted:
        built.append(Scripted(RuntimeError("once"), None))
        return built[-1]

    lazy = LazyLoop(build)
    supervisor, _ = supervise(Job("late", lazy.run))
    supervisor.start()
    eventually(lambda: bool(built) and built[0].running.is_set())
    assert (len(built), built[0].runs) == (1, 2)
    assert supervisor.stop(5) == []
