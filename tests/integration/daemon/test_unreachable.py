"""A source or a broker that cannot be reached: what is said then is about the connection, and nothing looks
caught up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from daemon.kafka.broker import BrokerSettings
from daemon.kafka.topic import Topic, TopicSettings
from daemon.status.model import READ_S_MAX
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from state.errors import KafkaUnavailable
from tests.builders.components.proxy import Proxy
from tests.builders.daemon.running_daemon import configured


def test_a_broker_that_is_down_is_not_a_topic_that_cannot_be_created(stack: Endpoints, topic: str) -> None:
    with Proxy(stack.kafka) as proxy:
        Topic(BrokerSettings(stack.kafka), TopicSettings(topic)).ensure()
        proxy.cut()
        with pytest.raises(KafkaUnavailable, match="no Kafka broker answers"):
            Topic(BrokerSettings(proxy.address, timeout_s=1.0), TopicSettings(topic)).ensure()


def test_a_policy_that_was_never_bootstrapped_cannot_be_verified(
    stack: Endpoints, topic: str, database: str, source_sql: Session, tmp_path: Path
) -> None:
    source_sql.run(f"create database {database}")
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    refused = daemon.command("verify", "shop")
    assert refused.returncode == 1
    assert "[not-found]" in refused.stderr
    assert "never bootstrapped" in refused.stderr
    daemon.bootstrap()
    verified = daemon.command("verify", "shop")
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.long
def test_a_policy_does_not_look_caught_up_while_its_source_cannot_be_reached(
    stack: Endpoints, topic: str, database: str, source_sql: Session, tmp_path: Path
) -> None:
    source_sql.run(f"create database {database}")
    with Proxy(stack.source.metastore) as proxy:
        source = replace(stack.source, metastore=f"thrift://{proxy.address}")
        daemon = configured(tmp_path, stack, topic=topic, database=database, source=source)
        daemon.bootstrap()
        with daemon:
            daemon.status_when(lambda s: s.sources[0].lag_s == s.projections[0].lag_s == 0.0)
            proxy.cut()
            cut = daemon.status_when(lambda s: (s.projections[0].lag_s or 0.0) > READ_S_MAX)
            assert cut.sources[0].code == "metastore-unavailable"
            assert (cut.sources[0].lag_s or 0.0) > READ_S_MAX
            assert cut.newest_event_id("lake") is None
            proxy.join()
            daemon.status_when(lambda s: s.sources[0].lag_s == s.projections[0].lag_s == 0.0)
            daemon.status_when(lambda s: s.sources[0].problem is None)
