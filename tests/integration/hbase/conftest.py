"""HBase for the tests of its store, once for each session; ``TIDELINE_HBASE=PORT`` uses a running one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from dev.stack.servers.hbase import HBase
from handlers.hbase.gateway import Gateway, make_connector
from handlers.hbase.store import HBaseStore, open_store
from tests.builders.components.availability import start_or_skip


HOST = "127.0.0.1"
TIMEOUT_S = 60.0


@pytest.fixture(scope="session")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBase | None]:
    """HBase with its gateway, None where one is used that runs already."""
    if os.environ.get("TIDELINE_HBASE"):
        yield None
        return
    started = HBase(tmp_path_factory.mktemp("hbase"))
    with start_or_skip("HBase"):
        started.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def hbase_port(hbase: HBase | None) -> int:
    """The Thrift gateway's port on 127.0.0.1."""
    return int(os.environ["TIDELINE_HBASE"]) if hbase is None else hbase.port


@pytest.fixture
def table() -> str:
    """A table that nobody else uses."""
    return f"t_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def gateway(hbase_port: int, table: str) -> Iterator[Gateway]:
    with closing(
        Gateway(make_connector(HOST, hbase_port, TIMEOUT_S), table, f"{HOST}:{hbase_port}")
    ) as opened:
        yield opened


@pytest.fixture
def store(hbase_port: int, table: str) -> Iterator[HBaseStore]:
    with closing(open_store(HOST, hbase_port, table, TIMEOUT_S)) as opened:
        yield opened
