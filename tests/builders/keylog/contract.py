"""The contract of a key log on every database: tests that a subclass runs on its own database.

Unit tests run them on SQLite, integration tests on MariaDB and PostgreSQL too.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, inspect, select, text

from state.columns.paths import KeyPath
from state.columns.types import ColumnType
from state.errors import Conflict, StateCorrupt
from streaming.keylog.database import Database, parse_address
from streaming.keylog.key_rules import KeyRule, RuleKind, read_rule_set, read_rules, remove_rule, set_rule
from streaming.keylog.log import KeyLog, RecordResult
from streaming.keylog.log_reader import (
    LogFilter,
    read_entries,
    read_last_request_days,
    read_requested_keys,
)
from streaming.keylog.migrator import VERSION_TABLE, migrate, newest_version, read_version
from streaming.keylog.records import DAY_S, KeyRequest, day_of
from streaming.keylog.retention import ROWS_PER_TRANSACTION, count_old_rows, delete_old_rows
from streaming.keylog.schema import digest, key_table, metadata, snapshot_table
from streaming.keylog.table_snapshots import (
    ColumnChange,
    TableSnapshot,
    read_changes,
    read_snapshot,
    save_snapshot,
)
from tests.builders.keylog.key_logs import FLAT, NOW_S, RAW, count_naively, key_request, open_key_log


HOSTILE = (
    KeyPath(("a\0b",)),
    KeyPath(("lone \ud800 half",)),
    KeyPath(("Ключ", "a.b", "c'd", 'e"f', "g\\h")),
    KeyPath(("fooBar",)),
    KeyPath(("foobar",)),
    KeyPath(("trailing ",)),
    KeyPath(("trailing",)),
    KeyPath(("é",)),
    KeyPath(("e\u0301",)),
    KeyPath(("\U0001f40d" * 1024,)),
    KeyPath(("x" * 1024,)),
    KeyPath(tuple("y" * 32)),
)
WRITERS, BATCHES = 4, 15
OPENERS, EMPTYINGS = 6, 8
WRITER = """
import sys
from streaming.keylog.records import KeyRequest
from state.columns.paths import KeyPath
from tests.builders.keylog.key_logs import NOW_S, RAW, open_key_log

me, batches = sys.argv[2], int(sys.argv[3])
with open_key_log(sys.argv[1]) as log:
    for batch in range(batches):
        shared = [KeyRequest(RAW, KeyPath((f"k{n}",)), "everybody", NOW_S, "f") for n in range(40)]
        own = [KeyRequest(RAW, KeyPath((f"k{n}",)), me, NOW_S, "f") for n in reversed(range(40))]
        log.record(shared + own, source="shared" if batch % 2 else me, position=None)
        log.record([], source=me, position=str(batch))
"""

MINER = """
import sys
from tests.builders.keylog.key_logs import key_request, open_key_log

with open_key_log(sys.argv[1]) as log:
    for number in range(int(log.position("s") or 0) + 1, int(sys.argv[2]) + 1):
        requests = [key_request(f"k{n}", fingerprint=str(number % 7)) for n in range(30)]
        log.record(requests, source="s", position=str(number))
        print(number, flush=True)
"""


def version_after_opening(address: str) -> str | None:
    with open_key_log(address) as log, log.database.read() as connection:
        return read_version(connection)


def make_empty(address: str) -> None:
    """Empty the database, as before it was first opened; for SQLite, remove the file."""
    url = parse_address(address)
    if url.get_backend_name() == "sqlite":
        Path(url.database or "").unlink()
        return
    database = Database(address)
    with database.read() as connection:
        found = MetaData()
        found.reflect(connection)
        found.drop_all(connection)
    database.close()


def names_of(log: KeyLog, column: Column[str]) -> list[str]:
    """The distinct values of a column, sorted."""
    with log.database.read() as connection:
        return sorted(connection.scalars(select(column).distinct()))


class KeyLogContract:
    """Every test gets ``address``: the URL of an empty database, with its password."""

    def test_recorded_requests_are_read_back(self, address: str) -> None:
        with open_key_log(address) as log:
            done = log.record(
                [
                    key_request("a.b", user="ann", days_ago=1),
                    key_request("a.b", user="bob", days_ago=0, second=7, count=3),
                    key_request("c", user="ann", days_ago=40),
                    key_request("d", raw_table="other.raw"),
                ],
                source="s",
                position="p1",
            )
            (found,) = read_requested_keys(log, RAW, 30)
            assert done == RecordResult(rows=4)
            assert found.key == KeyPath(("a", "b"))
            assert found.users == {"ann", "bob"}
            assert (found.days, found.count) == (2, 4)
            assert found.last_s == day_of(NOW_S) * DAY_S + 7
            assert names_of(log, key_table.c.raw_table) == ["other.raw", RAW]
            assert read_last_request_days(log, RAW)[KeyPath(("c",))] == day_of(NOW_S) - 40

    def test_a_repeated_batch_has_no_effect(self, address: str) -> None:
        with open_key_log(address) as log:
            log.record([key_request()], source="s", position="p1")
            assert log.record([key_request()], source="s", position="p1").is_repeated
        with open_key_log(address) as log:
            assert log.position("s") == "p1"
            assert log.record([key_request()], source="s", position="p1").is_repeated
            assert not log.record([key_request()], source="s", position="p2").is_repeated
            assert [each.count for each in read_requested_keys(log, RAW, 30)] == [2]

    def test_a_second_miner_of_the_same_source_is_refused(self, address: str) -> None:
        with open_key_log(address) as one, open_key_log(address) as other:
            assert one.position("s") is other.position("s") is None
            one.record([key_request()], source="s", position="p1")
            with pytest.raises(Conflict):
                other.record([key_request()], source="s", position="p1, read elsewhere")
            assert other.position("s") == "p1"
            other.record([key_request()], source="s", position="p2")
            assert [each.count for each in read_requested_keys(one, RAW, 30)] == [2]

    def test_a_repetition_without_a_position_increases_counts_but_not_ranks(self, address: str) -> None:
        with open_key_log(address) as log:
            for _ in range(2):
                log.record([key_request(count=5)], source="stdin", position=None)
            (found,) = read_requested_keys(log, RAW, 30)
            assert found.users == {"ann"}
            assert (found.days, found.count) == (1, 10)
            assert log.position("stdin") is None

    def test_requests_with_an_impossible_time_are_left_out_and_counted(self, address: str) -> None:
        with open_key_log(address) as log:
            key = KeyPath(("k",))
            requests = [
                KeyRequest(RAW, key, "u", at_s, "f") for at_s in (-5, 0, NOW_S + 3 * DAY_S, 1 << 62, NOW_S)
            ]
            assert log.record(requests, source="s", position="p") == RecordResult(rows=1, refused=4)

    def test_hostile_keys_and_names_stay_distinct_and_come_back_unchanged(self, address: str) -> None:
        with open_key_log(address) as log:
            users = ["Ann", "ann", "ann ", "änn", "nul\0", "\ud800", "u" * 300, ""]
            requests = [KeyRequest(RAW, key, user, NOW_S, "f" * 99) for key in HOSTILE for user in users]
            position = "".join(f"file-{n}\ud800\0" for n in range(99_999))
            log.record(requests, source="source" * 99, position=position)
            found = read_requested_keys(log, RAW, 1)
            assert {each.key for each in found} == set(HOSTILE)
            # Spaces around a name are dropped, because MySQL ignores trailing ones.
            assert {(len(each.users), each.count) for each in found} == {(7, 8)}
            assert log.position("source" * 99) == position

    # The test empties its database itself, and three classes inherit it on purpose.
    @settings(
        max_examples=20,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(data=st.data())
    def test_the_window_equals_a_naive_count(self, address: str, data: st.DataObject) -> None:
        each = st.builds(
            key_request,
            st.sampled_from(["a", "a.b", "A.b", "b"]),
            user=st.sampled_from(["ann", "bob", "Bob"]),
            days_ago=st.integers(0, 5),
            fingerprint=st.sampled_from("fgh"),
            count=st.integers(1, 9),
            second=st.integers(0, 9_999),
            raw_table=st.sampled_from([RAW, "other.raw"]),
        )
        batches = data.draw(st.lists(st.lists(each, max_size=12), max_size=4))
        days = data.draw(st.integers(1, 7))
        with open_key_log(address) as log:
            delete_everything(log)
            for number, batch in enumerate(batches):
                log.record(batch, source=f"s{number % 2}", position=None)
            naive = count_naively([one for batch in batches for one in batch], RAW, days)
            assert read_requested_keys(log, RAW, days) == naive

    def test_concurrent_writers_lose_nothing(self, address: str) -> None:
        def write(name: str) -> None:
            command = [sys.executable, "-W", "error", "-c", WRITER, address, name, str(BATCHES)]
            subprocess.run(command, check=True, timeout=120)

        # They also open the empty database concurrently.
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, [f"writer{n}" for n in range(WRITERS)]))
        with open_key_log(address) as log:
            found = read_requested_keys(log, RAW, 30)
            assert len(found) == 40
            assert {each.count for each in found} == {2 * WRITERS * BATCHES}
            assert {len(each.users) for each in found} == {WRITERS + 1}
            assert [log.position(f"writer{n}") for n in range(WRITERS)] == [str(BATCHES - 1)] * WRITERS

    def test_concurrent_openers_of_an_empty_database_all_find_it_migrated(self, address: str) -> None:
        for _ in range(EMPTYINGS):
            with ThreadPoolExecutor(OPENERS) as pool:
                versions = list(pool.map(version_after_opening, [address] * OPENERS))
            assert versions == [newest_version()] * OPENERS
            make_empty(address)

    def test_a_miner_that_is_killed_repeatedly_counts_everything_once(self, address: str) -> None:
        for kill_after in (1, 17, 40, None):
            command = [sys.executable, "-c", MINER, address, "60"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as miner:
                assert miner.stdout is not None
                for line in miner.stdout:
                    if kill_after is not None and int(line) >= kill_after:
                        miner.kill()
        with open_key_log(address) as log:
            assert log.position("s") == "60"
            assert {(each.key.depth, each.count) for each in read_requested_keys(log, RAW, 30)} == {(1, 60)}

    def test_the_scripts_lead_to_the_schema_of_the_code(self, address: str) -> None:
        with open_key_log(address) as log, log.database.read() as connection:
            options = {
                "version_table": VERSION_TABLE,
                "compare_type": True,
                "include_name": lambda name, kind, _parents: kind != "table" or name.startswith("tideline_"),
            }
            context = MigrationContext.configure(connection, opts=options)
            assert compare_metadata(context, metadata) == []
            assert read_version(connection) == newest_version()

    def test_an_older_schema_is_migrated_and_keeps_its_rows(self, address: str) -> None:
        database = Database(address)
        migrate(database, "0001")
        with database.read() as connection:
            assert "tideline_flat_table" not in inspect(connection).get_table_names()
        database.write(
            lambda connection: connection.execute(
                text(
                    "INSERT INTO tideline_rule VALUES ('d.t', 'skip', :digest, '$.x', '', '', 'me', 1)"
                ).bindparams(digest=b"0" * 16)
            )
        )
        database.close()
        with open_key_log(address) as log:
            assert read_rule_set(log, "d.t").skip == ("$.x",)
            assert names_of(log, snapshot_table.c.name) == []

    def test_requests_of_an_earlier_build_still_count(self, address: str) -> None:
        database = Database(address)
        migrate(database, "0002")
        database.write(
            lambda connection: connection.execute(
                text(
                    "INSERT INTO tideline_asked VALUES (:day, :key, :asker, 'ann', 's', 'f', 5, 1, 2)"
                ).bindparams(day=day_of(NOW_S), key=digest(RAW, '["k"]'), asker=digest("ann", "s", "f"))
            )
        )
        database.write(
            lambda connection: connection.execute(
                text("INSERT INTO tideline_key VALUES (:key, :raw, 'k', '[\"k\"]', :day)").bindparams(
                    day=day_of(NOW_S), key=digest(RAW, '["k"]'), raw=RAW
                )
            )
        )
        database.close()
        with open_key_log(address) as log:
            (requested,) = read_requested_keys(log, RAW, 30)
            assert (requested.key, sorted(requested.users), requested.count) == (KeyPath(("k",)), ["ann"], 5)

    @pytest.mark.parametrize("renamed", ["asker_digest TO requester_digest", "asked_count TO run_count"])
    def test_an_interrupted_renaming_is_completed(self, address: str, renamed: str) -> None:
        database = Database(address)
        migrate(database, "0002")
        database.write(
            lambda connection: connection.execute(text(f"ALTER TABLE tideline_asked RENAME COLUMN {renamed}"))
        )
        database.close()
        with open_key_log(address) as log:
            log.record([key_request()], source="s", position="p")
            assert [each.count for each in read_requested_keys(log, RAW, 30)] == [1]

    def test_an_interrupted_migration_is_completed(self, address: str) -> None:
        database = Database(address)
        migrate(database)
        database.write(lambda connection: connection.execute(text("DROP TABLE tideline_flat_change")))
        database.write(
            lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
        )
        database.close()
        with open_key_log(address) as log:
            assert read_changes(log, FLAT) == []

    def test_a_newer_schema_is_refused(self, address: str) -> None:
        database = Database(address)
        migrate(database)
        database.write(
            lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9000'"))
        )
        database.close()
        with pytest.raises(StateCorrupt, match="newer version"):
            open_key_log(address)

    def test_an_inconsistent_version_table_is_refused(self, address: str) -> None:
        database = Database(address)
        migrate(database)
        database.write(
            lambda connection: connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('0001')"))
        )
        database.close()
        with pytest.raises(StateCorrupt, match="version table is inconsistent"):
            open_key_log(address)

    def test_key_rules_are_stored_and_removed(self, address: str) -> None:
        key = KeyPath(("a", "b.c"))
        with open_key_log(address) as log:
            set_rule(log, KeyRule(FLAT, RuleKind.PIN, key, ColumnType.INT, set_by="ann"))
            set_rule(log, KeyRule(FLAT, RuleKind.PIN, key, ColumnType.BIGINT, set_by="bob"))
            set_rule(log, KeyRule(FLAT, RuleKind.ALWAYS, key))
            set_rule(log, KeyRule("other.flat", RuleKind.SKIP, "$.a*"))
            found = read_rule_set(log, FLAT)
            assert found.always == {key}
            assert found.skip == ()
            assert found.pins == {key: ColumnType.BIGINT}
            assert [rule.set_by for rule in read_rules(log, FLAT)] == ["", "bob"]
            set_rule(log, KeyRule(FLAT, RuleKind.SKIP, key.text))
            now = read_rule_set(log, FLAT)
            assert (now.always, now.skip, now.pins) == (frozenset(), (key.text,), {})
            assert remove_rule(log, FLAT, RuleKind.SKIP, key.text)
            assert not remove_rule(log, FLAT, RuleKind.SKIP, key.text)

    def test_a_snapshot_is_replaced_by_the_same_or_a_newer_version_only(self, address: str) -> None:
        change = ColumnChange(4, 0, NOW_S, "append", 1, "$.a", "asked by 3 users")
        later = ColumnChange(5, 0, NOW_S, "widen", 1, "$.a", "y" * 5_000)
        with open_key_log(address) as log:
            assert read_snapshot(log, FLAT) is None
            for _ in range(2):
                save_snapshot(log, TableSnapshot(FLAT, 4, NOW_S, {"slots": ["é", 1]}), [change])
            save_snapshot(log, TableSnapshot(FLAT, 3, NOW_S, {}))
            assert read_snapshot(log, FLAT) == TableSnapshot(FLAT, 4, NOW_S, {"slots": ["é", 1]})
            save_snapshot(log, TableSnapshot(FLAT, 5, NOW_S, {"big": "x" * 200_000}), [later, change])
            assert [each.version for each in read_changes(log, FLAT)] == [5, 4]
            assert read_changes(log, FLAT)[1] == change
            assert names_of(log, snapshot_table.c.name) == [FLAT]

    def test_old_rows_are_deleted_a_bounded_number_at_a_time(self, address: str) -> None:
        many = ROWS_PER_TRANSACTION + 100
        old = [key_request(f"k{n % 50}", days_ago=20 + n % 3, fingerprint=f"f{n}") for n in range(many)]
        with open_key_log(address) as log:
            log.record(
                [*old, key_request("k0", days_ago=2), key_request("new", days_ago=9)],
                source="s",
                position="p",
            )
            assert (count_old_rows(log, 10).rows, count_old_rows(log, 10).keys) == (many, 49)
            first = delete_old_rows(log, 10, transactions_max=1)
            assert (first.rows, first.is_complete) == (ROWS_PER_TRANSACTION, False)
            rest = delete_old_rows(log, 10)
            assert (rest.rows, rest.keys, rest.is_complete) == (100, 49, True)
            assert {each.key.text for each in read_requested_keys(log, RAW, 100)} == {"$.k0", "$.new"}
            assert delete_old_rows(log, 10).rows == 0
            assert log.position("s") == "p"

    def test_old_changes_are_deleted_but_the_snapshot_is_kept(self, address: str) -> None:
        old = ColumnChange(1, 0, NOW_S - 20 * DAY_S, "append", 1, "$.a", "asked for")
        new = ColumnChange(2, 0, NOW_S - 9 * DAY_S, "append", 2, "$.b", "asked for")
        with open_key_log(address) as log:
            save_snapshot(log, TableSnapshot(FLAT, 2, NOW_S - 9 * DAY_S, {}), [old, new])
            assert count_old_rows(log, 10).changes == delete_old_rows(log, 10).changes == 1
            assert read_changes(log, FLAT) == [new]
            assert names_of(log, snapshot_table.c.name) == [FLAT]

    def test_threads_share_one_log(self, address: str) -> None:
        with open_key_log(address) as log, ThreadPoolExecutor(4) as pool:
            for _ in pool.map(
                lambda n: log.record([key_request(user=f"u{n % 4}")], source=f"s{n}", position="p"), range(24)
            ):
                pass
            (found,) = read_requested_keys(log, RAW, 30)
            assert (len(found.users), found.count) == (4, 24)

    def test_entries_of_the_log_can_be_filtered(self, address: str) -> None:
        with open_key_log(address) as log:
            log.record(
                [key_request("a", user="ann"), key_request("b", user="bob", days_ago=1)],
                source="s",
                position=None,
            )
            log.record([key_request("a", user="ann", days_ago=3)], source="t", position=None)
            assert [each.key.text for each in read_entries(log, LogFilter(), 10)] == ["$.a", "$.b", "$.a"]
            assert [each.day for each in read_entries(log, LogFilter(user="bob"), 10)] == [day_of(NOW_S) - 1]
            assert len(read_entries(log, LogFilter(days=3), 10)) == 2
            assert len(read_entries(log, LogFilter(), 1)) == 1
            key = KeyPath(("a",))
            (found,) = read_entries(log, LogFilter(raw_table=RAW, source="t", key=key), 10)
            assert (found.source, found.user, found.fingerprint, found.count) == ("t", "ann", "f1", 1)


def delete_everything(log: KeyLog) -> None:
    def work(connection: object) -> None:
        for table in metadata.sorted_tables:
            connection.execute(table.delete())  # type: ignore[attr-defined]

    log.database.write(work)
