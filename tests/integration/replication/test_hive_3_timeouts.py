"""A transaction of Hive 3.1 that times out is aborted without an event."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.java_build import HIVE_3
from dev.stack.hive.servers import Metastore as MetastoreProcess
from dev.stack.hive.settings import ClusterSettings
from handlers.structs.objects import Database
from handlers.structs.transactions import TxnState
from tests.builders.components.availability import start_or_skip
from tests.builders.components.hive_3 import SELDOM
from tests.builders.replication.replica import build_replica


pytestmark = [pytest.mark.old_hive, pytest.mark.long]
IMPATIENT = SELDOM | {
    name: value
    for prefix in ("metastore", "hive")
    for name, value in (
        (f"{prefix}.txn.timeout", "2s"),
        (f"{prefix}.timedout.txn.reaper.start", "1s"),
        (f"{prefix}.timedout.txn.reaper.interval", "1s"),
    )
}
TIMEOUT_S = 60.0


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[MetastoreProcess]:
    """A metastore of Hive 3.1 that aborts transactions without heartbeats after two seconds.

    It does that only if its compactor is on.
    """
    server = MetastoreProcess(
        tmp_path / "source", settings=ClusterSettings(hive=HIVE_3, compactor=True, extra=IMPATIENT)
    )
    with start_or_skip("metastore of Hive 3.1"):
        server.start()
    yield server
    server.stop()


def test_a_transaction_that_timed_out_without_an_event_is_aborted_on_the_target(
    impatient: MetastoreProcess, target: ClusterEndpoints, database: str
) -> None:
    with WritingMetastore(impatient.uri) as client:
        client.create_database(Database(name=database))
        start = client.current_event_id()
        client.create_table(a_table(database, "t", parameters=ACID))
        (txn,) = client.open_txns(1)
        client.allocate_write_ids(database, "t", [txn])
        replica = build_replica(
            impatient.uri,
            target.metastore,
            db=database,
            roots=[f"file:{impatient.layout.root}"],
            start=start - 1,
        )
        with closing(replica.projection):
            replica.follow()
            (here,) = replica.target.valid_write_ids([f"{replica.policy.target_db}.t"])
            assert here.open == (1,)
            newest = client.current_event_id()
            wait_for_time_out(client, txn)
            assert client.current_event_id() == newest, "Hive has logged no ABORT_TXN"
        again = build_replica(
            impatient.uri,
            target.metastore,
            db=database,
            roots=[f"file:{impatient.layout.root}"],
            store=replica.store,
            start=False,
        )
        with closing(again.projection):
            again.follow()
            (here,) = again.target.valid_write_ids([f"{replica.policy.target_db}.t"])
            assert (here.high_water_mark, here.open) == (1, ())
            assert again.quarantined() == {}


def test_hive_forgets_that_a_transaction_without_locks_was_aborted(
    impatient: MetastoreProcess, database: str
) -> None:
    """So do inserts into dynamic partitions before they end; the rows of an insert-only table then appear."""
    with WritingMetastore(impatient.uri) as client:
        client.create_database(Database(name=database))
        client.create_table(a_table(database, "t", parameters=ACID))
        (txn, later) = client.open_txns(2)
        client.allocate_write_ids(database, "t", [txn])
        client.abort_txn(txn)
        client.abort_txn(later)
        (before,) = client.valid_write_ids([f"{database}.t"])
        assert before.aborted == (1,)
    impatient.stop()
    impatient.start()
    with WritingMetastore(impatient.uri) as client:
        deadline_s = time.monotonic() + TIMEOUT_S
        while client.valid_write_ids([f"{database}.t"])[0].aborted:
            assert time.monotonic() < deadline_s, "no round of the initiator has forgotten it"
            time.sleep(0.2)
        (valid,) = client.valid_write_ids([f"{database}.t"])
        assert (valid.high_water_mark, valid.is_visible(1)) == (1, True)


def wait_for_time_out(client: WritingMetastore, txn_id: int) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        listed = {txn.id: txn.state for txn in client.open_txns_info().open_txns}
        if listed.get(txn_id) != TxnState.OPEN:
            return
        assert time.monotonic() < deadline_s, "the transaction did not time out"
        time.sleep(0.2)
