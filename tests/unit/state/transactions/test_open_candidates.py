"""What open transactions may have written, as the events of the log tell, in bounded memory."""

from __future__ import annotations

from state.transactions.open_candidates import CandidateWrite, OpenCandidates


def allocate(candidates: OpenCandidates, txn_id: int, table: str, write_id: int, event_id: int = 1) -> None:
    candidates.allocate(txn_id, table, write_id, event_id=event_id, time_s=100)


def touch(candidates: OpenCandidates, table: str, *names: str, is_added: bool = False) -> None:
    for name in names:
        candidates.touch(table, name, f"file:/w/{table}/{name}", created_s=7, is_added=is_added)


def only(candidates: OpenCandidates, txn_id: int) -> CandidateWrite:
    writes = candidates.end(txn_id)
    assert writes is not None
    (write,) = writes
    return write


def test_a_partition_is_a_candidate_for_every_open_write_of_its_table() -> None:
    candidates = OpenCandidates(knows_all=True)
    touch(candidates, "d.t", "early")
    allocate(candidates, 1, "d.t", 11)
    touch(candidates, "d.t", "a")
    allocate(candidates, 2, "d.t", 12)
    allocate(candidates, 3, "d.u", 1)
    touch(candidates, "d.t", "b")
    assert set(only(candidates, 1).partitions) == {"a", "b"}
    assert set(only(candidates, 2).partitions) == {"b"}
    assert only(candidates, 3).partitions == {}
    assert len(candidates) == 0
    assert not candidates.is_open("d.t")


def test_a_partition_that_was_added_stays_added_when_it_is_altered() -> None:
    candidates = OpenCandidates(knows_all=True)
    allocate(candidates, 1, "d.t", 1)
    touch(candidates, "d.t", "a", is_added=True)
    touch(candidates, "d.t", "a", "b")
    partitions = only(candidates, 1).partitions
    assert {name: each.is_added for name, each in partitions.items()} == {"a": True, "b": False}
    assert partitions["a"].location == "file:/w/d.t/a"


def test_files_belong_to_the_write_id_in_their_paths_only() -> None:
    candidates = OpenCandidates(knows_all=True)
    allocate(candidates, 1, "d.t", 1)
    allocate(candidates, 2, "d.t", 2)
    touch(candidates, "d.t", "a")
    candidates.name_files("d.t", 2, "a", {"file:/f": "f#1##", "file:/g": "g#1##"})
    candidates.name_files("d.t", 2, "a", {"file:/f": "f#2##"})
    candidates.name_files("d.t", 3, "a", {"file:/f": "unknown"})
    candidates.name_files("d.t", 1, "b", {"file:/f": "not touched"})
    assert len(candidates) == 4, "two candidates, and two files"
    assert only(candidates, 1).partitions["a"].entries == {}
    assert only(candidates, 2).partitions["a"].entries == {"file:/f": "f#2##", "file:/g": "g#1##"}


def test_a_transaction_that_was_opened_before_the_first_event_may_have_unknown_writes() -> None:
    candidates = OpenCandidates()
    assert candidates.end(5) is None
    candidates.open(7)
    candidates.open(9)
    allocate(candidates, 6, "d.t", 1)
    assert candidates.end(6) is None, "it may have allocated earlier, in another table"
    assert candidates.end(7) == ()
    assert candidates.end(8) == ()


def test_nothing_is_unknown_if_the_record_begins_with_the_first_allocation() -> None:
    assert OpenCandidates(knows_all=True).end(5) == ()


def test_a_restart_reads_from_the_first_allocation_of_an_open_transaction() -> None:
    candidates = OpenCandidates(knows_all=True)
    assert candidates.first_event_id is None
    allocate(candidates, 1, "d.t", 1, event_id=10)
    allocate(candidates, 2, "d.t", 2, event_id=20)
    candidates.end(1)
    assert candidates.first_event_id == 20


def test_the_write_with_the_most_entries_is_forgotten_first_and_says_so() -> None:
    candidates = OpenCandidates(knows_all=True, entries_max=4)
    allocate(candidates, 1, "d.t", 1)
    allocate(candidates, 2, "d.u", 1)
    touch(candidates, "d.t", "a", "b", "c")
    touch(candidates, "d.u", "a", "b")
    large, small = only(candidates, 1), only(candidates, 2)
    assert (large.is_complete, large.partitions) == (False, {})
    assert small.is_complete
    assert set(small.partitions) == {"a", "b"}
    assert len(candidates) == 0


def test_the_oldest_of_too_many_transactions_is_forgotten_and_counts_as_unknown() -> None:
    candidates = OpenCandidates(knows_all=True, txns_max=2)
    for txn_id in (1, 2, 3):
        allocate(candidates, txn_id, "d.t", txn_id)
    assert candidates.end(1) is None
    assert only(candidates, 2).write_id == 2


def test_an_event_that_cannot_be_read_makes_the_open_writes_of_its_table_incomplete() -> None:
    candidates = OpenCandidates(knows_all=True)
    for number, table in enumerate(["d.t", "d.u", "d.v"], 1):
        allocate(candidates, number, table, 1)
        touch(candidates, table, "a")
    candidates.miss("d.t")
    assert not only(candidates, 1).is_complete
    assert only(candidates, 2).is_complete
    candidates.miss()
    assert not only(candidates, 3).is_complete
    assert len(candidates) == 0
