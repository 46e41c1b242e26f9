"""A client of the target's metastore, and a database for each test."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from handlers.structs.objects import Database


@pytest.fixture
def client(target: ClusterEndpoints) -> Iterator[WritingMetastore]:
    with WritingMetastore(target.metastore) as metastore:
        yield metastore


@pytest.fixture
def db(client: WritingMetastore, database: str) -> Iterator[str]:
    """A replica's database, dropped with its contents at the end."""
    client.create_database(
        Database(name=database, parameters={"repl.target.for": "true", "repl.last.id": "0"})
    )
    yield database
    client.drop_database(database, cascade=True)


@pytest.fixture
def policy(db: str) -> str:
    return f"{db}.*"


@pytest.fixture
def source_txn() -> Callable[[], int]:
    """Transaction ids of a source that no other test replays."""
    ids = itertools.count(time.time_ns() // 1000)
    return lambda: next(ids)
