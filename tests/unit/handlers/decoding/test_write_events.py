"""Which files of a write event are those of its partition."""

from __future__ import annotations

import pytest

from handlers.decoding.messages import DEFAULT_LIMITS
from handlers.decoding.write_events import read_written_files
from handlers.structs import tjson
from handlers.structs.objects import Partition, StorageDescriptor, Table
from state.errors import MalformedEvent


TABLE = "hdfs://nn:8020/w/t"
DELTA = "delta_0000001_0000001_0000"


def entry(directory: str, acid: str = DELTA) -> str:
    return f"{directory}/{acid}/bucket_00000#9a#hdfs://nn:8020/cm#{acid}"


def partition_at(location: str) -> str:
    return tjson.encode(
        Partition(values=["1"], dbName="sales", tableName="t", sd=StorageDescriptor(location=location))
    )


def table_at(location: str) -> str:
    return tjson.encode(Table(dbName="sales", tableName="t", sd=StorageDescriptor(location=location)))


def read_entries(name: str, text: str | None, *entries: str, write_id: int = 1) -> list[str]:
    owner = (Partition if name else Table, text)
    files, kept = read_written_files(
        entries, write_id=write_id, partition_name=name, owner=owner, limits=DEFAULT_LIMITS
    )
    assert [file.uri for file in files] == [each.split("#")[0] for each in kept]
    return [file.uri for file in files]


def read(name: str, text: str | None, *directories: str) -> list[str]:
    uris = read_entries(name, text, *map(entry, directories))
    return [uri.removesuffix(f"/{DELTA}/bucket_00000") for uri in uris]


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
    found = read_entries("month=1", partition_at(f"{TABLE}/month=1"), own, other)
    assert found == [f"{TABLE}/month=1/000000_0"]


@pytest.mark.parametrize(
    "foreign",
    ["delta_0000007_0000007_0000", "delete_delta_0000003_0000003", "base_0000027", "base_0000027_v0000099"],
)
def test_files_of_other_writes_are_left_out(foreign: str) -> None:
    found = read_entries("", table_at(TABLE), entry(TABLE), entry(TABLE, foreign))
    assert found == [f"{TABLE}/{DELTA}/bucket_00000"]


@pytest.mark.parametrize(
    "own",
    ["delta_0000001_0000001_0004", "delete_delta_0000001_0000001", "base_0000001", "delta_0000001_0000010"],
)
def test_all_directories_of_a_write_are_read_also_those_of_several_transactions_of_a_stream(own: str) -> None:
    assert len(read_entries("", table_at(TABLE), entry(TABLE, own))) == 1


@pytest.mark.parametrize("where", ["", "/dt=1", "/delta_0000001_0000001_0000"])
def test_a_malformed_acid_directory_is_kept_and_refused_where_it_would_be_copied_to(where: str) -> None:
    assert len(read_entries("", table_at(TABLE), entry(TABLE + where, "delta_x"))) == (where != "/dt=1")


@pytest.mark.parametrize("location", [TABLE, f"{TABLE}/", "/w/t"])
def test_files_in_partitions_that_a_table_without_partitions_does_not_have_are_left_out(
    location: str,
) -> None:
    assert read("", table_at(location), TABLE, f"{TABLE}/dt=a", f"{TABLE}/dt=a/hh=1") == [TABLE]
    assert read("", table_at(location), f"{TABLE}/dt=a") == []


def test_directories_of_a_union_within_an_acid_directory_are_kept() -> None:
    union = f"{TABLE}/{DELTA}/HIVE_UNION_SUBDIR_1/000000_0#9a#hdfs://nn:8020/cm#"
    whole = f"{union}{DELTA}/HIVE_UNION_SUBDIR_1"
    assert len(read_entries("", table_at(TABLE), whole, f"{union}HIVE_UNION_SUBDIR_1", union)) == 3


def test_a_table_without_partitions_keeps_all_files() -> None:
    assert read("", None, TABLE, f"{TABLE}2") == [TABLE, f"{TABLE}2"]


def test_an_unreadable_partition_object_is_reported_only_if_it_is_needed() -> None:
    assert read("month=1", "{", f"{TABLE}/month=1") == [f"{TABLE}/month=1"]
    with pytest.raises(MalformedEvent):
        read("month=1", "{", f"{TABLE}/month=10")


@pytest.mark.parametrize("text", ["{", "{}", None])
def test_a_table_object_that_cannot_be_read_leaves_no_directory_out(text: str | None) -> None:
    assert read("", text, TABLE, f"{TABLE}/dt=a") == [TABLE, f"{TABLE}/dt=a"]
