"""A realm with its own KDC, and Kafka with two Kerberized Hive clusters, one set per session
(``make kerberos``): five JVMs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack import cli, preflight
from dev.stack.hive.kerberized import HOST, WRITER, KerberizedStack
from dev.stack.servers.kerberos import Kdc
from handlers.metastore.addresses import Address, use_logins
from tests.builders.components.availability import start_or_skip
from tests.builders.endpoint.endpoint_process import EndpointProcess
from tests.builders.kerberos.delegation_tokens import TokenClient, write_token_file
from tests.builders.kerberos.secure_daemon import login_of
from tests.integration.conftest import database


__all__ = ["database"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory needs real components, whether it says so or not."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """The KDC; this process and its children use its realm and have no tickets."""
    with start_or_skip("Kerberos"):
        cli.fetch_all()
        started = Kdc(tmp_path_factory.mktemp("kdc"))
        started.__enter__()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KRB5_CONFIG", str(started.config))
        environment.setenv("KRB5CCNAME", f"FILE:{started.directory}/none")
        yield started
    started.__exit__(None, None, None)


@pytest.fixture(scope="session")
def keytab(kdc: Kdc) -> Path:
    """A keytab of Tideline's user."""
    return kdc.keytab_of("tideline")


@pytest.fixture(scope="session")
def writer_keytab(kdc: Kdc) -> Path:
    """A keytab of the user who writes."""
    return kdc.keytab_of("writer")


@pytest.fixture(scope="session")
def clusters(
    kdc: Kdc, writer_keytab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KerberizedStack]:
    """Source and target; their SQL engines start with the first session."""
    directory = tmp_path_factory.mktemp("clusters")
    preflight.check_all(directory)
    running = KerberizedStack(directory, kdc)
    with start_or_skip("two Kerberized clusters"):
        running.start()
    for cluster in (running.source, running.target):
        use_logins({(HOST, cluster.metastore.port): login_of(writer_keytab, WRITER)})
        with closing(TokenClient(cluster.metastore.uri)) as client:
            write_token_file(cluster.token_file, client.get_token("writer", "writer"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def endpoint(
    clusters: KerberizedStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EndpointProcess]:
    """An endpoint without an index in front of the source."""
    process = EndpointProcess(tmp_path_factory.mktemp("endpoint"), clusters.source.metastore.uri)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def through(endpoint: EndpointProcess) -> Address:
    """The address of the endpoint."""
    return Address(HOST, endpoint.port)


@pytest.fixture
def direct(clusters: KerberizedStack) -> Address:
    """The address of the source's metastore."""
    return Address(HOST, clusters.source.metastore.port)


@pytest.fixture(autouse=True)
def no_logins() -> Iterator[None]:
    """Leave no login to another test."""
    yield
    use_logins({})
