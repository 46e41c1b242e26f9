"""An endpoint with an index in front of a metastore that decides by user what may be read: only the metastore
answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from daemon.endpoint.protocol.wire import read_fields
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.kerberized import HOST, KerberizedMetastore, KerberizedStack
from dev.stack.servers.kerberos import Kdc
from handlers.metastore.addresses import Address, use_logins
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.availability import start_or_skip
from tests.builders.endpoint.partition_requests import positional
from tests.builders.kerberos.metastore_rights import BY_PERMISSIONS_OF_FILES
from tests.builders.kerberos.secure_daemon import SecureDaemon, connect, login_of


DB: Final = "guarded"
ALL_MAY_WRITE, OWNER_ONLY = 0o777, 0o700


@pytest.fixture
def guarded(kdc: Kdc, keytab: Path, tmp_path: Path) -> Iterator[KerberizedMetastore]:
    """A metastore with a partitioned table, which everybody may read."""
    with start_or_skip("metastore with authorization"):
        metastore = KerberizedMetastore(tmp_path / "guarded", kdc, extra=BY_PERMISSIONS_OF_FILES)
        metastore.start()
    metastore.layout.warehouse.chmod(ALL_MAY_WRITE)
    directory = metastore.layout.warehouse / DB
    for each in (directory, directory / "t"):
        each.mkdir()
        each.chmod(ALL_MAY_WRITE)
    use_logins({(HOST, metastore.port): login_of(keytab)})
    with closing(Metastore(metastore.uri)) as client:
        client.create_database(Database(name=DB, locationUri=f"file:{directory}"))
        table = a_table(DB, "t", partition_keys=("dt",), external=True, location=f"file:{directory}/t")
        client.create_table(table)
        client.add_partitions(DB, "t", [a_partition(table, value) for value in ("a", "b")])
    yield metastore
    metastore.stop()


def test_a_client_that_may_not_read_a_table_is_refused_although_the_index_has_it(
    clusters: KerberizedStack, guarded: KerberizedMetastore, keytab: Path, tmp_path: Path
) -> None:
    known, layout = clusters.endpoints(), guarded.layout
    source = ClusterEndpoints(
        guarded.uri, "", str(layout.warehouse), str(layout.external), str(layout.cmroot)
    )
    secure = SecureDaemon.of(tmp_path, replace(known, source=source), DB, keytab)
    call = positional("get_partition_names", DB, "t", -1)
    filtered = positional("get_partitions_by_filter", DB, "t", "dt = 'a'", -1)
    with secure.daemon:
        secure.settle(guarded.last_event_id())
        indexed = secure.daemon.command("partitions", "filter", f"{DB}.t", "dt = 'a'")
        assert "dt=a" in indexed.stdout, indexed.stdout + indexed.stderr
        ours = connect(secure.address, login_of(keytab))
        theirs = connect(Address(HOST, guarded.port), login_of(keytab))
        with closing(ours.peer), closing(theirs.peer):
            assert 0 in read_fields(ours.exchange(filtered).body)
            (layout.warehouse / DB / "t").chmod(OWNER_ONLY)
            for each in (call, filtered):
                refusal = ours.exchange(each)
                assert refusal == theirs.exchange(each)
                assert 0 not in read_fields(refusal.body)
        found = secure.endpoint_when(lambda now: now.not_answered >= 3)
    assert (found.answered, dict(found.reasons)) == (0, {"server": 3})
