"""Checks the requirements of Spark on a driver's machine: PySpark, a supported Java, and three programs.

PySpark starts its JVM by a shell script, and Hadoop starts ``chmod`` for each file that it creates on a local
disk. A service with a short ``PATH`` may not find these programs. Spark would then end without a reason, or
fail after half a minute, so Tideline checks them first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from state.errors import ConfigError


SPARK: Final = "4.0"
"""The minor version of Spark for which ``plain_rows.jar`` is compiled. It calls classes of Spark that change
between minor versions."""
JAVA_OLDEST: Final = 17
JAVA_NEWEST: Final = 21
"""Spark 4.0 targets Java 17 and supports 21; newer versions lack APIs that its Hadoop libraries need."""
PROGRAMS: Final = ("bash", "chmod", "dirname")
"""Programs that PySpark's start script and Hadoop look up in ``PATH``."""
_CORE: Final = re.compile(r"spark-core_[\d.]+-(.+)\.jar", re.ASCII)


def require_installation() -> None:
    """Raise ConfigError if a supported PySpark, a program or a supported Java is missing; point Spark to this
    Java.
    """
    check_installed()
    require_programs()
    use_java()


def require_programs() -> None:
    """Raise ConfigError with the programs that ``PATH`` lacks."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        raise ConfigError(
            f"Spark needs programs that PATH does not contain: {', '.join(missing)}",
            PATH=os.environ.get("PATH", ""),
            hint="Add their directories to PATH, such as /usr/bin:/bin (Debian packages: bash and "
            "coreutils).",
        )


def check_installed() -> None:
    """Raise ConfigError if PySpark is missing or its minor version differs from ``SPARK``."""
    try:
        import pyspark
    except ImportError as error:
        raise ConfigError(
            "PySpark is not installed", hint="Install the extra: pip install 'tideline[flat]'."
        ) from error
    for name, version in [("PySpark", pyspark.__version__), *_find_spark_home()]:
        if version.split(".")[:2] != SPARK.split("."):
            raise ConfigError(
                f"{name} {version} is not supported: Tideline's parser and writer of rows are compiled for "
                f"Spark {SPARK}",
                hint="Install the tested version: pip install 'tideline[flat]'. If SPARK_HOME is set, it "
                f"must name a Spark {SPARK}.",
            )


def _find_spark_home() -> list[tuple[str, str]]:
    """Return the version of another Spark that PySpark would start instead of its own jars; None if there is
    none.
    """
    home = os.environ.get("SPARK_HOME")
    jars = Path(home).glob("jars/spark-core_*.jar") if home else ()
    names = [_CORE.fullmatch(jar.name) for jar in jars]
    return [(f"SPARK_HOME={home}: Spark", name[1]) for name in names if name]


def use_java() -> None:
    """Point Spark to a supported Java from JAVA_HOME, ``PATH`` or the installed ones, in this order.

    Raises ConfigError with the versions found if none is supported.
    """
    found_versions = {}
    for home in _find_java_homes():
        version = _read_major_version(home)
        if JAVA_OLDEST <= version <= JAVA_NEWEST:
            os.environ["JAVA_HOME"] = str(home)
            return
        found_versions[str(home)] = version
    raise ConfigError(
        "Spark needs Java 17 or 21",
        found=found_versions,
        hint="Install a JDK 17 (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one.",
    )


def _find_java_homes() -> list[Path]:
    homes = []
    if named := os.environ.get("JAVA_HOME"):
        homes.append(Path(named))
    if program := shutil.which("java"):
        homes.append(Path(program).resolve().parent.parent)
    return [*homes, *sorted(Path("/usr/lib/jvm").glob("*17*"))]


def _read_major_version(home: Path) -> int:
    """Return the major version of a Java, from its file ``release`` or by running it; 0 if that fails."""
    with suppress(OSError):
        if named := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(), re.MULTILINE):
            return int(named[1])
    try:
        answer = subprocess.run(  # noqa: S603 (the Java that the user has named)
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else 0
