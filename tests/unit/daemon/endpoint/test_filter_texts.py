"""The texts of filters on their way to a metastore: which clients' and which servers' are rewritten, in every
call that has one."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from daemon.endpoint.filter_texts import FilterTexts
from daemon.endpoint.metrics import EndpointMetrics
from daemon.endpoint.protocol.wire import Message, Value, read_fields
from tests.builders.endpoint.partition_requests import positional, request
from tests.builders.endpoint.scripted_metastore import SettingsOnly


STARTS, TRANSLATED = 'ds like "2024.*"', 'ds like "2024%"'
NAMES = ("db", "t")


class Connection:
    """What reaches the metastore on one connection."""

    def __init__(self, version: str = "4.2.0") -> None:
        self.registry = CollectorRegistry()
        self.metastore = SettingsOnly(version)
        self.texts = FilterTexts(EndpointMetrics(self.registry))

    def forward(self, message: Message) -> Message:
        """Return the message that is forwarded."""
        return self.texts.order(self.texts.translate(message, self.metastore), self.metastore)

    def filter(self, text: str, limit: int = -1) -> str:
        """Return a filter as the metastore receives it."""
        return text_of(self.forward(positional("get_partitions_by_filter", *NAMES, text, limit)))


def text_of(message: Message) -> str:
    return read_fields(message.body)[3].to_text()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("get_partitions_by_filter", (5,)),
        ("get_num_partitions_by_filter", ()),
        ("get_part_specs_by_filter", (-1,)),
    ],
)
def test_every_call_with_a_filter_is_translated_and_nothing_else_of_it_changes(
    name: str, more: tuple[Any, ...]
) -> None:
    connection, message = Connection(), positional(name, *NAMES, STARTS, *more)
    sent = connection.forward(message)
    assert text_of(sent) == TRANSLATED
    assert sent.header == message.header
    assert {**read_fields(sent.body), 3: None} == {**read_fields(message.body), 3: None}
    counted = connection.registry.get_sample_value(
        "tideline_endpoint_filters_rewritten_total", {"call": name}
    )
    assert counted == 1


@pytest.mark.parametrize("version", ["3.0", "not a version"])
def test_a_metastore_that_reads_the_patterns_of_old_clients_receives_them_unchanged(version: str) -> None:
    connection = Connection(version)
    for text in (STARTS, "ds != 'x_y'", "hr = 7", 'date = "x"'):
        message = positional("get_partitions_by_filter", *NAMES, text, -1)
        assert connection.forward(message) is message
    assert connection.metastore.calls == ["getVersion"]


def test_a_filter_that_needs_no_change_is_not_a_reason_to_ask_the_metastore() -> None:
    connection = Connection()
    for message in (
        positional("get_partitions_by_filter", *NAMES, "ds = 'a'", -1),
        positional("get_table", *NAMES),
    ):
        assert connection.forward(message) is message
    assert connection.metastore.calls == []


@pytest.mark.parametrize(
    "evidence",
    [
        request("get_table_req", {1: "db", 2: "t", 10: "hive"}),
        request("get_partitions_by_filter_req", {2: "db", 3: "t", 4: ""}),
    ],
)
def test_patterns_of_a_client_of_hive_4_are_its_own(evidence: Message) -> None:
    connection = Connection()
    connection.forward(evidence)
    assert connection.filter(STARTS) == STARTS
    assert connection.filter("s != 'x_y'") != "s != 'x_y'"


@pytest.mark.parametrize("evidence", [positional("get_table", *NAMES), positional("get_indexes", *NAMES, -1)])
def test_a_client_that_makes_a_dropped_call_means_a_dot_as_any_character(evidence: Message) -> None:
    connection = Connection()
    assert connection.filter("s like 'a.c'") == "s like 'a.c'"
    connection.forward(request("get_table_req", {1: "db", 2: "t", 3: "HIVEBUCKET2", 4: "hive"}))
    connection.forward(evidence)
    assert connection.filter("s like 'a.c'") == '(s like "a_c" or s like "a.c")'


def test_the_filter_of_a_request_of_hive_4_loses_no_partition() -> None:
    message = request("get_partitions_by_filter_req", {1: "hive", 2: "db", 3: "t", 4: "hr = 7", 5: -1})
    sent = read_fields(read_fields(Connection().forward(message).body)[1].data)
    assert sent[4].to_text() == "(hr >= 7 and hr <= 7)"
    assert sent.keys() == {1, 2, 3, 4, 5}


def test_a_long_filter_is_widened_only_for_a_client_that_receives_all_that_match() -> None:
    text = f"(s) not in ('x_y', {', '.join(map(repr, map(str, range(100))))})"
    connection = Connection()
    assert connection.filter(text, -1).endswith('or s like "% ")')
    assert connection.filter(text, 10) == text
    message = positional("get_num_partitions_by_filter", *NAMES, text)
    assert connection.forward(message) is message


def test_arguments_that_cannot_be_read_are_left_to_the_metastore() -> None:
    broken = positional("get_partitions_by_filter", "db", "t", Value(8, b"\x00\x00\x00\x01"), -1)  # type: ignore[arg-type]
    for message in (
        broken,
        positional("get_partitions_by_filter_req", "db"),
        positional("get_partitions_by_filter", "db", "t", None, -1),
    ):
        assert Connection().forward(message) is message
