"""Which files of a write event are those of its partition."""

from __future__ import annotations

import pytest

from handlers.decoding.limits import DEFAULT_LIMITS
from handlers.decoding.written_files import read_written_files
from handlers.structs import tjson
from handlers.structs.objects import Partition, StorageDescriptor
from state.errors import MalformedEvent


TABLE = "hdfs://nn:8020/w/t"
DELTA = "delta_0000001_0000001_0000"


def entry(directory: str) -> str:
    return f"{directory}/{DELTA}/bucket_00000#9a#hdfs://nn:8020/cm#{DELTA}"


def partition_at(location: str) -> str:
    return tjson.encode(
        Partition(values=["1"], dbName="sales", tableName="t", sd=StorageDescriptor(location=location))
    )


def read(name: str, text: str | None, *directories: str) -> list[str]:
    files, entries = read_written_files(
        tuple(entry(each) for each in directories), name, text, DEFAULT_LIMITS
    )
    assert [file.uri for file in files] == [each.split("#")[0] for each in entries]
    return [file.uri.removesuffix(f"/{DELTA}/bucket_00000") for file in files]


@pytest.mark.parametrize("other", ["month=10", "month=1%3Ab", "month=1 2", "month=11/day=1"])
def test_files_of_a_partition_whose_name_continues_that_of_the_partition_are_left_out(other: str) -> None:
    own = f"{TABLE}/month=1"
    assert read("month=1", partition_at(own), own, f"{TABLE}/{other}") == [own]


def test_a_part_with_files_of_other_partitions_only_has_no_files() -> None:
    assert read("month=1", partition_at(f"{TABLE}/month=1"), f"{TABLE}/month=10") == []


def test_files_of_a_partition_in_a_directory_of_another_name_are_kept() -> None:
    text = partition_at("hdfs://nn:8020/elsewhere/first/")
    own, other = "hdfs://nn:8020/elsewhere/first", "hdfs://nn:8020/elsewhere/first2"
    assert read("month=1", text, own, other) == [own]


def test_locations_with_and_without_an_authority_are_compared_by_their_paths() -> None:
    own = f"{TABLE}/month=1"
    assert read("month=1", partition_at("/w/t/month=1"), own, f"{TABLE}/month=10") == [own]


@pytest.mark.parametrize("text", [None, partition_at(f"{TABLE}/month=1")])
def test_files_in_any_other_directory_are_kept(text: str | None) -> None:
    moved = f"{TABLE}/moved"
    assert read("month=1", text, moved) == [moved]


def test_a_file_outside_of_its_acid_directory_belongs_to_the_directory_that_contains_it() -> None:
    own, other = (f"{TABLE}/{name}/000000_0###{DELTA}" for name in ("month=1", "month=10"))
    files, _ = read_written_files((own, other), "month=1", partition_at(f"{TABLE}/month=1"), DEFAULT_LIMITS)
    assert [file.uri for file in files] == [f"{TABLE}/month=1/000000_0"]


def test_a_table_without_partitions_keeps_all_files() -> None:
    assert read("", None, TABLE, f"{TABLE}2") == [TABLE, f"{TABLE}2"]


def test_an_unreadable_partition_object_is_reported_only_if_it_is_needed() -> None:
    assert read("month=1", "{", f"{TABLE}/month=1") == [f"{TABLE}/month=1"]
    with pytest.raises(MalformedEvent):
        read("month=1", "{", f"{TABLE}/month=10")
