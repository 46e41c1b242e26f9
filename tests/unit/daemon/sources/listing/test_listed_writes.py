"""The relay makes the write events of a source that does not report them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.relay.start_position import StoredPosition
from daemon.sources.listing import listed_writes
from daemon.sources.listing.listed_writes import ATTEMPTS_MIN, MISSED, NOT_REPLICATED, UNNAMED, ListedWrites
from daemon.sources.listing.one_write import (
    RENAMED,
    STREAMED,
    UNFINISHED,
    UNFINISHED_S,
    ListingTools,
    PreparedWrite,
    list_partitions,
)
from daemon.sources.listing.other_locations import OtherLocations
from handlers.events import FilesWritten, TxnCommitted
from handlers.files.filesystems import Entry, FileSystems
from handlers.files.paths import AllowedRoots, Location
from handlers.files.systems.local import LocalFiles
from state.errors import FilesUnavailable, Refused, ServerFault
from state.event_log.positions import Position
from state.store.memory import MemoryStore
from state.transactions.open_candidates import Candidate, CandidateWrite
from tests.builders.kafka.listed_source import ListedSource, delta


@pytest.fixture
def source(tmp_path: Path) -> ListedSource:
    return ListedSource(tmp_path)


def writes_of(events: list[FilesWritten | TxnCommitted]) -> dict[str, FilesWritten]:
    """Return the write events by table or partition, and require that the commit announces them."""
    *writes, commit = events
    assert isinstance(commit, TxnCommitted)
    assert commit.enriched
    assert commit.listed
    found = {}
    for write in writes:
        assert isinstance(write, FilesWritten)
        assert write.listed
        found[write.partition_name or write.table or ""] = write
    return found


def test_a_write_has_the_files_that_insert_names_with_their_checksums_and_directories(
    source: ListedSource,
) -> None:
    source.create("t")
    txn = source.begin(("t", 2))
    source.write("t", 2)
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    (file,) = write.files
    assert (write.db, write.table, write.txn_id, write.write_id) == ("sales", "t", txn, 2)
    assert (file.checksum, file.cm_root) == (source.sample, f"file:{source.root}/cm")
    assert file.subdir == delta(2)
    assert write.incomplete is None


def test_files_that_no_event_names_are_listed(source: ListedSource) -> None:
    source.create("p", keys=True)
    txn = source.begin(("p", 1))
    source.add_partition("p", "a")
    source.alter_partition("p", "a")
    source.lay("p/dt=a", delta(1))
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    assert write.partition_name == "dt=a"
    assert [file.subdir for file in write.files] == [delta(1)]


def test_listed_files_get_checksums_as_soon_as_an_event_has_shown_their_form(source: ListedSource) -> None:
    """The change manager names files by them."""
    source.create("t")
    source.create("u", insert_only=True)
    txn = source.begin(("t", 1), ("u", 1))
    source.write("t", 1)
    source.lay("u", delta(1), "000000_0")
    source.commit(txn)
    (file,) = writes_of(source.relay())["u"].files
    assert (file.checksum, file.cm_root) == (source.sample, f"file:{source.root}/cm")


class CountingFiles(LocalFiles):
    """Local files that count listings."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0

    def list(self, location: Location) -> Sequence[Entry]:
        self.listings += 1
        return super().list(location)


@pytest.mark.parametrize("directory", [delta(1), "base_0000001"])
@pytest.mark.parametrize(("named", "listings"), [(True, 1), (False, 2)])
@pytest.mark.parametrize("keys", [False, True])
def test_a_commit_into_one_partition_costs_at_most_two_listings(
    source: ListedSource, directory: str, named: bool, listings: int, keys: bool
) -> None:
    """Hive 4 needs none."""
    files = CountingFiles()
    source.files = FileSystems({"file": lambda _authority, _options: files})
    source.create("t", keys=keys)
    if keys:
        source.add_partition("t", "a")
    txn = source.begin(("t", 1))
    uri = source.lay("t/dt=a" if keys else "t", directory)
    if named:
        source.insert("t", uri, day="a" if keys else None)
    if keys:
        source.alter_partition("t", "a")
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    assert len(write.files) == 1
    assert files.listings == listings


def test_streams_are_found_by_the_times_of_directories(source: ListedSource) -> None:
    """They name new partitions only."""
    source.create("s", keys=True)
    for day in ("old", "other", "gone"):
        source.add_partition("s", day)
    del source.log.partitions["dt=gone"]
    os.utime(source.root / "s/dt=other", (1, 1))
    txn = source.begin(("s", 1))
    source.add_partition("s", "new")
    for day in ("old", "new"):
        source.lay(f"s/dt={day}", "delta_0000001_0000001")
    source.commit(txn)
    box = source.outbox()
    assert set(writes_of(source.relay(box))) == {"dt=old", "dt=new"}


def test_a_table_with_writes_that_no_event_names_is_scanned_from_then_on(source: ListedSource) -> None:
    source.create("s", keys=True)
    for day in ("a", "b"):
        source.add_partition("s", day)
    for write_id, day in ((1, "a"), (2, "b")):
        txn = source.begin(("s", write_id))
        source.lay(f"s/dt={day}", delta(write_id))
        if write_id == 2:
            source.alter_partition("s", "a")
        source.commit(txn)
    box = source.outbox()
    writes = [event for event in source.relay(box) if isinstance(event, FilesWritten)]
    assert [(each.partition_name, each.write_id) for each in writes] == [("dt=a", 1), ("dt=b", 2)]


def test_a_table_that_a_scan_has_found_is_scanned_after_a_restart_of_the_loop(source: ListedSource) -> None:
    source.create("s", keys=True)
    source.add_partition("s", "a")
    source.commit(stream(source, 1, "a"))
    box = source.outbox()
    source.relay(box)
    before = source.log.current_event_id()
    source.add_partition("s", "b")
    txn = stream(source, 2, "b")
    source.alter_partition("s", "a")
    source.commit(txn)
    assert set(writes_of(source.relay(box, after=before))) == {"dt=b"}


def stream(source: ListedSource, write_id: int, day: str) -> int:
    """Write a file that no event names, and return the transaction."""
    txn = source.begin(("s", write_id))
    source.lay(f"s/dt={day}", delta(write_id))
    return txn


def test_tables_of_the_setting_are_scanned_although_events_name_partitions(source: ListedSource) -> None:
    source.create("s", keys=True)
    for day in ("a", "b"):
        source.add_partition("s", day)
    txn = source.begin(("s", 1))
    for day in ("a", "b"):
        source.lay(f"s/dt={day}", delta(1))
    source.alter_partition("s", "a")
    source.commit(txn)
    assert set(writes_of(source.relay(source.outbox(scan_tables=["sales.s"])))) == {"dt=a", "dt=b"}
    assert set(writes_of(source.relay())) == {"dt=a"}


class TimelessFiles(LocalFiles):
    """Directories without times, as in an object store."""

    def list(self, location: Location) -> Sequence[Entry]:
        return [replace(each, mtime_ns=None) for each in super().list(location)]


def test_an_object_store_is_searched_only_if_the_events_suggest_it(
    source: ListedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every directory is a candidate there."""
    monkeypatch.setattr(listed_writes, "SAMPLE_EVERY", 1)
    source.files = FileSystems({"file": lambda _authority, _options: TimelessFiles()})
    source.create("s", keys=True)
    for day in ("a", "b"):
        source.add_partition("s", day)
    for write_id, is_sql in ((1, True), (2, False)):
        txn = source.begin(("s", write_id))
        source.lay("s/dt=b", delta(write_id))
        if is_sql:
            source.alter_partition("s", "a")
        source.commit(txn)
    writes = [event for event in source.relay() if isinstance(event, FilesWritten)]
    assert [(each.partition_name, each.write_id) for each in writes] == [("dt=b", 2)]


def test_a_table_that_may_not_be_read_makes_only_its_write_incomplete(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("t", 1))
    source.lay("t", delta(1))
    source.commit(txn)
    source.log.failing = lambda call: Refused("no access") if call == "get_table" else None
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete is not None
    assert "no access" in write.incomplete


def test_a_sample_of_other_commits_is_checked(source: ListedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed_writes, "SAMPLE_EVERY", 1)
    source.create("s", keys=True)
    source.add_partition("s", "a")
    source.add_partition("s", "b")
    txn = source.begin(("s", 1))
    source.lay("s/dt=b", delta(1))
    source.alter_partition("s", "a")
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete == UNNAMED, "earlier commits were not checked"


def test_a_check_that_cannot_be_made_leaves_the_write_complete(
    source: ListedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_writes, "SAMPLE_EVERY", 1)
    source.create("s", keys=True)
    source.add_partition("s", "a")
    txn = source.begin(("s", 1))
    source.lay("s/dt=a", delta(1))
    source.alter_partition("s", "a")
    source.commit(txn)
    source.log.failing = lambda call: Refused("no access") if call == "partition_names" else None
    (write,) = writes_of(source.relay()).values()
    assert (write.partition_name, write.incomplete) == ("dt=a", None)


def calls_of(source: ListedSource, name: str) -> list[str]:
    """Return a list that receives the calls of this name."""
    calls: list[str] = []
    source.log.failing = lambda call: calls.append(call) if call == name else None
    return calls


def test_a_scan_finds_partitions_outside_of_the_directory_of_their_table(source: ListedSource) -> None:
    source.create("s", keys=True)
    source.add_partition("s", "a")
    source.add_partition("s", "b", place="elsewhere")
    calls = calls_of(source, "partition_names")
    for write_id in (1, 2):
        txn = source.begin(("s", write_id))
        source.lay("elsewhere", delta(write_id))
        source.commit(txn)
    writes = [event for event in source.relay() if isinstance(event, FilesWritten)]
    assert [(each.partition_name, each.write_id, len(each.files)) for each in writes] == [
        ("dt=b", 1, 1),
        ("dt=b", 2, 1),
    ]
    assert len(calls) <= 2, "one for each of two threads at most"


@pytest.mark.parametrize("change", ["added", "moved"])
def test_a_scan_finds_partitions_that_are_added_elsewhere_or_moved_later(
    source: ListedSource, change: str
) -> None:
    source.create("s", keys=True)
    source.add_partition("s", "b")
    box = source.outbox()
    source.commit(source.begin(("s", 1)))
    source.relay(box)
    before = source.log.current_event_id()
    if change == "added":
        source.add_partition("s", "c", place="elsewhere")
    else:
        source.move_partition("s", "b", "elsewhere")
    source.commit(source.begin(("s", 2)))
    txn = source.begin(("s", 3))
    source.lay("elsewhere", delta(3))
    source.commit(txn)
    writes = [event for event in source.relay(box, after=before) if isinstance(event, FilesWritten)]
    assert [(each.write_id, len(each.files)) for each in writes] == [(3, 1)]


def test_the_partitions_of_a_table_are_read_again_only_if_one_may_have_moved(source: ListedSource) -> None:
    table = source.create("s", keys=True)
    source.add_partition("s", "b", place="elsewhere")
    calls = calls_of(source, "partition_names")
    others = OtherLocations()

    def found() -> dict[str, str]:
        return dict(others.find(source.log, table))

    assert found() == found() == {"dt=b": f"file:{source.root}/elsewhere"}
    source.alter_partition("s", "b")
    others.observe(source.log.events[source.log.current_event_id()])
    assert len(calls) == 1, "statistics, as of each statement"
    assert found() == {"dt=b": f"file:{source.root}/elsewhere"}
    assert len(calls) == 1
    source.move_partition("s", "b", "s/dt=b")
    others.observe(source.log.events[source.log.current_event_id()])
    assert found() == {}
    assert len(calls) == 2


def test_a_partition_elsewhere_without_a_directory_has_no_files(source: ListedSource) -> None:
    source.create("s", keys=True)
    source.add_partition("s", "b", place="elsewhere")
    (source.root / "elsewhere").rmdir()
    source.commit(source.begin(("s", 1)))
    assert writes_of(source.relay()) == {}


def test_partitions_elsewhere_that_may_not_be_read_are_not_looked_at(source: ListedSource) -> None:
    source.create("s", keys=True)
    source.add_partition("s", "b", place="../elsewhere")
    source.commit(source.begin(("s", 1)))
    assert writes_of(source.relay()) == {}


def test_a_check_does_not_count_a_partition_that_only_a_compaction_has_changed(
    source: ListedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_writes, "SAMPLE_EVERY", 1)
    source.create("s", keys=True)
    source.add_partition("s", "a")
    source.add_partition("s", "b")
    txn = source.begin(("s", 1))
    source.lay("s/dt=a", delta(1))
    source.lay("s/dt=b", "base_0000002")
    source.alter_partition("s", "a")
    source.commit(txn)
    box = source.outbox()
    (write,) = writes_of(source.relay(box)).values()
    assert (write.partition_name, write.incomplete) == ("dt=a", None)
    assert box.unlogged is not None
    assert box.unlogged.found_by_scan == set()


def test_a_compaction_is_no_sign_of_a_program_that_writes_without_events(source: ListedSource) -> None:
    source.create("s", keys=True)
    source.add_partition("s", "b")
    txn = source.begin(("s", 1))
    source.lay("s/dt=b", "base_0000002")
    source.commit(txn)
    box = source.outbox()
    (write,) = writes_of(source.relay(box)).values()
    assert write.incomplete == "base_0000002 may have replaced files before they were listed"
    assert box.unlogged is not None
    assert box.unlogged.found_by_scan == set()


@pytest.mark.parametrize("content", [b"", b"not the end"])
def test_a_file_that_a_stream_has_not_finished_is_looked_at_again_and_then_reported(
    source: ListedSource, content: bytes
) -> None:
    table = source.create("t")
    source.lay("t", "delta_0000001_0000001", content=content)
    write = CandidateWrite("sales.t", 1, 1, 1)
    now_s, pauses = 0.0, 0

    def pause(seconds: float) -> None:
        nonlocal now_s, pauses
        now_s, pauses = now_s + seconds, pauses + 1
        if pauses == finished_after:
            source.lay("t", "delta_0000001_0000001")

    tools = ListingTools(
        source.files, AllowedRoots.of([f"file:{source.root}"]), pause=pause, clock=lambda: now_s
    )
    prepared = PreparedWrite(write, table, {"": Candidate(table.sd.location or "")})
    finished_after = 0
    (part,) = list_partitions(source.log, prepared, [""], tools, None)
    assert (part.entries, part.incomplete) == ((), UNFINISHED)
    assert now_s >= UNFINISHED_S
    finished_after = pauses + 2
    (part,) = list_partitions(source.log, prepared, [""], tools, None)
    assert (len(part.entries), part.incomplete) == (1, None)


def test_a_partition_that_another_open_transaction_wrote_has_no_write_event(source: ListedSource) -> None:
    source.create("p", keys=True)
    source.add_partition("p", "a")
    source.add_partition("p", "b")
    first, second = source.begin(("p", 1)), source.begin(("p", 2))
    for day, write_id in (("a", 1), ("b", 2)):
        uri = source.lay(f"p/dt={day}", delta(write_id))
        source.insert("p", uri, day=day)
        source.alter_partition("p", day)
    source.commit(second)
    source.commit(first)
    events = source.relay()
    assert [(each.partition_name, each.write_id) for each in events if isinstance(each, FilesWritten)] == [
        ("dt=b", 2),
        ("dt=a", 1),
    ]


def test_a_transaction_may_write_into_several_tables(source: ListedSource) -> None:
    source.create("t")
    source.create("u", insert_only=True)
    txn = source.begin(("t", 6), ("u", 4))
    source.write("t", 6)
    source.alter("u")
    source.lay("u", "delta_0000004_0000004_0001", "000000_0")
    source.commit(txn)
    assert {name: len(write.files) for name, write in writes_of(source.relay()).items()} == {"t": 1, "u": 1}


def test_a_transaction_without_files_has_no_write_events(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("t", 1))
    source.insert("t")
    source.commit(txn)
    assert writes_of(source.relay()) == {}


def test_the_second_allocation_of_hives_error_is_passed_over(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("sales.t", 1), ("t", 1))
    source.write("t", 1)
    source.commit(txn)
    assert list(writes_of(source.relay())) == ["t"]


def test_files_that_a_compaction_has_replaced_are_known_from_insert(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("t", 2))
    source.write("t", 2)
    source.commit(txn)
    shutil.rmtree(source.root / "t" / delta(2))
    source.lay("t", "delta_0000001_0000002")
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete is None
    assert [file.subdir for file in write.files] == [delta(2)]


@pytest.mark.parametrize("kind", ["insert-only", "new partition"])
def test_files_that_no_event_names_are_incomplete_after_a_compaction(source: ListedSource, kind: str) -> None:
    source.create("t", keys=kind == "new partition", insert_only=kind == "insert-only")
    txn = source.begin(("t", 2))
    place = "t"
    if kind == "new partition":
        source.add_partition("t", "a")
        place = "t/dt=a"
    else:
        source.insert("t")
    source.lay(place, delta(2))
    source.commit(txn)
    source.lay(place, "base_0000003")
    (write,) = writes_of(source.relay()).values()
    assert write.files == (), "some of the directories may be gone, although one is left"
    assert write.incomplete == "base_0000003 may have replaced files before they were listed"


def test_a_batch_of_streamed_transactions_is_refused(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("t", 5))
    source.lay("t", "delta_0000005_0000007")
    source.lay("t", "delta_0000005_0000007", "bucket_00000_flush_length")
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete == STREAMED


def test_a_table_that_has_the_name_by_now_is_not_taken_for_the_one_that_was_written(
    source: ListedSource,
) -> None:
    table = source.create("t")
    txn = source.begin(("t", 1))
    source.write("t", 1)
    source.commit(txn)
    source.log.tables["sales", "t"].createTime = 1_800_000_000
    assert source.log.tables["sales", "t"] is table
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete is None, "the files that INSERT names have checksums"
    del source.log.tables["sales", "t"]
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete is None


@pytest.mark.parametrize("change", ["dropped", "recreated", "moved"])
def test_a_partition_that_has_the_name_by_now_is_not_taken_for_the_one_that_was_written(
    source: ListedSource, change: str
) -> None:
    source.create("p", keys=True)
    txn = source.begin(("p", 1))
    source.add_partition("p", "a")
    source.lay("p/dt=a", delta(1))
    source.commit(txn)
    partition = source.log.partitions["dt=a"]
    if change == "dropped":
        del source.log.partitions["dt=a"]
    elif change == "recreated":
        partition.createTime = 1_800_000_000
    else:
        partition.sd.location = f"file:{source.root}/elsewhere"
    (write,) = writes_of(source.relay()).values()
    assert (write.files, write.incomplete) == ((), RENAMED)


def test_a_partition_whose_directory_is_gone_is_incomplete(source: ListedSource) -> None:
    source.create("p", keys=True)
    txn = source.begin(("p", 1))
    source.add_partition("p", "a")
    source.commit(txn)
    (source.root / "p" / "dt=a").rmdir()
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete == RENAMED


def test_a_location_that_may_not_be_read_is_said_to_be_so(source: ListedSource) -> None:
    source.create("t").sd.location = "file:/elsewhere/t"
    txn = source.begin(("t", 1))
    source.alter("t")
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete is not None
    assert "unsafe-path" in write.incomplete


def test_databases_that_are_not_replicated_here_are_not_listed_but_said_to_be_incomplete(
    source: ListedSource,
) -> None:
    """Another daemon may replicate them from this topic."""
    txn = source.begin(("x", 1), db="other")
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    assert (write.db, write.table, write.incomplete) == ("other", "x", NOT_REPLICATED)


def test_a_transaction_of_before_the_relay_says_that_its_writes_are_unknown(source: ListedSource) -> None:
    source.create("t")
    reader, writer = source.begin(), source.begin(("t", 1))
    start = source.log.current_event_id()
    source.log.clean(start)
    source.write("t", 1)
    for txn in (writer, reader, source.begin()):
        source.commit(txn)
    commits = source.relay(after=start)
    assert [each.incomplete for each in commits if isinstance(each, TxnCommitted)] == [MISSED, MISSED, None]


def test_a_restart_observes_the_open_transactions_again(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("t", 1))
    source.write("t", 1)
    box = source.outbox()
    read = box.read(0)[-1].event_id
    look_back = box.look_back(read)
    assert look_back == 2, "the allocation"
    source.commit(txn)
    again = source.outbox()
    again.observed_from = look_back
    (write,) = writes_of(source.relay(again, after=read)).values()
    assert write.files[0].checksum == source.sample


def test_a_restart_does_not_forget_that_writes_of_open_transactions_are_unknown(source: ListedSource) -> None:
    source.create("t")
    writer = source.begin(("t", 1))
    start = source.log.current_event_id()
    source.log.clean(start)
    source.write("t", 1)
    source.begin()
    box = source.outbox()
    read = box.read(start)[-1].event_id
    kept = StoredPosition(MemoryStore(), "lake")
    kept.save(Position(read), box.look_back(read))
    source.commit(writer)
    again = source.outbox()
    again.observed_from = kept.load_look_back()
    commits = source.relay(again, after=read)
    assert [each.incomplete for each in commits if isinstance(each, TxnCommitted)] == [MISSED]


def test_an_event_that_is_too_large_to_be_read_makes_open_writes_incomplete(source: ListedSource) -> None:
    source.create("p", keys=True)
    txn = source.begin(("p", 1))
    box = source.outbox()
    box.read(0)
    listed = box.unlogged
    assert isinstance(listed, ListedWrites)
    listed.miss(source.add("ALTER_PARTITION", {}, table="p"))
    source.commit(txn)
    (write,) = writes_of(source.relay(box, after=source.log.current_event_id() - 1)).values()
    assert write.incomplete is not None


def test_an_event_of_the_table_that_cannot_be_read_makes_the_write_incomplete(source: ListedSource) -> None:
    source.create("p", keys=True)
    txn = source.begin(("p", 1))
    source.add("ADD_PARTITION", {"db": "sales"}, table="p")
    source.commit(txn)
    (write,) = writes_of(source.relay()).values()
    assert write.incomplete is not None


def test_a_file_system_that_fails_holds_up_the_relay_and_then_only_this_write(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("t", 1))
    source.write("t", 1)
    source.commit(txn)
    shutil.rmtree(source.root / "t")
    now_s = 0.0
    listed = ListedWrites(
        ["sales"],
        source.files,
        AllowedRoots.of([f"file:{source.root}"]),
        source.log.connect,
        clock=lambda: now_s,
    )
    box = source.outbox()
    box.read(0, limit=1)
    box._encoder._listed = listed
    for attempt in range(1, ATTEMPTS_MIN + 1):
        now_s = 20.0 * attempt
        if attempt < ATTEMPTS_MIN:
            with pytest.raises(FilesUnavailable):
                box.read(0)
    (write,) = [
        json.loads(record.value)["message"]
        for item in box.read(0)
        for record in item.records
        if json.loads(record.value)["eventType"] == "WRITE"
    ]
    assert "files-unavailable" in write["incomplete"]
    box.close()


def test_a_metastore_that_fails_is_not_a_failure_of_the_write(source: ListedSource) -> None:
    source.create("t")
    txn = source.begin(("t", 1))
    source.write("t", 1)
    source.commit(txn)
    box = source.outbox()
    box.read(0, limit=1)
    source.log.failing = lambda call: ServerFault("broken") if call == "get_table" else None
    with pytest.raises(ServerFault):
        box.read(1)
    source.log.failing = lambda _call: None
    (write,) = writes_of(source.relay(box, after=1)).values()
    assert write.incomplete is None


def test_the_metastore_is_asked_once_for_a_connection(source: ListedSource) -> None:
    source.create("t")
    box = source.outbox()
    for number in (1, 2):
        txn = source.begin(("t", number))
        source.write("t", number)
        source.commit(txn)
        box.read(source.log.current_event_id() - 5)
    assert source.log.asked_for_writes == [0]
    box.close()
    box.read(0)
    assert source.log.asked_for_writes == [0, 0], "it may have been upgraded"
    box.close()
