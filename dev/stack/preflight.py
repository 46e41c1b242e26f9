"""Does this machine have what the stack needs? Asked before anything is downloaded.

Each check gives None or one sentence that says what is missing and what to do; all of them are asked, so that one run
tells everything. The module needs the standard library alone: ``make venv`` runs it (``python -m dev.stack.preflight``)
before it installs a single package.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dev.stack.downloads import maven_repository
from dev.stack.downloads.jars import cache_dir, missing, read_lock
from dev.stack.errors import Missing
from dev.stack.process import java_runtime
from dev.stack.process.ports import require_free


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


OLDEST_PYTHON = (3, 11)
LOCK_NAMES = ("kafka", "hive", "compiler", "hbase", "spark-kafka")
# Measured: 345 MB of jars, 119 of them HBase; 900 MB of Python packages, and a stack's data and logs below 200 MB.
CACHE_BYTES = 500 << 20
DATA_BYTES = 1500 << 20
# Kafka 0.25 + two metastores 0.7 + two engines 1.2 GB, and the tests themselves.
MEMORY_BYTES = 3 << 30


def check_machine(data: Path, ports: Sequence[int] = ()) -> None:
    """What can be known before Python packages are installed; raises Missing with every problem, one a line."""
    _ask(
        check_python,
        check_platform,
        check_java,
        lambda: check_disk(cache_dir(), CACHE_BYTES, "the jar cache (TIDELINE_CACHE moves it)"),
        lambda: check_disk(data, DATA_BYTES, "the packages and the stack's data (--dir moves the data)"),
        check_memory,
        *(lambda port=port: check_port(port) for port in ports),
    )


def check_all(data: Path, ports: Sequence[int] = ()) -> None:
    """Everything, with the packages installed; raises Missing with every problem, one a line."""
    check_machine(data, ports)
    _ask(check_installed_java, check_repository)


def _ask(*checks: Callable[[], str | None]) -> None:
    if problems := [problem for check in checks if (problem := check())]:
        raise Missing("\n".join(problems))


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> str | None:
    """Python 3.11 or newer."""
    if version >= OLDEST_PYTHON:
        return None
    return f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed, this is {'.'.join(map(str, version))}: install one and run 'make venv' with PYTHON=/its/path"


def check_platform(system: str = platform.system()) -> str | None:
    """The process handling reads /proc."""
    return (
        None
        if system == "Linux"
        else f"the stack runs on Linux, not on {system}: use a container or a virtual machine"
    )


def check_java() -> str | None:
    """A Java that can run Hive 4.2, or a platform for which a wheel brings one."""
    return None if java_runtime.wheel_exists() else _told(java_runtime.java)


def check_installed_java() -> str | None:
    """A Java that can run Hive 4.2, here and now."""
    return _told(java_runtime.java)


def check_disk(directory: Path, needed_bytes: int, what: str) -> str | None:
    """Room below the directory, which need not exist yet."""
    there = next(parent for parent in [directory.resolve(), *directory.resolve().parents] if parent.exists())
    free = shutil.disk_usage(there).free
    if free >= needed_bytes:
        return None
    return f"{free >> 20} MB are free at {there}, {needed_bytes >> 20} MB are needed for {what}: make room"


def check_memory() -> str | None:
    """Memory that processes can still get."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    if available >= MEMORY_BYTES:
        return None
    return (
        f"{available >> 20} MB of memory are available, {MEMORY_BYTES >> 20} MB are needed: close something"
    )


def check_repository() -> str | None:
    """A place for jars, unless all are there already."""
    if not missing(jar for name in LOCK_NAMES for jar in read_lock(name)):
        return None
    return _told(maven_repository.repository_root)


def check_port(port: int) -> str | None:
    """A port that was asked for by number."""
    return _told(lambda: require_free(port, "the stack"))


def _told(check: Callable[[], object]) -> str | None:
    try:
        check()
    except Missing as error:
        return str(error)
    return None


def main() -> None:
    """Check the machine for what ``make venv`` is about to install; exit code 1 when it cannot work."""
    try:
        check_machine(Path.cwd())
    except Missing as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
