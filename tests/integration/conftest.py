"""The real components for integration tests, one set per session.

``TIDELINE_STACK`` says where from: unset, a stack is started for the session and stopped after it; a path to
an ``endpoints.json`` (or its directory) uses one that runs already, which saves a developer the start;
``docker`` starts the same components as containers. A component that cannot start fails the run in CI;
elsewhere its tests are skipped with the reason, because a developer without memory for five JVMs still wants
the rest.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.stack import cli, preflight
from dev.stack.cluster import HiveCluster, Stack
from dev.stack.endpoints import FILE, ClusterEndpoints, Endpoints, read_endpoints
from dev.stack.errors import StackError
from dev.stack.hive.sql_session import Session
from tests.builders.components.availability import start_or_skip
from tests.builders.components.hive_3 import running_hive_3
from tests.builders.components.object_store import TestStore


PROJECT = Path(__file__).resolve().parents[2]
LOGS = PROJECT / ".run" / "logs"
HERE = Path(__file__).parent
KEPT = pytest.StashKey[Path]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory is an integration test, whether it says so or not."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Endpoints]:
    """Where Kafka and the two clusters are, all of them serving, SQL engines included."""
    where = os.environ.get("TIDELINE_STACK", "")
    with ExitStack() as cleanup:
        with start_or_skip("stack"):
            endpoints = _endpoints(where, tmp_path_factory.mktemp("stack"), cleanup, request.config)
        yield endpoints
        if request.session.testsfailed:
            _keep_logs(Path(endpoints.directory), request.config)


def _endpoints(where: str, directory: Path, cleanup: ExitStack, config: pytest.Config) -> Endpoints:
    if where == "docker":
        from dev.stack.containers import ContainerStack

        return cleanup.enter_context(ContainerStack(directory)).endpoints()
    if where:
        path = Path(where)
        return read_endpoints(path / FILE if path.is_dir() else path)
    preflight.check_all(directory)
    cli.fetch_all()
    running = Stack(directory)
    try:
        running.start(engines=True)
    except StackError:
        _keep_logs(directory, config)
        raise
    cleanup.callback(running.stop)
    return running.endpoints()


def _keep_logs(directory: Path, config: pytest.Config) -> None:
    """Copy the components' logs to where the next session does not delete them; the summary says where that
    is."""
    LOGS.mkdir(parents=True, exist_ok=True)
    for log in directory.glob("*/*.log"):
        shutil.copy(log, LOGS / f"{log.parent.name}-{log.name}")
    config.stash[KEPT] = LOGS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a failure: where the components' logs are. With pytest-xdist, the process of the failed test has
    kept them."""
    failed = bool(terminalreporter.stats.get("failed"))
    if config.stash.get(KEPT, None) or (failed and LOGS.is_dir()):
        terminalreporter.write_line(f"logs of the components: {LOGS}")


@pytest.fixture(scope="session")
def kafka(stack: Endpoints) -> str:
    """The broker's bootstrap address."""
    return stack.kafka


@pytest.fixture(scope="session")
def source(stack: Endpoints) -> ClusterEndpoints:
    """The cluster that is replicated from."""
    return stack.source


@pytest.fixture(scope="session")
def target(stack: Endpoints) -> ClusterEndpoints:
    """The cluster that is replicated to."""
    return stack.target


@pytest.fixture
def source_sql(source: ClusterEndpoints) -> Iterator[Session]:
    """A fresh Hive session on the source."""
    with Session.connect(source.sql) as session:
        yield session


@pytest.fixture
def target_sql(target: ClusterEndpoints) -> Iterator[Session]:
    """A fresh Hive session on the target."""
    with Session.connect(target.sql) as session:
        yield session


@pytest.fixture(scope="session")
def hive_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveCluster]:
    """A cluster of Hive 3.1 with its compactor, only for tests that ask for it."""
    with ExitStack() as running:
        with start_or_skip("cluster of Hive 3.1"):
            cluster = running.enter_context(running_hive_3(tmp_path_factory.mktemp("hive3")))
        yield cluster


@pytest.fixture(scope="session")
def store() -> TestStore:
    """The object store that ``TIDELINE_TEST_S3`` names; ``make s3`` has one, ``make test`` none."""
    found = TestStore.named()
    if found is None:
        pytest.skip("TIDELINE_TEST_S3 names no object store")
    return found


@pytest.fixture
def database() -> str:
    """A database name that nobody else uses; the test makes the database, and may leave it."""
    return f"db_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic() -> str:
    """A topic name that nobody else uses; the test makes the topic, and may leave it."""
    return f"topic-{uuid.uuid4().hex[:12]}"
