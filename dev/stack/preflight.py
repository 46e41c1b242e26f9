"""Checks that this machine meets the requirements of the stack, before anything is downloaded.

Each check returns None, or one sentence that names the missing thing and the remedy. All checks run, so that
one run reports every problem. The module needs only the standard library: ``make venv`` runs it (``python -m
dev.stack.preflight``) before it installs a single package.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dev.stack.downloads import maven_repository
from dev.stack.downloads.jars import cache_dir, find_missing, read_lock
from dev.stack.errors import Missing
from dev.stack.process import java_runtime
from dev.stack.process.ports import require_free


OLDEST_PYTHON = (3, 11)
LOCK_NAMES = ("kafka", "hive", "compiler", "hbase", "hdfs", "spark-kafka", "spark-iceberg")
# Measured: 345 MB of jars (119 MB of them for HBase), 900 MB of Python packages, and below 200 MB of a
# stack's data and logs.
CACHE_BYTES = 500 << 20
DATA_BYTES = 1500 << 20
# Kafka 0.25 + two metastores 0.7 + two engines 1.2 GB, and the tests themselves.
MEMORY_BYTES = 3 << 30


def check_machine(data: Path, ports: Sequence[int] = ()) -> None:
    """Check everything that needs no Python packages; raise Missing with all problems, one per line."""
    _run_checks(
        check_python,
        check_platform,
        check_java,
        lambda: check_disk(cache_dir(), CACHE_BYTES, "the jar cache (set TIDELINE_CACHE to move it)"),
        lambda: check_disk(
            data, DATA_BYTES, "the packages and the data of the stack (use --dir to move the data)"
        ),
        check_memory,
        *(lambda port=port: check_port(port) for port in ports),
    )


def check_all(data: Path, ports: Sequence[int] = ()) -> None:
    """Check everything, once the packages are installed; raise Missing with all problems, one per line."""
    check_machine(data, ports)
    _run_checks(check_installed_java, check_repository)


def _run_checks(*checks: Callable[[], str | None]) -> None:
    if problems := [problem for check in checks if (problem := check())]:
        raise Missing("\n".join(problems))


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> str | None:
    """Require Python 3.11 or newer."""
    if version >= OLDEST_PYTHON:
        return None
    return (
        f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is required, found "
        f"{'.'.join(map(str, version))}: install one and run 'make venv PYTHON=/path/to/python3'"
    )


def check_platform(system: str = platform.system()) -> str | None:
    """Require Linux, because process handling reads /proc."""
    return (
        None
        if system == "Linux"
        else f"the stack runs on Linux only, not on {system}: use a container or a virtual machine"
    )


def check_java() -> str | None:
    """Require a Java that runs Hive 4.2, or a platform for which a wheel provides one."""
    return None if java_runtime.wheel_exists() else _catch_missing(java_runtime.find_java)


def check_installed_java() -> str | None:
    """Require a Java that runs Hive 4.2."""
    return _catch_missing(java_runtime.find_java)


def check_disk(directory: Path, needed_bytes: int, what: str) -> str | None:
    """Require free space below the directory, which need not exist yet."""
    existing = next(
        parent for parent in [directory.resolve(), *directory.resolve().parents] if parent.exists()
    )
    free = shutil.disk_usage(existing).free
    if free >= needed_bytes:
        return None
    return (
        f"{free >> 20} MB are free at {existing}, but {needed_bytes >> 20} MB are required for {what}: "
        "free some space"
    )


def check_memory() -> str | None:
    """Require available memory."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    if available >= MEMORY_BYTES:
        return None
    return (
        f"{available >> 20} MB of memory are available, {MEMORY_BYTES >> 20} MB are required: close "
        "other programs"
    )


def check_repository() -> str | None:
    """Require a Maven repository, unless all jars are cached."""
    if not find_missing(jar for name in LOCK_NAMES for jar in read_lock(name)):
        return None
    return _catch_missing(maven_repository.find_repository)


def check_port(port: int) -> str | None:
    """Require that a requested port is free."""
    return _catch_missing(lambda: require_free(port, "the stack"))


def _catch_missing(check: Callable[[], object]) -> str | None:
    try:
        check()
    except Missing as error:
        return str(error)
    return None


def main() -> None:
    """Check the machine for ``make venv``; exit with 1 if a requirement is not met."""
    try:
        check_machine(Path.cwd())
    except Missing as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
