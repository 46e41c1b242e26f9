"""The stack as containers: the same endpoints, the same files. Needs a Docker engine
(``make docker-test``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dev.stack.docker_engine import is_engine_available
from dev.stack.endpoints import Endpoints
from dev.stack.hive.servers import Metastore
from dev.stack.hive.sql_session import Session


pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    if not is_engine_available() and not os.environ.get("CI"):
        pytest.skip("no Docker engine answers: 'make docker-test' starts one as root")
    from dev.stack.containers import ContainerStack

    with ContainerStack(tmp_path_factory.mktemp("containers")) as stack:
        yield stack.endpoints()


def test_acid_rows_written_in_a_container_lie_in_files_on_this_machine(containers: Endpoints) -> None:
    with Session.connect(containers.source.sql) as session:
        session.run("create database d")
        session.run("create table d.t (id int) stored as orc tblproperties ('transactional'='true')")
        inserted = session.run("insert into d.t values (1), (2)")
        assert session.rows("select * from d.t order by id") == [("1",), ("2",)]
    assert inserted.event_types[-1] == "COMMIT_TXN"
    assert list(Path(containers.source.warehouse).rglob("delta_*/bucket_*"))


def test_both_metastores_and_kafka_respond_on_this_machine(containers: Endpoints) -> None:
    for side in (containers.source, containers.target):
        port = int(side.metastore.rpartition(":")[2])
        assert Metastore(Path(side.warehouse), port).last_event_id() >= 0
    assert AdminClient({"bootstrap.servers": containers.kafka}).list_topics(timeout=10).brokers
