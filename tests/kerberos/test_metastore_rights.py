"""A daemon between two metastores that check rights by the permissions of files: it does all that
docs/guides/least-privilege.md promises with the rights named there, and its account can do no more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from dev.fixtures.hive_tables import ACID, a_partition, a_table
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.kerberized import HOST, WRITER, KerberizedMetastore
from dev.stack.servers.kafka import Kafka
from dev.stack.servers.kerberos import REALM, Kdc
from handlers.metastore.addresses import KerberosLogin, use_logins
from handlers.metastore.client import Metastore
from handlers.replication.effects.databases import SOURCE_FOR
from handlers.structs.constraints import PRIMARY_KEY, SQLPrimaryKey
from handlers.structs.notifications import InsertEventRequestData
from handlers.structs.objects import Database, Function, FunctionType, PrincipalType
from state.errors import ServerFault
from tests.builders.components.availability import start_or_skip
from tests.builders.kerberos.metastore_rights import BY_PERMISSIONS_OF_FILES
from tests.builders.kerberos.secure_daemon import SecureDaemon, login_of
from tests.builders.replication.many_tables import path_of


DB: Final = "shop"
REPLICA, ELSEWHERE = f"{DB}_r", "elsewhere"
OWNER: Final = f"root@{REALM}"
"""Whose name is that of the owner of all directories."""
ALL_MAY_READ, ALL_MAY_WRITE = 0o755, 0o777
PROTECTED_LOG: Final = {"metastore.event.db.notification.api.auth": "true"}
NO_MASK: Final = {"fs.permissions.umask-mode": "000"}
"""New directories inherit that everybody may write there, as with a default entry of HDFS."""
PROXY_USER: Final = {"hadoop.proxyuser.writer.hosts": "*", "hadoop.proxyuser.writer.groups": "*"}


def start(metastore: KerberizedMetastore) -> KerberizedMetastore:
    with start_or_skip("a metastore with authorization"):
        metastore.start()
    metastore.layout.warehouse.chmod(ALL_MAY_READ)
    metastore.layout.external.chmod(ALL_MAY_READ)
    return metastore


@pytest.fixture(scope="module")
def source(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberizedMetastore]:
    """A source whose directories only their owner may write to."""
    metastore = start(
        KerberizedMetastore(tmp_path_factory.mktemp("source"), kdc, extra=BY_PERMISSIONS_OF_FILES)
    )
    yield metastore
    metastore.stop()


@pytest.fixture(scope="module")
def target(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberizedMetastore]:
    """A target where everybody may write to the directories of the replica, and only the owner elsewhere.
    Only the writer may read its notification log."""
    extra = BY_PERMISSIONS_OF_FILES | PROTECTED_LOG | PROXY_USER | NO_MASK
    metastore = start(KerberizedMetastore(tmp_path_factory.mktemp("target"), kdc, extra=extra))
    yield metastore
    metastore.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = Kafka(tmp_path_factory.mktemp("kafka"))
    with start_or_skip("Kafka"):
        broker.start()
    yield broker.bootstrap
    broker.stop()


def cluster_of(metastore: KerberizedMetastore) -> ClusterEndpoints:
    layout = metastore.layout
    return ClusterEndpoints(
        metastore.uri, "", str(layout.warehouse), str(layout.external), str(layout.cmroot)
    )


@pytest.fixture(scope="module")
def databases(kdc: Kdc, source: KerberizedMetastore, target: KerberizedMetastore) -> None:
    """As the administrators prepare them: the source's names the policy, and the target's is empty."""
    log_in(login_of(kdc.keytab_of("root"), OWNER), source, target)
    with closing(WritingMetastore(source.uri)) as owner, closing(Metastore(target.uri)) as administrator:
        owner.create_database(Database(name=DB, parameters={SOURCE_FOR: "shop"}))
        owner.create_table(a_table(DB, "orders", parameters=ACID))
        write_row(owner, "orders", "1")
        owner.create_table(a_table(DB, "visits", partition_keys=("dt",)))
        visits = owner.get_table(DB, "visits")
        owner.add_partitions(DB, "visits", [a_partition(visits, value) for value in ("a", "b")])
        owner.create_function(a_function("before"))
        for name in (REPLICA, ELSEWHERE):
            administrator.create_database(Database(name=name))
        administrator.create_table(a_table(ELSEWHERE, "theirs", partition_keys=("dt",)))
    for name, mode in ((REPLICA, ALL_MAY_WRITE), (ELSEWHERE, ALL_MAY_READ)):
        for root in (target.layout.warehouse, target.layout.external):
            (root / f"{name}.db").mkdir(exist_ok=True)
            (root / f"{name}.db").chmod(mode)
    (target.layout.external / f"{ELSEWHERE}.db" / "theirs").chmod(ALL_MAY_READ)


@pytest.fixture
def ours(
    databases: None, source: KerberizedMetastore, target: KerberizedMetastore, keytab: Path
) -> Callable[[KerberizedMetastore], Metastore]:
    """Open a client that logs in as Tideline's account."""
    del databases
    log_in(login_of(keytab), source, target)
    return lambda metastore: Metastore(metastore.uri)


def log_in(login: KerberosLogin, *metastores: KerberizedMetastore) -> None:
    use_logins({(HOST, each.port): login for each in metastores})


def a_function(name: str, db: str = DB) -> Function:
    return Function(
        functionName=name,
        dbName=db,
        className="org.apache.hadoop.hive.ql.udf.UDFAscii",
        ownerName="root",
        ownerType=PrincipalType.USER,
        functionType=FunctionType.JAVA,
        resourceUris=[],
    )


def write_row(owner: WritingMetastore, table: str, content: str) -> None:
    """Commit a transaction with one file, which nobody here reads as ORC."""
    txn_id, write_id = owner.open_write(DB, table)
    root = path_of(owner.get_table(DB, table))
    file = root / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    written = InsertEventRequestData(filesAdded=[f"file:{file}"], subDirectoryList=[file.parent.name])
    owner.add_write_notification(txn_id, write_id, DB, table, written)
    owner.commit_txn(txn_id)


def change_everything(owner: WritingMetastore) -> int:
    """Make a change of each kind at the source; return the last event."""
    write_row(owner, "orders", "2")
    owner.abort_txn(owner.open_write(DB, "orders")[0])
    visits = owner.get_table(DB, "visits")
    owner.add_partitions(DB, "visits", [a_partition(visits, "c")])
    owner.drop_partition(DB, "visits", ["a"])
    owner.rename_partition(DB, "visits", ["b"], a_partition(visits, "d"))
    visits.parameters = {**(visits.parameters or {}), "comment": "changed"}
    owner.alter_table(DB, "visits", visits)
    owner.create_table(a_table(DB, "dropped"))
    owner.drop_table(DB, "dropped")
    owner.create_table(a_table(DB, "added"))
    key = SQLPrimaryKey(table_db=DB, table_name="added", column_name="id", key_seq=1, pk_name="added_key")
    owner.add_constraint(PRIMARY_KEY, [key])
    owner.create_function(a_function("after"))
    owner.drop_function(DB, "before")
    return owner.current_event_id()


@pytest.fixture
def no_mask() -> Iterator[None]:
    """Let the daemon make directories to which everybody may write, as with a default entry of HDFS."""
    mask = os.umask(0)
    yield
    os.umask(mask)


@pytest.mark.usefixtures("databases", "no_mask")
def test_a_daemon_with_these_rights_replicates_every_kind_of_change(
    source: KerberizedMetastore,
    target: KerberizedMetastore,
    kafka: str,
    kdc: Kdc,
    keytab: Path,
    tmp_path: Path,
) -> None:
    stack = Endpoints(str(tmp_path), kafka, cluster_of(source), cluster_of(target))
    secure = SecureDaemon.of(tmp_path, stack, DB, keytab)
    log_in(login_of(kdc.keytab_of("root"), OWNER), source, target)
    with closing(WritingMetastore(source.uri)) as owner, secure.daemon as daemon:
        secure.settle(owner.current_event_id())
        secure.settle(change_everything(owner))
        verified = daemon.command("verify", "shop", "--checksums")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        with closing(Metastore(target.uri)) as administrator:
            assert sorted(administrator.table_names(REPLICA)) == ["added", "orders", "visits"]
            assert administrator.partition_names(REPLICA, "visits") == ["dt=c", "dt=d"]
            assert administrator.function_names(REPLICA) == ["after"]
            assert administrator.constraint_names(REPLICA, "added") == {"added_key"}
        refused = daemon.command("retire", "shop")
        assert "call=alter_database" in refused.stderr, refused
        database = owner.get_database(DB)
        database.parameters = {}
        owner.alter_database(DB, database)
        retired = daemon.command("retire", "shop")
        assert retired.returncode == 0, retired.stderr


def refused_calls(db: str, table: str) -> dict[str, Callable[[Metastore], object]]:
    """Return calls that change a table or its database."""
    return {
        "create table": lambda client: client.create_table(a_table(db, "ours")),
        "alter table": lambda client: client.alter_table(db, table, client.get_table(db, table)),
        "drop table": lambda client: client.drop_table(db, table),
        "add partition": lambda client: client.add_partitions(
            db, table, [a_partition(client.get_table(db, table), "z")]
        ),
        "alter database": lambda client: client.alter_database(db, client.get_database(db)),
        "create database": lambda client: client.create_database(Database(name="ours")),
    }


@pytest.mark.parametrize("change", refused_calls("", ""))
def test_the_account_changes_nothing_at_the_source(
    change: str, ours: Callable[[KerberizedMetastore], Metastore], source: KerberizedMetastore
) -> None:
    with (
        closing(ours(source)) as client,
        pytest.raises(ServerFault, match="Permission denied: user=tideline"),
    ):
        refused_calls(DB, "visits")[change](client)


@pytest.mark.parametrize("change", refused_calls("", ""))
def test_the_account_changes_nothing_in_other_databases_of_the_target(
    change: str, ours: Callable[[KerberizedMetastore], Metastore], target: KerberizedMetastore
) -> None:
    with (
        closing(ours(target)) as client,
        pytest.raises(ServerFault, match="Permission denied: user=tideline"),
    ):
        refused_calls(ELSEWHERE, "theirs")[change](client)


def test_storage_based_authorization_does_not_check_truncations_functions_and_transactions(
    ours: Callable[[KerberizedMetastore], Metastore], target: KerberizedMetastore
) -> None:
    with closing(ours(target)) as client:
        client.truncate_table(ELSEWHERE, "theirs")
        client.create_function(a_function("ours", ELSEWHERE))
        with closing(WritingMetastore(target.uri)) as writer:
            writer.abort_txn(writer.open_write(ELSEWHERE, "theirs")[0])


def test_an_account_that_is_no_proxy_user_cannot_read_a_protected_log(
    ours: Callable[[KerberizedMetastore], Metastore], target: KerberizedMetastore
) -> None:
    with closing(ours(target)) as client, pytest.raises(ServerFault):
        client.next_events(0, 1)


@pytest.mark.usefixtures("databases")
def test_a_proxy_user_reads_a_protected_log_and_passes_the_checks_of_storage_based_authorization(
    target: KerberizedMetastore, writer_keytab: Path
) -> None:
    log_in(login_of(writer_keytab, WRITER), target)
    with closing(Metastore(target.uri)) as client:
        client.next_events(0, 1)
        client.create_table(a_table(ELSEWHERE, "by_a_proxy_user"))
