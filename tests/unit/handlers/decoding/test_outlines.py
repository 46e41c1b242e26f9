"""An outline of a partition has the fields of the whole one, in both forms of messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.decoding.apiary import read_partition
from handlers.decoding.catalog_events import read_partitions
from handlers.decoding.fields import Fields
from handlers.decoding.messages import DEFAULT_LIMITS
from handlers.events import Embedded
from handlers.structs import tjson
from handlers.structs.objects import FieldSchema, Partition, StorageDescriptor
from state.errors import MalformedEvent


def partition_of(values: list[str], parameters: dict[str, str] | None) -> Partition:
    descriptor = StorageDescriptor(cols=[FieldSchema(name="id", type="int")], location="/w/t")
    return Partition(values=values, dbName="db", tableName="t", sd=descriptor, parameters=parameters)


values_ = st.lists(st.text(max_size=4), min_size=1, max_size=3)
parameters_ = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)


@given(values_, parameters_)
def test_an_outline_of_thrift_json_has_the_values_and_parameters(
    values: list[str], parameters: dict[str, str]
) -> None:
    embedded = from_message(tjson.encode(partition_of(values, parameters)))
    assert (embedded.outline.values, embedded.outline.parameters) == (values, parameters)
    assert (embedded.value.values, embedded.value.parameters) == (values, parameters)


@given(values_, parameters_)
def test_an_outline_of_plain_json_has_the_values_and_parameters(
    values: list[str], parameters: dict[str, str]
) -> None:
    fields: dict[str, Any] = {
        "values": values,
        "parameters": parameters,
        "dbName": "db",
        "tableName": "t",
        "sd": {},
    }
    embedded = read_partition(fields)
    assert (embedded.outline.values, embedded.outline.parameters) == (values, parameters)


def test_an_object_that_is_decoded_already_is_its_own_outline() -> None:
    embedded = from_message(tjson.encode(partition_of(["x"], None)))
    whole = embedded.value
    assert embedded.outline is whole


@pytest.mark.parametrize("text", ["{}", "[]", "?", '{"1":{"lst":["i32",1,5]}}'])
def test_an_outline_of_a_malformed_partition_is_an_error(text: str) -> None:
    with pytest.raises(MalformedEvent):
        _ = from_message(text).outline


def from_message(text: str) -> Embedded[Partition]:
    (embedded,) = read_partitions(Fields({"partitions": [text]}, DEFAULT_LIMITS), "partitions")
    return embedded
