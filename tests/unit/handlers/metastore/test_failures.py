"""The client with a metastore that breaks connections, answers late or wrongly, or is down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from dev.fixtures.writing_client import WritingMetastore
from handlers.metastore.calls import AnyCall
from handlers.metastore.connection import BrokenConnectionError, Connection
from handlers.metastore.error_mapping import to_tideline_error
from handlers.metastore.objects.partitions import BATCH
from handlers.structs.constraints import CONSTRAINT_KINDS, PRIMARY_KEY, SQLPrimaryKey
from handlers.structs.exceptions import (
    AlreadyExistsException,
    HiveException,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchObjectException,
    NoSuchTxnException,
    TxnAbortedException,
)
from handlers.structs.objects import Database, Partition, StorageDescriptor
from handlers.structs.table_requests import AddPartitionsResult
from handlers.structs.transactions import GetValidWriteIdsResponse, OpenTxnsResponse
from state.errors import (
    AlreadyExists,
    AmbiguousCall,
    ConfigError,
    InvalidRequest,
    LimitExceeded,
    MetastoreUnavailable,
    NotFound,
    ServerFault,
    TargetDiverged,
    TidelineError,
    TxnNotOpen,
    Unsupported,
)
from tests.builders.metastore.fake_metastore import (
    FakeMetastore,
    Reaction,
    fails,
    hangs_up,
    hangs_up_midway,
    keeps_silent,
    refuses,
    returns,
    says,
)


ID = "get_current_notificationEventId"


@pytest.fixture
def server() -> Iterator[FakeMetastore]:
    with FakeMetastore() as fake:
        yield fake


@pytest.fixture
def client(server: FakeMetastore) -> Iterator[WritingMetastore]:
    with WritingMetastore(server.uri, timeout_s=5) as metastore:
        yield metastore


def test_a_list_of_write_ids_without_a_requested_table_is_a_fault_of_the_server(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    server.will("get_valid_write_ids", returns(GetValidWriteIdsResponse(tblValidWriteIds=[])))
    with pytest.raises(ServerFault, match="list of write ids lacks tables"):
        client.valid_write_ids(["shop.orders"])


def test_the_guard_of_a_client_is_asked_before_calls_that_change_something(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    class NotAllowedError(Exception):
        pass

    def refuse() -> None:
        raise NotAllowedError

    with client.clone(guard=refuse) as guarded, guarded.clone() as clone:
        assert guarded.current_event_id() == 7, "reading needs no guard"
        with pytest.raises(NotAllowedError):
            clone.drop_database("shop")
    assert "drop_database" not in server.calls


Connect = Callable[..., WritingMetastore]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Create clients that are closed at the end of the test."""
    with ExitStack() as clients:
        yield lambda *uris, **options: clients.enter_context(
            WritingMetastore(list(uris), **{"timeout_s": 5, **options})
        )


def test_nothing_is_connected_before_the_first_call(server: FakeMetastore, client: WritingMetastore) -> None:
    assert server.connections == []
    assert client.current_event_id() == 7
    assert server.calls == ["getVersion", ID]
    client.current_event_id()
    assert len(server.connections) == 1


@pytest.mark.parametrize(
    "breaking", [hangs_up, hangs_up_midway, says(b"\x00\x00\x00\x00garbage, and more of it")]
)
def test_a_reading_call_whose_connection_broke_is_repeated(
    server: FakeMetastore, client: WritingMetastore, breaking: Reaction
) -> None:
    server.will(ID, breaking, breaking)
    assert client.current_event_id() == 7
    assert server.calls.count(ID) == 3


def test_a_reading_call_that_breaks_every_time_is_given_up_after_some_attempts(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    server.will(ID, *[hangs_up] * 10)
    with pytest.raises(MetastoreUnavailable) as given_up:
        client.current_event_id()
    assert given_up.value.context["call"] == ID
    assert server.calls.count(ID) < 10


@pytest.mark.parametrize("breaking", [hangs_up, hangs_up_midway])
def test_a_changing_call_whose_connection_broke_after_sending_is_ambiguous_and_not_repeated(
    server: FakeMetastore, client: WritingMetastore, breaking: Reaction
) -> None:
    server.will("open_txns", breaking, breaking)
    with pytest.raises(AmbiguousCall) as ambiguous:
        client.open_txns()
    assert ambiguous.value.context["call"] == "open_txns"
    assert ambiguous.value.context["address"] == server.uri
    assert server.calls.count("open_txns") == 1


def test_a_changing_call_whose_connection_broke_before_sending_is_sent_again(
    server: FakeMetastore, client: WritingMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.current_event_id()
    perform = Connection.perform
    failures = [BrokenConnectionError(OSError("reset"), sent=False)]

    def perform_later(connection: Connection, call: AnyCall[Any], *rest: Any) -> Any:
        if call.name == "create_database" and failures:
            raise failures.pop()
        return perform(connection, call, *rest)

    monkeypatch.setattr(Connection, "perform", perform_later)
    client.create_database(Database(name="d"))
    assert server.calls.count("create_database") == 1


def test_an_idle_connection_closed_by_the_server_is_replaced_before_a_call_is_sent(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    client.current_event_id()
    server.forget_connections()
    client.create_database(Database(name="d"))
    assert server.calls.count("create_database") == 1


def test_a_late_answer_ends_at_the_deadline_and_is_never_taken_for_another(
    server: FakeMetastore, connect: Connect
) -> None:
    client = connect(server.uri, timeout_s=1.0)
    assert client.current_event_id() == 7
    server.will(ID, keeps_silent)
    started = time.monotonic()
    with pytest.raises(MetastoreUnavailable):
        client.current_event_id()
    assert time.monotonic() - started < 20  # the server would keep silent for 30
    assert client.current_event_id() == 7


def test_a_late_answer_to_a_changing_call_is_ambiguous(server: FakeMetastore, connect: Connect) -> None:
    server.will("create_database", keeps_silent)
    with pytest.raises(AmbiguousCall):
        connect(server.uri, timeout_s=1.0).create_database(Database(name="d"))


@pytest.mark.parametrize("then_hangs_up", [False, True])
def test_an_internal_error_is_a_server_fault_and_closes_the_connection(
    server: FakeMetastore, client: WritingMetastore, then_hangs_up: bool
) -> None:
    server.will("create_database", fails(then_hangs_up=then_hangs_up))
    with pytest.raises(ServerFault) as fault:
        client.create_database(Database(name="d"))
    assert fault.value.context["reason"] == "Internal error processing create_database"
    client.create_database(Database(name="d"))
    assert server.calls.count("create_database") == 2
    assert server.calls.count("getVersion") == 2


def test_a_call_that_the_server_does_not_know_is_unsupported(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    server.will("get_all_write_event_info", fails(TApplicationException.UNKNOWN_METHOD))
    with pytest.raises(Unsupported) as unsupported:
        client.write_events(5)
    assert unsupported.value.context["call"] == "get_all_write_event_info"
    client.current_event_id()
    assert len(server.connections) == 1, "the connection stays usable"


def test_an_answer_without_a_result_is_a_server_fault(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    server.will(ID, returns(None))
    with pytest.raises(ServerFault):
        client.current_event_id()


Call = Callable[[WritingMetastore], object]
DECLARED_REFUSALS: list[tuple[HiveException, type[TidelineError], str, Call]] = [
    (NoSuchObjectException(message="m"), NotFound, "get_database", lambda c: c.get_database("d")),
    (MetaException(message="Invalid name"), InvalidRequest, "get_database", lambda c: c.get_database("d")),
    (
        AlreadyExistsException(message="m"),
        AlreadyExists,
        "create_database",
        lambda c: c.create_database(Database(name="d")),
    ),
    (
        InvalidObjectException(message="m"),
        InvalidRequest,
        "create_database",
        lambda c: c.create_database(Database(name="d")),
    ),
    (NoSuchTxnException(message="m"), TxnNotOpen, "commit_txn", lambda c: c.commit_txn(1)),
    (TxnAbortedException(message="m"), TxnNotOpen, "commit_txn", lambda c: c.commit_txn(1)),
]


@pytest.mark.parametrize(("refusal", "expected", "name", "call"), DECLARED_REFUSALS)
def test_a_declared_exception_keeps_its_class_and_message_in_the_context(
    server: FakeMetastore,
    client: WritingMetastore,
    refusal: HiveException,
    expected: type[TidelineError],
    name: str,
    call: Callable[[WritingMetastore], object],
) -> None:
    server.will(name, refuses(refusal))
    with pytest.raises(TidelineError) as refused:
        call(client)
    assert type(refused.value) is expected
    assert refused.value.context["hive"] == type(refusal).__name__
    assert refused.value.context["reason"] == refusal.message
    client.current_event_id()
    assert server.calls.count("getVersion") == 1  # the connection is still good


@pytest.mark.parametrize(
    "message",
    [
        "javax.jdo.JDODataStoreException: Communications link failure",
        "Exception rolling back to savepoint rollback_46",
        "java.io.IOException: no space",
        "Failed to execute function: com.mysql.cj.jdbc.exceptions.CommunicationsException",
        "Failed to execute function: Deadlock found when trying to get lock; the table already exists",
        "Timeout when executing method: get_partitions_by_names_req; 600005ms exceeds 600000ms",
        (
            "Got exception: org.apache.hadoop.security.AccessControlException Permission denied: user=hive, "
            "access=WRITE"
        ),
        "something that no version of Hive was known to say",
    ],
)
def test_a_failure_of_the_metastores_own_database_is_a_server_fault(
    server: FakeMetastore, client: WritingMetastore, message: str
) -> None:
    server.will("create_database", refuses(MetaException(message=message)))
    with pytest.raises(ServerFault) as fault:
        client.create_database(Database(name="d"))
    assert fault.value.context["reason"] == message


STANDBY = "Operation category READ is not supported in state standby. Visit https://s.apache.org/sbnn-error"
SAFE_MODE = (
    "Cannot create directory /w/t. Name node is in safe mode. It cannot be left before blocks are reported."
)


@pytest.mark.parametrize(
    "failure",
    [
        MetaException(message=f"Got exception: org.apache.hadoop.ipc.RemoteException {STANDBY}"),
        MetaException(message=f"Unable to create path: {SAFE_MODE}"),
        MetaException(
            message="Got exception: java.net.ConnectException Call From a to b failed: host not found"
        ),
        InvalidOperationException(message="Unable to access new location hdfs://nn/w/t for table d.t"),
        InvalidOperationException(
            message="Alter Table operation for d.t failed to move data due to: 'Call From a to b failed on "
            "connection exception'"
        ),
    ],
)
def test_a_failure_of_the_file_system_behind_the_metastore_is_a_server_fault(failure: HiveException) -> None:
    error = to_tideline_error(failure, "alter_table", "host:9083")
    assert isinstance(error, ServerFault)
    assert error.context["reason"] == failure.message


def test_a_missing_table_that_hive_4_0_calls_invalid_is_not_found() -> None:
    missing = InvalidObjectException(message="hive.sales.orders table not found")
    assert isinstance(to_tideline_error(missing, "get_partitions_by_names_req", "host:9083"), NotFound)
    invalid = InvalidObjectException(message="orders is not a valid object name")
    assert isinstance(to_tideline_error(invalid, "create_table", "host:9083"), InvalidRequest)


def test_an_operation_that_hive_rejects_is_not_a_server_fault() -> None:
    rejected = InvalidOperationException(message="New location for this table d.t already exists : /w/t")
    assert isinstance(to_tideline_error(rejected, "alter_table", "host:9083"), InvalidRequest)


def test_an_answer_over_the_limit_is_refused(server: FakeMetastore, connect: Connect) -> None:
    client = connect(server.uri, timeout_s=5, reply_bytes_max=2000)
    server.will("get_database", returns(Database(name="d" * 3000)))
    with pytest.raises(LimitExceeded) as refused:
        client.get_database("d")
    assert refused.value.context["limit"] == 2000
    server.will("get_database", returns(Database(name="d", parameters={f"{n:0400}": "" for n in range(20)})))
    with pytest.raises(LimitExceeded):
        client.get_database("d")
    assert client.current_event_id() == 7


def test_an_answer_that_announces_a_huge_list_is_refused_before_memory_is_allocated(
    server: FakeMetastore, connect: Connect
) -> None:
    client = connect(server.uri, timeout_s=5, reply_bytes_max=10_000)
    claim = b"\x80\x01\x00\x02" + b"\x00\x00\x00\x01" + b"x" + b"\x00\x00\x00\x00"
    body = b"\x0c\x00\x00" + b"\x0f\x00\x01\x0c\x7f\xff\xff\xff"
    server.will("get_next_notification", says(claim + body))
    with pytest.raises(LimitExceeded):
        client.next_events(0, 10)


def test_a_request_that_cannot_be_serialized_is_refused_and_the_connection_stays_usable(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    for bad in (Database(name="d", createTime=2**40), Database(name=5), Database(name="\ud800")):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest):
            client.create_database(bad)
    assert "create_database" not in server.calls
    assert client.current_event_id() == 7


# --- addresses ---


def closed_port() -> str:
    with FakeMetastore() as gone:
        return gone.uri


def test_the_next_address_is_tried_if_one_is_down(server: FakeMetastore, connect: Connect) -> None:
    client = connect(closed_port(), server.uri)
    assert client.current_event_id() == 7


def test_the_error_names_all_addresses_if_none_answers() -> None:
    down = [closed_port(), closed_port()]
    with pytest.raises(MetastoreUnavailable) as unavailable:
        WritingMetastore(down, timeout_s=5).current_event_id()
    assert set(down) == set(unavailable.value.context["addresses"])  # type: ignore[call-overload]


def test_a_broken_connection_moves_on_to_the_next_address_and_stays_there(
    server: FakeMetastore, connect: Connect
) -> None:
    with FakeMetastore() as other:
        client = connect(server.uri, other.uri)
        client.current_event_id()
        server.will(ID, hangs_up)
        client.current_event_id()
        client.current_event_id()
        assert other.calls.count(ID) == 2


def test_a_metastore_that_is_restarted_is_used_again(server: FakeMetastore, client: WritingMetastore) -> None:
    client.current_event_id()
    server.will("getVersion", hangs_up)
    server.forget_connections()
    assert client.current_event_id() == 7


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "http://host:1",
        "thrift://",
        "thrift://host:port",
        "thrift:/host",
        "thrift://host/path",
        "thrift://host:99999",
    ],
)
def test_an_address_of_another_form_is_a_configuration_error(uri: str) -> None:
    with pytest.raises(ConfigError):
        WritingMetastore([uri])


def test_addresses_may_be_a_comma_separated_list_without_scheme_and_port() -> None:
    client = WritingMetastore("thrift://a:1,thrift://b")
    assert [str(address) for address in client.addresses] == ["thrift://a:1", "thrift://b:9083"]
    with pytest.raises(ConfigError):
        WritingMetastore([])


def test_a_clone_has_the_same_settings_and_its_own_connection(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    client.current_event_id()
    with client.clone() as twin:
        assert twin.options == client.options
        twin.current_event_id()
    assert len(server.connections) == 2
    client.current_event_id()
    assert len(server.connections) == 2


# --- replayed transactions ---


def test_an_open_that_does_not_return_exactly_one_transaction_is_a_divergence(
    server: FakeMetastore, client: WritingMetastore
) -> None:
    for ids in ([], [1, 2]):
        server.will("open_txns", returns(OpenTxnsResponse(txn_ids=ids)))
        with pytest.raises(TargetDiverged):
            client.open_replayed("p.*", 5)


# --- partitions and constraints ---


@pytest.mark.parametrize(("if_not_exists", "calls"), [(True, 2), (False, 1)])
def test_partitions_that_may_exist_are_added_in_batches_and_new_ones_in_one_call(
    server: FakeMetastore, client: WritingMetastore, calls: int, *, if_not_exists: bool
) -> None:
    server.will("add_partitions_req", *[returns(AddPartitionsResult())] * calls)
    partition = Partition(values=["1"], dbName="d", tableName="t", sd=StorageDescriptor())
    client.add_partitions("d", "t", [partition] * (BATCH + 1), if_not_exists=if_not_exists)
    assert server.calls.count("add_partitions_req") == calls


@pytest.mark.parametrize(("present", "error"), [("other", NotFound), ("pk", ServerFault)])
def test_an_internal_error_at_a_drop_of_a_constraint_means_not_found_only_if_it_is_missing(
    server: FakeMetastore, client: WritingMetastore, present: str, error: type[TidelineError]
) -> None:
    server.will("drop_constraint", fails())
    for kind in CONSTRAINT_KINDS:
        columns = [SQLPrimaryKey(pk_name=present)] if kind is PRIMARY_KEY else []
        call = "get_" + re.sub(r"(?<!^)(?=[A-Z])", "_", kind.hive_name).lower() + "s"
        server.will(call, returns(kind.list_response(**{kind.list_field: columns})))
    with pytest.raises(error):
        client.drop_constraint("d", "t", "pk")
