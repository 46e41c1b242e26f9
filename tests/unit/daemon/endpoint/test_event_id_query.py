"""The query for the newest event id, against scripted bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.endpoint.freshness.event_id_query import EventIdQuery
from daemon.endpoint.protocol.wire import Value, struct_value, write_struct
from daemon.endpoint.settings import EndpointSettings
from handlers.metastore.addresses import Address
from state.errors import BadInput, MetastoreUnavailable
from tests.builders.metastore.raw_metastore import Last, RawMetastore, closed_port, reply, unknown_method


NAME = "get_current_notificationEventId"
SETTINGS = EndpointSettings(metastores=())


def newest(event_id: int) -> bytes:
    value = Value(10, event_id.to_bytes(8))
    return reply(NAME, write_struct([(0, struct_value([(1, value)]))]), sequence=1)


def query_of(port: int) -> EventIdQuery:
    return EventIdQuery(replace(SETTINGS, metastores=(Address("127.0.0.1", port),)))


def ask(query: EventIdQuery) -> int:
    query.send()
    return query.receive()


def test_one_connection_serves_many_queries_and_is_opened_again_where_the_metastore_closed_it() -> None:
    with RawMetastore() as metastore:
        metastore.will(NAME, newest(5), newest(2**40), Last(newest(7)), newest(8))
        query = query_of(metastore.port)
        assert [ask(query) for _ in range(4)] == [5, 2**40, 7, 8]
        query.close()


def test_an_answer_with_further_fields_is_read_as_well() -> None:
    value = Value(10, (5).to_bytes(8))
    for fields in ([(1, value), (2, value)], [(2, value), (1, value)]):
        with RawMetastore() as metastore:
            metastore.will(NAME, reply(NAME, write_struct([(0, struct_value(fields))]), sequence=1))
            query = query_of(metastore.port)
            assert ask(query) == 5
            query.close()


def test_anything_but_an_event_id_is_refused() -> None:
    with RawMetastore() as metastore:
        metastore.will(NAME, reply(NAME, sequence=1), unknown_method(NAME, sequence=1))
        query = query_of(metastore.port)
        for _ in range(2):
            with pytest.raises(BadInput, match="newest event id"):
                ask(query)
        query.close()


def test_a_metastore_that_is_down_is_reported() -> None:
    with pytest.raises(MetastoreUnavailable):
        query_of(closed_port()).send()
