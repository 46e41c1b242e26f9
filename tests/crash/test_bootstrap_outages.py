"""Both metastores and the broker are killed while the daemon bootstraps a policy with existing data, and nothing needs an operator."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest

from dev.stack import cli
from dev.stack.cluster import Stack
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import ACID, create_source


if TYPE_CHECKING:
    from collections.abc import Iterator, Sized
    from pathlib import Path

    from daemon.status.model import DaemonStatus


pytestmark = pytest.mark.crash
TABLES = 40


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of this module's own, because its components are killed."""
    cli.fetch_all()
    stack = Stack(tmp_path_factory.mktemp("outages"))
    stack.start(engines=True)
    yield stack
    stack.stop()


def loads_left(status: DaemonStatus) -> int:
    loads: Sized = status.sections["loads"]  # type: ignore[assignment]
    return len(loads)


def test_a_bootstrap_survives_kills_of_both_metastores_and_of_the_broker(
    own_stack: Stack, tmp_path: Path
) -> None:
    db = f"out_{uuid.uuid4().hex[:8]}"
    with own_stack.source.sql() as sql:
        create_source(sql, db)
        for number in range(TABLES):
            sql.run(f"create table {db}.t{number} (id int) {ACID}")
            if number % 4 == 0:
                sql.run(f"insert into {db}.t{number} values ({number}), (0)")
    endpoints = own_stack.endpoints()
    daemon = configured(
        tmp_path,
        source=endpoints.source,
        target=endpoints.target,
        kafka=endpoints.kafka,
        topic=db,
        database=db,
    )
    daemon.config.write_text(
        daemon.config.read_text().replace(
            f"target_database: {db}_r", f"target_database: {db}_r\n    bootstrap: auto"
        )
    )
    assert "bootstrap: auto" in daemon.config.read_text()
    killed = (own_stack.target.metastore, own_stack.source.metastore, own_stack.kafka)
    with daemon:
        for number, component in enumerate((*killed, *killed), 1):
            left = TABLES - number * TABLES // 8
            daemon.status_when(lambda now, left=left: loads_left(now) <= left)  # type: ignore[misc]
            component.kill()
            component.start()
        with own_stack.source.sql() as sql:
            sql.run(f"insert into {db}.t1 values (9)")
        last = own_stack.source.metastore.last_event_id()
        view = daemon.applied(last)
        verified = daemon.command("verify", "shop", "--checksums", "--json")
    assert view.failures == ()
    assert verified.returncode == 0, verified.stdout
    assert len(json.loads(verified.stdout)["tables"]) >= TABLES
    with own_stack.target.sql() as sql:
        assert sql.rows(f"select id from {db}_r.t36 order by id") == [("0",), ("36",)]
        assert sql.rows(f"select id from {db}_r.t1") == [("9",)]
