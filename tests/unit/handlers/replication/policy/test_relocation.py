from __future__ import annotations

import pytest

from handlers.replication.policy.locations import describe_locations, list_row_directories
from handlers.replication.policy.policy import Policy
from handlers.replication.target.objects import to_target_partition, to_target_table
from handlers.structs.objects import SkewedInfo, Table
from state.errors import UnsafePath
from tests.builders.replication.replay_events import a_table
from tests.builders.replication.spark_tables import a_spark_partition, a_spark_table, path_of


BASE = "hdfs://dr/replica"
BELOW = Policy(name="shop", source_db="shop", target_db="shop_r", external_base=BASE)
CHOSEN = Policy(name="shop", source_db="shop", target_db="shop_r")
PLACED = f"{BASE}/source/shop.db/orders"
EXTERNAL = f"{BASE}/files/orders"
PLACEHOLDER = "file:/source/shop.db/orders-__PLACEHOLDER__"


@pytest.mark.parametrize(
    "path",
    ["file:/source/shop.db/orders", "file:///source/shop.db/orders/", "/source/shop.db/orders"],
    ids=["as stored", "with three slashes", "without a scheme"],
)
@pytest.mark.parametrize(
    ("policy", "location"),
    [(BELOW, PLACED), (CHOSEN, "hdfs://dr/w/orders")],
    ids=["below the base", "chosen"],
)
def test_the_path_of_a_table_is_its_location_on_the_target(path: str, policy: Policy, location: str) -> None:
    assert path_of(to_target_table(a_spark_table(path=path), policy, location)) == location


def test_the_path_is_left_out_until_the_target_has_chosen_a_location() -> None:
    assert path_of(to_target_table(a_spark_table(), CHOSEN, None)) is None


def test_a_path_elsewhere_is_placed_below_the_base_and_left_out_without_one() -> None:
    def table() -> Table:
        return a_spark_table(location=PLACEHOLDER, path="file:/files/orders", provider="csv")

    placed = to_target_table(table(), BELOW, f"{BASE}/source/shop.db/orders-__PLACEHOLDER__")
    assert path_of(placed) == EXTERNAL
    assert list_row_directories(placed) == (EXTERNAL,)
    assert path_of(to_target_table(table(), CHOSEN, "hdfs://dr/w/orders")) is None


@pytest.mark.parametrize(
    ("policy", "root", "location"),
    [
        (BELOW, PLACED, f"{PLACED}/dt=a"),
        (CHOSEN, "hdfs://dr/w/orders", "hdfs://dr/w/orders/dt=a"),
        (BELOW, PLACED, f"{BASE}/elsewhere/a"),
    ],
    ids=["below the base", "chosen", "outside of the table"],
)
def test_the_path_of_a_partition_is_that_of_its_table(policy: Policy, root: str, location: str) -> None:
    at_source = "file:/elsewhere/a" if "elsewhere" in location else None
    partition = a_spark_partition(a_spark_table(partition_columns=("dt",)), "a", at_source)
    assert path_of(to_target_partition(partition, policy, location)) == root


def test_every_property_with_a_location_in_the_table_is_moved_and_others_stay() -> None:
    table = a_spark_table(
        options={"basePath": "file:/source/shop.db", "schemaFile": "file:/source/shop.db/orders/_schema"},
        parameters={
            "made.in": "file:/source/shop.db/orders/x",
            "origin": "s3://landing/in",
            "date.format": "/yyyy/",
        },
    )
    assert table.sd is not None
    table.sd.parameters = {"copy": "/source/shop.db/orders"}
    moved = to_target_table(table, BELOW, PLACED)
    assert moved.sd is not None
    assert moved.sd.serdeInfo is not None
    assert moved.sd.serdeInfo.parameters == {
        "serialization.format": "1",
        "path": PLACED,
        "basePath": f"{BASE}/source/shop.db",
        "schemaFile": f"{PLACED}/_schema",
    }
    assert moved.sd.parameters == {"copy": PLACED}
    assert moved.parameters is not None
    assert moved.parameters["made.in"] == f"{PLACED}/x"
    assert (moved.parameters["origin"], moved.parameters["date.format"]) == ("s3://landing/in", "/yyyy/")


def test_a_directory_beside_the_table_is_not_in_it() -> None:
    table = a_table(parameters={"beside": "file:/source/shop.db/orders_old"})
    assert to_target_table(table, BELOW, PLACED).parameters == {"beside": "file:/source/shop.db/orders_old"}


def test_a_path_that_could_lead_elsewhere_is_refused() -> None:
    with pytest.raises(UnsafePath):
        to_target_table(a_spark_table(path="file:/source/../etc"), BELOW, PLACED)


def test_a_path_that_is_no_location_stays() -> None:
    assert path_of(to_target_table(a_spark_table(path="$.id"), BELOW, PLACED)) == "$.id"


def test_directories_of_skewed_values_are_moved_if_they_are_in_the_table() -> None:
    table = a_table()
    assert table.sd is not None
    table.sd.skewedInfo = SkewedInfo(
        skewedColValueLocationMaps={
            ("7",): "hdfs://other/source/shop.db/orders/id=7",
            ("8",): "file:/elsewhere/id=8",
        }
    )
    moved = to_target_table(table, BELOW, PLACED)
    assert moved.sd is not None
    assert moved.sd.skewedInfo is not None
    assert moved.sd.skewedInfo.skewedColValueLocationMaps == {("7",): f"{PLACED}/id=7"}


@pytest.mark.parametrize(
    "path", [None, "file:/files/orders", "file:/source/shop.db", "/source/shop.db/orders/x"]
)
@pytest.mark.parametrize(
    ("policy", "location"),
    [(BELOW, PLACED), (CHOSEN, "hdfs://dr/w/orders")],
    ids=["below the base", "chosen"],
)
def test_the_description_of_a_table_is_that_of_its_copy(
    path: str | None, policy: Policy, location: str
) -> None:
    source = a_spark_table(path=path, parameters={"made.in": "file:/source/shop.db/orders/x"})
    target = to_target_table(source.copy(), policy, location)
    base = policy.external_base
    ours = describe_locations(source, base, at_source=True)
    theirs = describe_locations(target, base, at_source=False)
    assert ours.sd is not None
    assert theirs.sd is not None
    assert ours.sd.serdeInfo == theirs.sd.serdeInfo
    assert ours.parameters == theirs.parameters
    if path is None:
        assert target.sd is not None
        assert target.sd.serdeInfo is not None
        target.sd.serdeInfo.parameters = {"path": "file:/source/shop.db/orders"}
        wrong = describe_locations(target, base, at_source=False)
        assert wrong.sd is not None
        assert wrong.sd.serdeInfo != ours.sd.serdeInfo, "a path of the source is a difference"
