"""What the HBase store relies on, as tests: they run against HBase and against the fake, so the fake may
replace it."""

from __future__ import annotations

from handlers.hbase import layout
from handlers.hbase.gateway import Gateway
from handlers.hbase.layout import KEYS_ONLY


AWKWARD = [b"\x00", b"\x00\x00", b"'", b"''", b"a", b"a\x00", b"a\xff", b"\xe6\x97\xa5", b"\xff", b"\xff\xff"]
EVERYTHING = (b"\x00", b"\xff" * 9)


def put(gateway: Gateway, row: bytes, value: bytes, version: int) -> None:
    gateway.put({row: {b"p:v": value}}, version)


def value_of(gateway: Gateway, row: bytes) -> bytes | None:
    found = gateway.rows([row], [b"p:v"]).get(row)
    return None if found is None else found.cells[b"p:v"]


class GatewayContract:
    """The subclass provides the fixture ``gateway``: an empty table."""

    def test_rows_come_in_the_order_of_their_bytes_whatever_these_are(self, gateway: Gateway) -> None:
        gateway.put({row: {b"p:v": b"=" + row} for row in reversed(AWKWARD)}, 1)
        found = gateway.scan(EVERYTHING, [b"p:v"], 100)
        assert [each.row for each in found] == sorted(AWKWARD)
        assert all(each.cells == {b"p:v": b"=" + each.row} for each in found)

    def test_a_scan_ends_before_its_end_and_at_its_limit(self, gateway: Gateway) -> None:
        gateway.put({b"%d" % number: {b"p:v": b""} for number in range(9)}, 1)
        assert [each.row for each in gateway.scan((b"2", b"5"), [b"p:v"], 100)] == [b"2", b"3", b"4"]
        assert [each.row for each in gateway.scan((b"2", b"5"), [b"p:v"], 2)] == [b"2", b"3"]
        assert gateway.scan((b"22", b"3"), [b"p:v"], 2) == []

    def test_only_the_cells_that_are_asked_for_come_and_rows_without_them_do_not(
        self, gateway: Gateway
    ) -> None:
        gateway.put({b"a": {b"p:v": b"1", b"p:0": b"2"}, b"b": {b"p:v": b"3"}, b"c": {b"p:1": b"4"}}, 1)
        assert [each.cells for each in gateway.scan(EVERYTHING, [b"p:0"], 9)] == [{b"p:0": b"2"}]
        assert set(gateway.rows([b"a", b"b", b"c", b"d"], [b"p:v"])) == {b"a", b"b"}
        assert gateway.rows([b"a"], [b"p"])[b"a"].cells == {b"p:v": b"1", b"p:0": b"2"}
        assert gateway.rows([b"c"], [b"p"])[b"c"].cells == {b"p:1": b"4"}

    def test_keys_come_with_their_versions_and_without_values(self, gateway: Gateway) -> None:
        put(gateway, b"a", b"long", 7)
        (found,) = gateway.scan(EVERYTHING, [b"p:v"], 9, KEYS_ONLY)
        assert (found.row, found.cells, found.version) == (b"a", {b"p:v": b""}, 7)

    def test_the_highest_version_counts_whenever_it_was_written(self, gateway: Gateway) -> None:
        put(gateway, b"a", b"new", 5)
        put(gateway, b"a", b"late", 4)
        put(gateway, b"a", b"new", 5)
        assert value_of(gateway, b"a") == b"new"

    def test_a_deletion_takes_versions_up_to_its_own_and_no_later_ones(self, gateway: Gateway) -> None:
        put(gateway, b"a", b"old", 5)
        put(gateway, b"b", b"new", 7)
        gateway.delete([b"a", b"b", b"never"], 6)
        put(gateway, b"a", b"late", 6)
        assert value_of(gateway, b"a") is None
        assert value_of(gateway, b"b") == b"new"
        put(gateway, b"a", b"again", 7)
        assert value_of(gateway, b"a") == b"again"

    def test_a_deletion_takes_all_cells_of_a_row(self, gateway: Gateway) -> None:
        gateway.put({b"a": {b"p:v": b"1", b"p:3": b"2"}, b"b": {b"p:v": b"3"}}, 1)
        gateway.delete([b"a"], 1)
        assert set(gateway.rows([b"a", b"b"], [b"p"])) == {b"b"}

    def test_a_counter_adds_up(self, gateway: Gateway) -> None:
        assert gateway.add(layout.VERSIONS_ROW, layout.NEXT_VERSION, 10) == 10
        assert gateway.add(layout.VERSIONS_ROW, layout.NEXT_VERSION, 5) == 15

    def test_more_rows_than_fit_into_a_message_are_all_written_read_and_deleted(
        self, gateway: Gateway
    ) -> None:
        rows = [b"%05d" % number for number in range(2500)]
        gateway.put({row: {b"p:v": row} for row in rows}, 1)
        assert len(gateway.rows(rows, [b"p:v"])) == 2500
        assert [each.row for each in gateway.scan(EVERYTHING, [b"p:v"], 5000)] == rows
        gateway.delete(rows[1:], 2)
        assert [each.row for each in gateway.scan(EVERYTHING, [b"p:v"], 5000)] == rows[:1]

    def test_a_value_of_megabytes_comes_back_whole(self, gateway: Gateway) -> None:
        put(gateway, b"a", b"x" * (8 << 20), 1)
        assert len(value_of(gateway, b"a") or b"") == 8 << 20
