"""One client for five Hive versions: the calls that each gets, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from dev.fixtures.hive_tables import a_partition, a_table, whole_number_statistics
from dev.fixtures.writing_client import WritingMetastore
from handlers.metastore.calls import V2_3, V3_1, V4_2, HiveVersion, parse_hive_version
from handlers.structs.notifications import FireEventResponse, InsertEventRequestData
from handlers.structs.transactions import (
    GetOpenTxnsInfoResponse,
    GetValidWriteIdsResponse,
    TableValidWriteIds,
)
from state.errors import ServerFault, Unsupported
from tests.builders.metastore.fake_metastore import UNKNOWN_METHOD, FakeMetastore, fails, returns


TABLE = a_table("d", "t", partition_keys=["p"])
PARTITION = a_partition(TABLE, "1")


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ("3.0", V2_3),
        ("2.3.10", V2_3),
        ("3.0.0", HiveVersion(3, 0)),
        ("3.1.3", V3_1),
        ("3.1.3000.7.1.7.0-551", V3_1),
        ("4.0.0-beta-1", HiveVersion(4, 0)),
        ("4.2.0", V4_2),
        ("10.0", HiveVersion(10, 0)),
    ],
)
def test_the_answer_to_get_version_is_parsed_as_the_hive_version(answer: str, version: HiveVersion) -> None:
    assert parse_hive_version(answer) == version


@pytest.mark.parametrize("answer", ["", "fb303", "1.2.1", "4", "x" * 10_000])
def test_an_unknown_or_too_old_version_is_unsupported(answer: str) -> None:
    with pytest.raises(Unsupported):
        parse_hive_version(answer)


@pytest.mark.parametrize(("catalogs", "version"), [(False, V2_3), (True, V3_1)])
def test_2_3_and_3_1_answer_alike_and_are_distinguished_by_get_catalogs(
    catalogs: bool, version: HiveVersion
) -> None:
    with FakeMetastore(version="3.0", catalogs=catalogs) as server, WritingMetastore(server.uri) as client:
        assert client.hive_version == version
        assert server.calls == ["getVersion", "get_catalogs"]


def test_hive_versions_are_ordered() -> None:
    assert V2_3 < V3_1 < HiveVersion(4, 0) < V4_2 < HiveVersion(4, 10)


def test_a_call_that_the_hive_version_lacks_is_not_sent() -> None:
    with FakeMetastore(version="2.3.10") as server, WritingMetastore(server.uri) as client:
        assert client.hive_version == V2_3
        assert not client.supports("get_all_write_event_info")
        assert client.supports("show_compact")
        with pytest.raises(Unsupported) as refused:
            client.write_events(1)
        assert refused.value.context["call"] == "get_all_write_event_info"
        assert refused.value.context["hive_version"] == "2.3"
        assert server.calls == ["getVersion"]


def test_write_events_are_queried_of_3_1_too_because_vendors_have_added_the_call() -> None:
    with FakeMetastore(version="3.1.3") as server, WritingMetastore(server.uri) as client:
        server.will("get_all_write_event_info", fails(UNKNOWN_METHOD))
        with pytest.raises(Unsupported):
            client.write_events(1)
        server.will("get_all_write_event_info", returns([]))
        assert client.write_events(1) == []


def test_the_highest_write_id_of_3_1_is_the_mark_of_its_list() -> None:
    """Hive 3.1 has no call for it, and never cuts the list (reference: hive-3.1-source.md §2)."""
    state = TableValidWriteIds(
        fullTableName="d.t",
        writeIdHighWaterMark=7,
        invalidWriteIds=[7],
        minOpenWriteId=None,
        abortedBits=b"\1",
    )
    with FakeMetastore(version="3.1.3") as server, WritingMetastore(server.uri) as client:
        server.will("get_max_allocated_table_write_id", fails(UNKNOWN_METHOD))
        server.will(
            "get_open_txns_info", returns(GetOpenTxnsInfoResponse(txn_high_water_mark=9, open_txns=[]))
        )
        server.will("get_valid_write_ids", returns(GetValidWriteIdsResponse(tblValidWriteIds=[state])))
        assert client.highest_write_id("d", "t") == 7


def test_asking_for_an_undeclared_call_is_a_key_error() -> None:
    with FakeMetastore() as server, WritingMetastore(server.uri) as client, pytest.raises(KeyError):
        client.supports("no_such_call")


Use = Callable[[WritingMetastore], object]
DIALECTS: list[tuple[Use, str, str]] = [
    (lambda c: c.create_table(TABLE), "create_table_with_environment_context", "create_table_req"),
    (lambda c: c.alter_table("d", "t", TABLE), "alter_table_with_environment_context", "alter_table_req"),
    (
        lambda c: c.alter_partitions("d", "t", [PARTITION]),
        "alter_partitions_with_environment_context",
        "alter_partitions_req",
    ),
    (lambda c: c.rename_partition("d", "t", ["1"], PARTITION), "rename_partition", "rename_partition_req"),
    (
        lambda c: c.update_table_statistics(whole_number_statistics("d", "t", "id", 1)),
        "update_table_column_statistics",
        "update_table_column_statistics_req",
    ),
    (
        lambda c: c.update_partition_statistics(whole_number_statistics("d", "t", "id", 1)),
        "update_partition_column_statistics",
        "update_partition_column_statistics_req",
    ),
    (lambda c: c.truncate_table("d", "t"), "truncate_table", "truncate_table_req"),
]


@pytest.mark.parametrize(("use", "before_4", "since_4"), DIALECTS)
def test_each_hive_version_gets_its_own_form_of_a_call(use: Use, before_4: str, since_4: str) -> None:
    for version, expected in (("3.1.3", before_4), ("4.0.1", since_4)):
        with FakeMetastore(version=version) as server, WritingMetastore(server.uri) as client:
            with suppress(ServerFault):  # the fake's answer is empty; what it was asked is what counts
                use(client)
            assert server.calls == ["getVersion", expected]


WITH_WRITE_IDS: list[Use] = [
    lambda c: c.alter_table("d", "t", TABLE, write_id=1),
    lambda c: c.alter_table("d", "t", TABLE, expected=("a", "b")),
    lambda c: c.alter_partitions("d", "t", [PARTITION], valid_write_ids="d.t:1:1::"),
    lambda c: c.rename_partition("d", "t", ["1"], PARTITION, valid_write_ids="d.t:1:1::"),
    lambda c: c.truncate_table("d", "t", write_id=1),
    lambda c: c.update_table_statistics(whole_number_statistics("d", "t", "id", 1), write_id=1),
    lambda c: c.set_partition_statistics([], write_id=1),
    lambda c: c.open_replayed("p", 1),
    lambda c: c.allocate_replayed("p", "d", "t", 1, 1),
    lambda c: c.commit_replayed("p", 1, []),
    lambda c: c.abort_replayed("p", 1),
    lambda c: c.replayed_txns("p"),
]


@pytest.mark.parametrize("use", WITH_WRITE_IDS)
def test_arguments_that_only_hive_4_understands_are_never_sent_to_an_older_server(use: Use) -> None:
    with FakeMetastore(version="3.1.3") as server, WritingMetastore(server.uri) as client:
        with pytest.raises(Unsupported):
            use(client)
        assert server.calls == ["getVersion"]


def test_hive_2_gets_insert_events_in_its_own_form() -> None:
    with FakeMetastore(version="3.0") as server, WritingMetastore(server.uri) as client:
        server.will("fire_listener_event", returns(FireEventResponse()))
        written = InsertEventRequestData(filesAdded=["f"], filesAddedChecksum=["c"])
        assert client.fire_insert_event("d", "t", written) == []
        assert server.calls == ["getVersion", "get_catalogs", "fire_listener_event"]
