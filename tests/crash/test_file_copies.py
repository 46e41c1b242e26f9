"""A copy is killed at every system call that changes something, and the next process must finish it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from handlers.events import SourceFile
from handlers.files.systems.schemes import open_file_systems
from tests.builders.components.availability import require_program
from tests.builders.replication.warehouse import DELTA, Warehouse


pytestmark = pytest.mark.crash

REPOSITORY = Path(__file__).parents[2]
CONTENT = bytes(range(256)) * 10_000  # three chunks, so there is a half-written file to die in
NAME = f"{DELTA}/bucket_00000_0"
CALLS = ("mkdirat", "openat", "openat2", "write", "copy_file_range", "fsync", "renameat", "close")
PROGRAM = """
import sys
from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from state.errors import FilesUnavailable
source = SourceFile(sys.argv[1], sys.argv[2] or None, sys.argv[3] or None)
target, root = sys.argv[4], sys.argv[5]
try:
    Copier(open_file_systems(), AllowedRoots.of([root])).copy(CopyTask(source, target))
except FilesUnavailable:
    sys.exit(3)
"""


@pytest.fixture(autouse=True)
def strace() -> None:
    require_program("strace")


def run(warehouse: Warehouse, source: SourceFile, *options: str) -> int:
    task = warehouse.task(source)
    arguments = (
        source.uri,
        source.checksum or "",
        source.cm_root or "",
        task.target_uri,
        f"file:{warehouse.root}",
    )
    command = ["strace", "-f", "-qq", *options, sys.executable, "-B", "-c", PROGRAM, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command, cwd=warehouse.root, env=environment, check=False, stderr=subprocess.DEVNULL
    ).returncode


def steps(log: Path, target: Path) -> list[tuple[str, int]]:
    """Return (system call, its number among those of its name) for each call since the first that names the
    target. Calls name files within an open directory, whose path ``strace -y`` adds.
    """
    seen: dict[str, int] = {}
    found: list[tuple[str, int]] = []
    for line in log.read_text().splitlines():
        match = re.search(r"(?:^|\s)(\w+)\(", line)
        if match is None or match[1] not in CALLS:
            continue
        seen[match[1]] = seen.get(match[1], 0) + 1
        if found or str(target) in line:
            found.append((match[1], seen[match[1]]))
    return found


def traced_steps(warehouse: Warehouse, source: SourceFile) -> list[tuple[str, int]]:
    log = warehouse.root / "log"
    assert run(warehouse, source, "-y", "-o", str(log), "-e", f"trace={','.join(CALLS)}") == 0
    found = steps(log, warehouse.target.parent)
    assert {"openat", "fsync", "renameat"} <= {call for call, _ in found}
    return found


def prepared(root: Path, *, checksum: bool, present: bool) -> tuple[Warehouse, SourceFile]:
    """Return a source file to copy; if ``present``, the target already has an older file of its name."""
    warehouse = Warehouse(root)
    if present:
        (warehouse.target / DELTA).mkdir(parents=True)
        (warehouse.target / NAME).write_bytes(b"old")
    return warehouse, warehouse.wrote(CONTENT, checksum=checksum)


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("checksum", [True, False])
def test_a_copy_killed_anywhere_is_finished_by_the_next(
    tmp_path_factory: pytest.TempPathFactory, checksum: bool, present: bool
) -> None:
    plan = traced_steps(*prepared(tmp_path_factory.mktemp("plan"), checksum=checksum, present=present))
    for call, number in plan:
        warehouse, source = prepared(tmp_path_factory.mktemp("crash"), checksum=checksum, present=present)
        inject = f"inject={call}:signal=SIGKILL:when={number}"
        assert run(warehouse, source, "-e", f"trace={call}", "-e", inject) != 0, (call, number)
        visible = {name: data for name, data in warehouse.target_files().items() if "._tideline_" not in name}
        assert visible in ({NAME: CONTENT}, {NAME: b"old"} if present else {}), (call, number)
        warehouse.copier(open_file_systems()).copy(warehouse.task(source))
        assert warehouse.target_files() == {NAME: CONTENT}, (call, number)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EDQUOT"])
def test_a_failing_disk_leaves_no_partial_file(
    tmp_path_factory: pytest.TempPathFactory, error: str, checksum: bool
) -> None:
    plan = traced_steps(*prepared(tmp_path_factory.mktemp("plan"), checksum=checksum, present=False))
    failing = ("mkdirat", "write" if checksum else "copy_file_range", "renameat")
    assert set(failing) <= {call for call, _ in plan}
    for call in failing:
        for number in [count for name, count in plan if name == call][:2]:
            warehouse, source = prepared(tmp_path_factory.mktemp("full"), checksum=checksum, present=False)
            options = ("-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}")
            assert run(warehouse, source, *options) == 3, (call, number)
            assert warehouse.target_files() == {}, (call, number)


def test_a_file_whose_fsync_failed_is_not_published(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    (warehouse.target / DELTA).mkdir(parents=True)
    source = warehouse.wrote(CONTENT)
    assert run(warehouse, source, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1") == 3
    assert warehouse.target_files() == {}


GROUP_PROGRAM = """
import os, sys
from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.paths import AllowedRoots
from handlers.files.copying.pool import CopyPool
from handlers.files.systems.schemes import open_file_systems
root, target = sys.argv[1], sys.argv[2]
pool = CopyPool(Copier(open_file_systems(), AllowedRoots.of([root])), workers=1)
handles = [
    pool.submit(CopyTask(SourceFile(uri), f"{target}/{uri.rpartition('/')[2]}")) for uri in sys.argv[3:]
]
for handle in handles:
    handle.result()
    os.write(9, b"reported")
pool.close()
"""
GROUP: Final = 8


def run_group(warehouse: Warehouse, sources: list[SourceFile], *options: str) -> int:
    """Copy files with one worker, which settles them together; descriptor 9 takes a word for each reported
    copy."""
    arguments = (
        f"file:{warehouse.root}",
        f"file:{warehouse.target}/{DELTA}",
        *(each.uri for each in sources),
    )
    strace = ["strace", "-f", "-y", "-qq", *options]
    command = [*strace, sys.executable, "-B", "-c", GROUP_PROGRAM, *arguments]
    shell = ["sh", "-c", 'exec 9>/dev/null; exec "$@"', "sh", *command]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0"}
    return subprocess.run(
        shell, cwd=warehouse.root, env=environment, check=False, stderr=subprocess.DEVNULL
    ).returncode


def prepared_group(root: Path) -> tuple[Warehouse, list[SourceFile]]:
    warehouse = Warehouse(root)
    return warehouse, [
        warehouse.wrote(bytes([number]) * 100, name=f"bucket_0000{number}_0") for number in range(GROUP)
    ]


def test_a_copy_of_a_group_is_reported_only_when_its_content_and_its_name_are_durable(tmp_path: Path) -> None:
    warehouse, sources = prepared_group(tmp_path)
    log = tmp_path / "log"
    assert run_group(warehouse, sources, "-o", str(log), "-e", "trace=fsync,renameat,write") == 0
    calls = log.read_text().splitlines()
    directory = f"{warehouse.target}/{DELTA}"
    renames = [number for number, line in enumerate(calls) if "renameat(" in line and directory in line]
    hidden = [number for number, line in enumerate(calls) if "fsync(" in line and f"<{directory}/._" in line]
    settled = [number for number, line in enumerate(calls) if "fsync(" in line and f"<{directory}>" in line]
    reports = [number for number, line in enumerate(calls) if '"reported"' in line]
    assert len(renames) == len(hidden) == len(reports) == GROUP
    assert all(synced < renamed for synced, renamed in zip(hidden, renames, strict=True))
    for renamed, reported in zip(renames, reports, strict=True):
        assert any(renamed < number < reported for number in settled)


def test_a_group_killed_anywhere_leaves_whole_files_and_is_finished_by_the_next(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for call, numbers in (("fsync", (1, 2, 5, 9)), ("renameat", (1, 4, 8)), ("close", (40, 60))):
        for number in numbers:
            warehouse, sources = prepared_group(tmp_path_factory.mktemp("group"))
            inject = f"inject={call}:signal=SIGKILL:when={number}"
            assert run_group(warehouse, sources, "-e", f"trace={call}", "-e", inject) != 0, (call, number)
            for name, data in warehouse.target_files().items():
                assert "._tideline_" in name or data == bytes([int(name[-3])]) * 100, (call, number)
            for source in sources:
                warehouse.copier(open_file_systems()).copy(warehouse.task(source))
            assert len(warehouse.target_files()) == GROUP
