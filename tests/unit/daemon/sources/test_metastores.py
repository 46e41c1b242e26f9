"""Clients of the configured metastores and their pools."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from daemon.config.model import Config
from daemon.sources.connections import CallMetrics
from daemon.sources.metastores import MetastoreClients
from state.errors import MetastoreUnavailable
from tests.builders.daemon.assembly import config_of
from tests.builders.metastore.fake_metastore import FakeMetastore


def clusters(lake: str, dr: str) -> Config:
    return config_of(
        {
            "kafka": {"bootstrap": "localhost:9092"},
            "sources": {"lake": {"metastore": [lake], "topic": "lake.events", "connections_max": 3}},
            "targets": {"dr": {"metastore": [dr]}, "same": {"metastore": [lake]}},
        }
    )


def test_clients_of_one_service_share_its_connection_and_count_their_calls_by_cluster() -> None:
    registry, beats = CollectorRegistry(), []
    with FakeMetastore() as lake, FakeMetastore() as dr:
        clients = MetastoreClients(clusters(lake.uri, dr.uri), CallMetrics(registry))
        for client in (clients.source("lake"), clients.source("lake", lambda: beats.append(1))):
            client.current_event_id()
        clients.target("same").current_event_id()
        clients.target("dr").current_event_id()
        assert (len(lake.connections), len(dr.connections)) == (1, 1)
        clients.close()
    calls = {
        name: registry.get_sample_value(
            "tideline_metastore_call_seconds_count",
            {"cluster": name, "call": "get_current_notificationEventId"},
        )
        for name in ("lake", "same", "dr")
    }
    assert calls == {"lake": 2, "same": 1, "dr": 1}
    assert beats == [1]


def test_an_unreachable_metastore_has_the_name_of_its_cluster() -> None:
    down = "thrift://127.0.0.1:1"
    clients = MetastoreClients(clusters(down, down), CallMetrics(CollectorRegistry()))
    with pytest.raises(MetastoreUnavailable, match=r"\(cluster=dr, addresses=thrift://127\.0\.0\.1:1"):
        clients.target("dr").current_event_id()
    clients.close()
