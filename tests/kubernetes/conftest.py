"""An API server of Kubernetes for the session, and a namespace of it for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.servers.kubernetes import ApiServer, Kubernetes
from tests.builders.components.availability import start_or_skip
from tests.builders.components.chart import NAMESPACE
from tests.builders.components.kubernetes_api import Api
from tests.integration.conftest import database, kafka, source, stack, topic


__all__ = ["database", "kafka", "source", "stack", "topic"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory needs real components, whether it says so or not."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def api_server(tmp_path: Path) -> Iterator[ApiServer]:
    """A server with nothing but the namespace of the chart, and the default account that a controller would
    create there."""
    cluster = Kubernetes(tmp_path / "kubernetes")
    with start_or_skip("API server of Kubernetes"):
        cluster.start()
    try:
        yield cluster.api_server
    finally:
        cluster.stop()


@pytest.fixture
def administrator(api_server: ApiServer) -> Api:
    api = Api.of_administrator(api_server, NAMESPACE)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    return api
