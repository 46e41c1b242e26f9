from __future__ import annotations

import threading
from typing import Any

import pytest

from handlers.events import SourceFile
from handlers.files.copying import handles as handles_module
from handlers.files.copying.copies import Copied, Copier, CopyTask
from handlers.files.copying.handles import UNSETTLED_MAX
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.transfer import Cancellation, Moved, Reserve
from handlers.files.paths import Location
from handlers.shared_threads import SharedThreads
from state.errors import FileLost, FilesUnavailable
from tests.builders.daemon.loops import eventually
from tests.builders.replication.warehouse import Warehouse, path_of


DEADLINE_S = 120.0


class Gated(Copier):
    """Copies nothing: reserves as many bytes as the target's name says and waits for its gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began = threading.Semaphore(0)
        self.in_flight = 0
        self.in_flight_max = 0
        self.lock = threading.Lock()

    def settle(self, directory: Location) -> None:
        """Do nothing."""

    def publish(
        self,
        task: CopyTask,
        *,
        cancelled: Cancellation | None = None,
        reserve: Reserve | None = None,
        moved: Moved | None = None,  # noqa: ARG002 - the signature of what it stands for
        **_: Any,
    ) -> Copied:
        size = int(task.target_uri.rpartition("/")[2])
        assert reserve is not None
        assert cancelled is not None
        with reserve(size):
            with self.lock:
                self.in_flight += size
                self.in_flight_max = max(self.in_flight, self.in_flight_max)
            self.began.release()
            while not self.gate.wait(0.01):
                if cancelled.is_set():
                    raise FilesUnavailable("the copy was cancelled")
            with self.lock:
                self.in_flight -= size
        return Copied(size, from_change_manager=False, skipped=False, seconds=0.0)


def sized(size: int) -> CopyTask:
    return CopyTask(SourceFile("file:/s"), f"file:/t/{size}")


def test_many_files_are_copied_and_counted(warehouse: Warehouse) -> None:
    sources = [warehouse.wrote(b"x" * number, name=f"bucket_{number:05}_0") for number in range(50)]
    path_of(sources[0]).unlink()
    warehouse.recycled(sources[0], b"")
    pool = CopyPool(warehouse.copier(), workers=4)
    try:
        copied = pool.wait([pool.submit(warehouse.task(source)) for source in sources], DEADLINE_S)
        assert [each.size_bytes for each in copied] == list(range(50))
        assert pool.wait([pool.submit(warehouse.task(sources[7]))], DEADLINE_S)[0].skipped
        counters = pool.counters()
        assert (counters.files, counters.size_bytes) == (51, sum(range(50)))
        assert (counters.from_change_manager, counters.skipped, counters.failed) == (1, 1, 0)
        assert pool.pending() == (0, 0)
        pool.check()
    finally:
        assert pool.close(DEADLINE_S)
    assert len(warehouse.target_files()) == 50


def test_pools_share_threads_that_end_without_copies() -> None:
    threads, copier = SharedThreads(3, reserved=0, name="copy", idle_s=0.01), Gated()
    pools = [CopyPool(copier, workers=2, threads=threads) for _ in range(5)]
    assert threads.count() == 0
    handles = [(pool, pool.submit(sized(1))) for pool in pools for _ in range(4)]
    for _ in range(3):
        assert copier.began.acquire(timeout=DEADLINE_S), "so many copy at once"
    assert threads.count() == 3
    copier.gate.set()
    for pool, handle in handles:
        pool.wait([handle], DEADLINE_S)
        pool.check()
    assert all(pool.close(DEADLINE_S) for pool in pools)
    eventually(lambda: threads.count() == 0)


class Noting(Gated):
    """Notes the sizes of the copies in the order in which they began."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[str] = []

    def publish(self, task: CopyTask, **rest: Any) -> Copied:
        self.sizes.append(task.target_uri.rpartition("/")[2])
        return super().publish(task, **rest)


def test_a_pool_with_many_copies_leaves_its_threads_to_others_in_turn() -> None:
    threads, copier = SharedThreads(1, reserved=0, name="copy"), Noting()
    many, few = (CopyPool(copier, workers=1, threads=threads) for _ in range(2))
    queued = [many.submit(sized(1)) for _ in range(5 * UNSETTLED_MAX)]
    assert copier.began.acquire(timeout=DEADLINE_S)
    copy = few.submit(sized(2))
    copier.gate.set()
    few.wait([copy], DEADLINE_S)
    many.wait(queued, DEADLINE_S)
    assert copier.sizes.index("2") <= UNSETTLED_MAX
    assert many.close(DEADLINE_S)
    assert few.close(DEADLINE_S)
    threads.close()


def test_copies_of_a_load_leave_the_threads_of_replay_free() -> None:
    threads, load_threads = (SharedThreads(1, reserved=0, name="copy") for _ in range(2))
    loads, replays = Gated(), Gated()
    policies = [
        CopyPool(copier, workers=1, threads=threads, load_threads=load_threads) for copier in (loads, replays)
    ]
    with policies[0].as_load():
        load = policies[0].submit(sized(1))
        assert loads.began.acquire(timeout=DEADLINE_S)
    replays.gate.set()
    policies[1].wait([policies[1].submit(sized(1))], DEADLINE_S)
    loads.gate.set()
    policies[0].wait([load, policies[0].submit(sized(1))], DEADLINE_S)
    assert all(pool.close(DEADLINE_S) for pool in policies)
    for shared in (threads, load_threads):
        shared.close()


def test_a_pool_that_is_closed_does_not_wait_for_the_threads_of_others() -> None:
    threads, busy, idle = SharedThreads(1, reserved=0, name="copy"), Gated(), Gated()
    other, pool = CopyPool(busy, workers=1, threads=threads), CopyPool(idle, workers=1, threads=threads)
    running = other.submit(sized(1))
    assert busy.began.acquire(timeout=DEADLINE_S)
    queued = pool.submit(sized(1))
    assert pool.close(DEADLINE_S)
    with pytest.raises(FilesUnavailable, match="closed"):
        queued.result(0)
    busy.gate.set()
    assert other.wait([running], DEADLINE_S)
    assert other.close(DEADLINE_S)
    threads.close()


def test_no_copy_is_lost_while_workers_end() -> None:
    threads, copier = SharedThreads(2, name="copy", idle_s=0.0002), Gated()
    copier.gate.set()
    pool = CopyPool(copier, workers=2, threads=threads)
    try:
        for number in range(2_000):
            pool.wait([pool.submit(sized(1)) for _ in range(number % 4)], DEADLINE_S)
        pool.check()
    finally:
        assert pool.close(DEADLINE_S)


def test_an_error_is_raised_by_its_own_handle_and_the_other_files_are_copied(warehouse: Warehouse) -> None:
    good, bad = warehouse.wrote(name="good"), warehouse.wrote(name="bad")
    path_of(bad).unlink()
    pool = CopyPool(warehouse.copier(), workers=2)
    try:
        handles = [pool.submit(warehouse.task(source)) for source in (bad, good)]
        with pytest.raises(FileLost):
            pool.wait(handles, DEADLINE_S)
        assert all(handle.done for handle in handles)
        assert handles[1].result().size_bytes == 4
        assert pool.counters().failed == 1
    finally:
        pool.close()


def test_bytes_in_flight_stay_below_their_limit_and_a_larger_file_goes_alone() -> None:
    copier = Gated()
    pool = CopyPool(copier, workers=8, bytes_in_flight_max=100)
    try:
        handles = [pool.submit(sized(size)) for size in (60, 60, 60, 40, 250)]
        assert copier.began.acquire(timeout=DEADLINE_S)
        copier.gate.set()
        pool.wait(handles, DEADLINE_S)
        assert copier.in_flight_max in {60, 100, 250}
        pool.check()
    finally:
        pool.close()


def test_a_full_queue_makes_the_submitter_wait() -> None:
    copier = Gated()
    pool = CopyPool(copier, workers=1, queue_max=1)
    try:
        first = pool.submit(sized(1))
        assert copier.began.acquire(timeout=DEADLINE_S)
        second = pool.submit(sized(1))
        submitted = threading.Event()

        def submit_third() -> None:
            pool.submit(sized(1))
            submitted.set()

        threading.Thread(target=submit_third, daemon=True).start()
        assert not submitted.wait(0.1)
        copier.gate.set()
        assert submitted.wait(DEADLINE_S)
        pool.wait([first, second], DEADLINE_S)
    finally:
        pool.close()


def test_cancelled_copies_end_without_an_outcome() -> None:
    copier = Gated()
    pool = CopyPool(copier, workers=1)
    try:
        running, queued = pool.submit(sized(1)), pool.submit(sized(2))
        assert copier.began.acquire(timeout=DEADLINE_S)
        pool.cancel([running, queued])
        for handle in (running, queued):
            with pytest.raises(FilesUnavailable, match="cancelled"):
                handle.result(DEADLINE_S)
        assert copier.in_flight_max == 1
    finally:
        pool.close()


def test_closing_ends_running_and_queued_copies_and_refuses_new_ones() -> None:
    copier = Gated()
    pool = CopyPool(copier, workers=1)
    handles = [pool.submit(sized(1)), pool.submit(sized(1))]
    assert copier.began.acquire(timeout=DEADLINE_S)
    assert pool.close(DEADLINE_S)
    for handle in handles:
        with pytest.raises(FilesUnavailable):
            handle.result(DEADLINE_S)
    with pytest.raises(FilesUnavailable, match="closed"):
        pool.submit(sized(1))
    assert pool.close(DEADLINE_S)


def test_closing_returns_within_its_time_limit_when_a_file_system_hangs() -> None:
    class Hanging(Gated):
        def publish(
            self,
            task: CopyTask,  # noqa: ARG002 - the signature of what it stands for
            *,
            cancelled: Cancellation | None = None,  # noqa: ARG002 - likewise
            reserve: Reserve | None = None,  # noqa: ARG002 - likewise
            moved: Moved | None = None,  # noqa: ARG002 - likewise
            **_: Any,
        ) -> Copied:
            self.began.release()
            self.gate.wait(DEADLINE_S)
            return Copied(0, from_change_manager=False, skipped=True, seconds=0.0)

    copier = Hanging()
    pool = CopyPool(copier, workers=1)
    handle = pool.submit(sized(1))
    assert copier.began.acquire(timeout=DEADLINE_S)
    assert not pool.close(timeout_s=0.05)
    with pytest.raises(FilesUnavailable, match="did not end in time"):
        handle.result(timeout_s=0.01)
    copier.gate.set()
    assert pool.close(DEADLINE_S)


def test_a_defect_in_a_copy_is_raised_to_its_caller_and_does_not_end_the_pool() -> None:
    copier = Gated()
    copier.gate.set()
    pool = CopyPool(copier, workers=1)
    try:
        for _ in range(3):
            with pytest.raises(ValueError, match="invalid literal"):
                pool.submit(CopyTask(SourceFile("file:/s"), "file:/t/no-number")).result(DEADLINE_S)
        assert pool.wait([pool.submit(sized(1))], DEADLINE_S)
    finally:
        pool.close()


class Trickling(Gated):
    """Moves one byte, then waits for its gate; a task of size 0 moves nothing."""

    def publish(
        self,
        task: CopyTask,
        *,
        cancelled: Cancellation | None = None,
        reserve: Reserve | None = None,
        moved: Moved | None = None,
        **_: Any,
    ) -> Copied:
        assert moved is not None
        if not task.target_uri.endswith("/0"):
            moved(1)
        return super().publish(task, cancelled=cancelled, reserve=reserve)


def test_a_waiting_caller_beats_while_bytes_move() -> None:
    copier, beats = Trickling(), list[bool]()

    def beat() -> None:
        beats.append(handle.done)
        copier.gate.set()  # the copy ends only because its progress was seen

    pool = CopyPool(copier, workers=1, beat=beat)
    try:
        handle = pool.submit(sized(1))
        pool.wait([handle], DEADLINE_S)
        assert beats[0] is False, "a copy that still runs has sent a heartbeat"
    finally:
        assert pool.close(DEADLINE_S)


def test_a_copy_that_moves_no_byte_sends_no_heartbeat() -> None:
    copier, beats = Trickling(), list[int]()
    pool = CopyPool(copier, workers=1, beat=lambda: beats.append(1))
    try:
        stuck = pool.submit(sized(0))
        assert copier.began.acquire(timeout=DEADLINE_S)
        with pytest.raises(FilesUnavailable, match="did not end in time"):
            pool.wait([stuck], 0.5)
        assert beats == []
    finally:
        copier.gate.set()
        assert pool.close(DEADLINE_S)


def test_copies_that_only_verify_count_as_progress(warehouse: Warehouse) -> None:
    task, moved = warehouse.task(warehouse.wrote(b"x" * 10)), list[int]()
    warehouse.copier().copy(task)
    assert warehouse.copier().copy(task, moved=moved.append).skipped
    assert moved == [10]


class Settling(Gated):
    """Publishes at once, and says in which order files are published and directories settled; a directory
    ``bad`` fails."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def publish(
        self,
        task: CopyTask,
        *,
        cancelled: Cancellation | None = None,  # noqa: ARG002 - the signature of what it stands for
        reserve: Reserve | None = None,
        moved: Moved | None = None,  # noqa: ARG002 - likewise
        **_: Any,
    ) -> Copied:
        self.began.release()
        self.gate.wait(DEADLINE_S)
        size = int(task.target_uri.rpartition("/")[2])
        assert reserve is not None
        with reserve(size):
            self.steps.append(task.target_uri)
        return Copied(size, from_change_manager=False, skipped=False, seconds=0.0)

    def settle(self, directory: Location) -> None:
        self.steps.append(f"settle {directory}")
        if directory.name == "bad":
            raise FilesUnavailable("no space is left")


def test_small_files_that_wait_are_settled_together_and_end_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handles_module, "UNSETTLED_S", DEADLINE_S)
    copier = Settling()
    pool = CopyPool(copier, workers=1)
    try:
        first = pool.submit(CopyTask(SourceFile("file:/s"), "file:/a/0"))
        assert copier.began.acquire(timeout=DEADLINE_S)
        others = [pool.submit(CopyTask(SourceFile("file:/s"), f"file:/a/{n}")) for n in range(1, 10)]
        assert not first.done
        copier.gate.set()
        pool.wait([first, *others], DEADLINE_S)
        assert copier.steps == [*(f"file:/a/{n}" for n in range(10)), "settle file:/a"]
    finally:
        assert pool.close(DEADLINE_S)


def test_files_that_have_ended_do_not_wait_for_a_large_one() -> None:
    copier = Settling()
    pool = CopyPool(copier, workers=1)
    try:
        first = pool.submit(CopyTask(SourceFile("file:/s"), "file:/a/0"))
        assert copier.began.acquire(timeout=DEADLINE_S)
        large = pool.submit(CopyTask(SourceFile("file:/s"), "file:/a/99999999"))
        copier.gate.set()
        pool.wait([first, large], DEADLINE_S)
        assert copier.steps == ["file:/a/0", "settle file:/a", "file:/a/99999999", "settle file:/a"]
    finally:
        assert pool.close(DEADLINE_S)


def test_a_directory_that_cannot_be_settled_fails_its_own_copies_only() -> None:
    copier = Settling()
    pool = CopyPool(copier, workers=1)
    try:
        first = pool.submit(CopyTask(SourceFile("file:/s"), "file:/bad/0"))
        assert copier.began.acquire(timeout=DEADLINE_S)
        other = pool.submit(CopyTask(SourceFile("file:/s"), "file:/a/1"))
        copier.gate.set()
        with pytest.raises(FilesUnavailable, match="no space"):
            first.result(DEADLINE_S)
        assert other.result(DEADLINE_S).size_bytes == 1
        assert (pool.counters().files, pool.counters().failed) == (1, 1)
    finally:
        assert pool.close(DEADLINE_S)
