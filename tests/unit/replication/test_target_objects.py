from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.effects.databases import apply_database_changes, to_target_database
from handlers.replication.policy import Policy
from handlers.replication.target_objects import (
    escape_path_name,
    format_partition_name,
    map_external_location,
    map_partition_location,
    owns_data,
    place_below,
    to_target_table,
)
from handlers.structs.objects import Database
from state.errors import UnsafePath
from tests.builders.replication.replay_events import a_table


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r", external_base="hdfs://dr/replica/")


def test_a_table_on_the_target_has_no_ids_that_only_the_source_can_assign() -> None:
    shaped = to_target_table(
        a_table(id=7, txnId=9, catName="hive", accessType=8), POLICY, "file:/target/orders"
    )
    assert (shaped.id, shaped.txnId, shaped.catName, shaped.accessType) == (None, None, None, None)
    assert shaped.dbName == "shop_r"
    assert shaped.sd is not None
    assert shaped.sd.location == "file:/target/orders"


def test_a_view_reads_from_the_replica() -> None:
    view = a_table("v", kind="VIRTUAL_VIEW", viewExpandedText="select `o`.`id` from `shop`.`orders` `o`")
    assert (
        to_target_table(view, POLICY, None).viewExpandedText == "select `o`.`id` from `shop_r`.`orders` `o`"
    )


def test_an_external_location_is_mapped_below_the_base_without_the_sources_host() -> None:
    assert map_external_location("hdfs://source:8020/data/x", POLICY) == "hdfs://dr/replica/data/x"
    assert map_external_location("file:/data/x/", POLICY) == "hdfs://dr/replica/data/x"


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("hdfs://dr/tmp", "hdfs://dr/tmp/abc/xyz"),
        ("hdfs://dr/", "hdfs://dr/abc/xyz"),
        ("hdfs://dr/tmp/", "hdfs://dr/tmp/abc/xyz"),
        ("hdfs://dr/tmp/tmp1//", "hdfs://dr/tmp/tmp1/abc/xyz"),
        ("file:/", "file:/abc/xyz"),
    ],
)
def test_bases_are_normalized_as_in_hives_own_replication(base: str, expected: str) -> None:
    assert place_below(base, "hdfs://source:8020/abc/xyz") == expected


def test_without_a_base_the_target_chooses_the_location() -> None:
    assert map_external_location("hdfs://source/data/x", Policy("p", "a", "b")) is None


def test_a_new_database_is_marked_as_a_replica_without_the_sources_marks() -> None:
    source = Database(
        name="shop", description="d", parameters={"repl.source.for": "x", "team": "a", "repl.last.id": "9"}
    )
    assert to_target_database(source, POLICY).parameters == {"team": "a", "repl.target.for": "true"}


def test_an_altered_database_keeps_its_replication_parameters() -> None:
    target = Database(name="shop_r", parameters={"repl.last.id": "12", "repl.target.for": "true", "old": "1"})
    changed = apply_database_changes(
        Database(name="shop", parameters={"team": "b", "repl.source.for": "x"}), target
    )
    assert changed.parameters == {"repl.last.id": "12", "repl.target.for": "true", "team": "b"}


@pytest.mark.parametrize(
    ("kind", "parameters", "expected"),
    [
        ("MANAGED_TABLE", {}, True),
        ("EXTERNAL_TABLE", {}, False),
        ("EXTERNAL_TABLE", {"external.table.purge": "TRUE"}, True),
    ],
)
def test_data_is_dropped_with_a_table_only_if_hive_owns_it(
    kind: str, parameters: dict[str, str], expected: bool
) -> None:
    assert owns_data(a_table(kind=kind, parameters=parameters)) is expected


def test_partition_names_are_escaped_as_hive_does() -> None:
    assert (
        format_partition_name(["dt", "Hr"], ["2024-01-01 10:00", "a/b=c%"])
        == "dt=2024-01-01 10%3A00/hr=a%2Fb%3Dc%25"
    )
    assert escape_path_name("") == "__HIVE_DEFAULT_PARTITION__"


@given(st.text(max_size=30))
def test_an_escaped_path_component_contains_no_separator(text: str) -> None:
    assert not set(escape_path_name(text)) & set("/=:\\\n")


@pytest.mark.parametrize(
    "location", ["hdfs://s/../user/x", "hdfs://s/a/%2e%2e/x", "relative/x", "hdfs://s/a\x00b"]
)
def test_an_external_location_that_could_lead_outside_the_base_is_refused(location: str) -> None:
    with pytest.raises(UnsafePath):
        map_external_location(location, POLICY)


BELOW = Policy(name="shop", source_db="shop", target_db="shop_r")
PLAIN_OWNER = a_table(location="file:/target/t", parameters={}, kind="EXTERNAL_TABLE")


@pytest.mark.parametrize("name", ["dt=1", "dt=0"], ids=["default", "renamed without its directory"])
def test_a_partition_below_its_table_has_the_same_relative_path_on_the_target(name: str) -> None:
    located = map_partition_location(f"hdfs://nn/w/t/{name}", "hdfs://nn/w/t/", "dt=1", PLAIN_OWNER, BELOW)
    assert located == f"file:/target/t/{name}"


@pytest.mark.parametrize("location", ["hdfs://nn/w/t2/dt=1", "hdfs://nn/w/t", "file:/x"])
def test_any_other_partition_has_a_hidden_directory_of_its_own(location: str) -> None:
    located = map_partition_location(location, "hdfs://nn/w/t", "dt=1", PLAIN_OWNER, BELOW)
    again = map_partition_location(f"{location}/", "hdfs://nn/w/t/", "dt=1", PLAIN_OWNER, BELOW)
    assert located == again
    assert located is not None
    assert re.fullmatch("file:/target/t/_at_[0-9a-f]{16}/dt=1", located)


def test_partitions_of_transactional_tables_are_placed_by_the_target() -> None:
    assert map_partition_location("hdfs://nn/w/x", "hdfs://nn/w/t", "dt=1", a_table(), BELOW) is None
