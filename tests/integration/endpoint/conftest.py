"""A metastore of Hive 4.2, and ``tideline serve`` in front of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dev.stack import cli
from dev.stack.hive.servers import Metastore
from tests.builders.components.availability import start_or_skip
from tests.builders.daemon.tideline_process import COMMAND, ended, running


@pytest.fixture(scope="package")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with start_or_skip("metastore of Hive 4.2"):
        cli.fetch_all()
        server = Metastore(tmp_path_factory.mktemp("endpoint"))
        server.start()
    yield server
    server.stop()


@pytest.fixture(scope="package")
def endpoint(metastore: Metastore) -> Iterator[int]:
    """Run ``tideline serve`` as a user does; return its port."""
    with running([*COMMAND, "serve", "--metastore", metastore.uri, "--listen", "127.0.0.1:0"]) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield int(json.loads(line)["listen"].rpartition(":")[2])
        assert "a session failed" not in ended(process)
