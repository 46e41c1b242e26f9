"""Every crash point of the SQLite store:
killed at each system call that changes the state file, it recovers whole.

``strace`` kills the program at the K-th call of one kind, for K = 1, 2, … until a run gets through. After
each kill the file is opened as the daemon would, must hold exactly the state of one step, not older than what
an earlier kill left, and a second run must reach the end. SIGKILL keeps the page cache, so this is about
processes; torn writes of a power loss are covered by cutting the log of a killed program at every 512 bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from state.errors import FilesUnavailable, StateCorrupt
from state.event_log.positions import POSITION_KEY, Position
from state.store.sqlite import SqliteStore
from tests.builders.components.availability import require_program
from tests.crash.programs.apply_and_move import apply, expected, main


pytestmark = pytest.mark.crash

STEPS = 6
POINTS_MAX = 400
SYSCALLS = ("openat", "pwrite64", "fdatasync,fsync", "ftruncate", "unlink", "close")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def strace() -> None:
    require_program("strace")


def run_killed(path: Path, syscalls: str, when: int, fault: str = "signal=SIGKILL") -> int:
    """Run the program with one fault at the ``when``-th of ``syscalls`` on its files; return its exit
    code."""
    return run_with_fault(path, syscalls, when, fault).returncode


def run_with_fault(
    path: Path, syscalls: str, when: int, fault: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run the program with one fault, at the ``when``-th of ``syscalls`` on its files in any of its
    threads."""
    on_files = [part for name in ("", "-wal") for part in ("-P", f"{path}{name}")]
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={syscalls}", *on_files]
    command += ["-e", f"inject={syscalls}:{fault}:when={when}"]
    program = [sys.executable, str(ROOT / "tests/crash/programs/apply_and_move.py"), str(path), str(STEPS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, *program, *options], env=environment, check=False, capture_output=True, text=True
    )


def recovered_step(path: Path) -> int:
    """Open the file as after a crash and return which step's state it holds, having compared all of it."""
    store = SqliteStore(path, schema_version=1)
    try:
        store.check()
        stored = store.get(POSITION_KEY)
        step = 0 if stored is None else Position.from_bytes(stored).event_id
        assert dict(store.scan(b"", None)) == expected(step)
        return step
    finally:
        store.close()


@pytest.mark.parametrize("syscalls", SYSCALLS)
def test_a_kill_at_any_call_leaves_a_whole_transaction_and_the_next_run_finishes(
    syscalls: str, tmp_path: Path
) -> None:
    steps_seen, before = [], 0
    for when in range(1, POINTS_MAX):
        path = tmp_path / f"{when}.db"
        exit_code = run_killed(path, syscalls, when)
        step = recovered_step(path)
        assert step >= before, "a later kill finds at least as much"
        before = step
        steps_seen.append(step)
        main(str(path), STEPS)
        assert recovered_step(path) == STEPS
        if exit_code == 0:
            break
    else:
        pytest.fail(f"more than {POINTS_MAX} calls of {syscalls}")
    assert steps_seen[-1] == STEPS
    # T201: the figure is the result
    print(f"{syscalls}: {len(steps_seen) - 1} crash points, all recovered")  # noqa: T201


@pytest.mark.parametrize("syscalls", ["pwrite64", "fdatasync,fsync", "ftruncate"])
def test_a_kill_while_a_thread_copies_the_log_loses_nothing_that_was_committed(
    syscalls: str, tmp_path: Path
) -> None:
    """Which call is the K-th one differs from run to run, so the program itself tells what it has
    committed."""
    for when in range(1, POINTS_MAX):
        path = tmp_path / f"{when}.db"
        ended = run_with_fault(path, syscalls, when, "signal=SIGKILL", "checkpoints")
        committed = [0, *map(int, ended.stdout.split())]
        assert recovered_step(path) in {committed[-1], committed[-1] + 1}
        main(str(path), STEPS, snapshots=True)
        assert recovered_step(path) == STEPS
        if ended.returncode == 0:
            break
    else:
        pytest.fail(f"more than {POINTS_MAX} calls of {syscalls}")
    assert committed[-1] == STEPS


@pytest.mark.parametrize("syscall", ["pwrite64", "fdatasync"])
def test_a_disk_that_refuses_a_copy_of_the_log_loses_nothing_that_was_committed(
    syscall: str, tmp_path: Path
) -> None:
    for when in range(1, 12):
        path = tmp_path / f"{when}.db"
        ended = run_with_fault(path, syscall, when, "error=EIO", "checkpoints")
        committed = [0, *map(int, ended.stdout.split())]
        assert recovered_step(path) >= committed[-1]
        main(str(path), STEPS, snapshots=True)
        assert recovered_step(path) == STEPS


@pytest.mark.parametrize(("syscall", "error"), [("pwrite64", "ENOSPC"), ("fdatasync", "EIO")])
def test_a_disk_that_refuses_stops_the_program_with_the_last_whole_transaction(
    syscall: str, error: str, tmp_path: Path
) -> None:
    for when in (2, 5, 9):
        path = tmp_path / f"{when}.db"
        exit_code = run_killed(path, syscall, when, f"error={error}")
        assert exit_code == 1
        assert recovered_step(path) <= STEPS
        main(str(path), STEPS)
        assert recovered_step(path) == STEPS


def test_a_log_cut_anywhere_recovers_to_a_whole_transaction(tmp_path: Path) -> None:
    """What a power loss may leave of the last writes: the log, shorter than it was."""
    path, cut = tmp_path / "state.db", tmp_path / "cut.db"
    store = SqliteStore(path, schema_version=1)
    for step in range(1, STEPS + 1):
        apply(store, step)
    whole, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    steps = []
    for length in range(0, len(log) + 512, 512):
        cut.write_bytes(whole)
        Path(f"{cut}-wal").write_bytes(log[:length])
        steps.append(recovered_step(cut))
    store.close()
    assert steps == sorted(steps)
    assert set(steps) == set(range(STEPS + 1))


def test_a_log_with_any_bit_turned_recovers_to_a_whole_transaction_or_is_refused(tmp_path: Path) -> None:
    path, bad = tmp_path / "state.db", tmp_path / "bad.db"
    store = SqliteStore(path, schema_version=1)
    for step in range(1, STEPS + 1):
        apply(store, step)
    whole, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    for at in range(5, len(log), 997):
        bad.write_bytes(whole)
        damaged = bytearray(log)
        damaged[at] ^= 0x10
        Path(f"{bad}-wal").write_bytes(damaged)
        try:
            assert recovered_step(bad) <= STEPS
        except (StateCorrupt, FilesUnavailable):
            continue
    store.close()
