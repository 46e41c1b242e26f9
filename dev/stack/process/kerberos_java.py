"""Kerberos for SASL in Java programs: the module ``jdk.security.jgss``, which the pinned Java 21 does not have.

Hive 4.2 needs Java 21, and Hadoop does not run on Java 24 and later. If no complete Java of these versions is installed, the seven classes
of the module are taken from any older JDK (Debian: openjdk-17-jdk-headless) and put on the class path; they are the same in all versions.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from dev.stack.errors import ComponentFailed
from dev.stack.process.java_runtime import find_java, find_java_with


if TYPE_CHECKING:
    from pathlib import Path


MODULE: Final = "jdk.security.jgss"
NEWEST: Final = 21
PACKAGE: Final = "com/sun/security/sasl/gsskerb"
OPTIONS: Final = tuple(
    f"--add-exports={package}=ALL-UNNAMED"
    for package in ("java.base/sun.security.util", "java.security.sasl/com.sun.security.sasl.util")
)
"""Options of a Java program with these classes on its class path."""


def extract_sasl_classes(directory: Path) -> Path:
    """Return a directory for the class path of ``find_java()``; raise Missing if no suitable Java is installed."""
    complete = find_java_with(MODULE, NEWEST).resolve()
    if complete == find_java().resolve():
        directory.mkdir(parents=True)
        return directory
    image, tool = complete.parents[1] / "lib" / "modules", complete.with_name("jimage")
    pattern = f"regex:/{MODULE}/{PACKAGE}/.*"
    done = subprocess.run(
        [tool, "extract", "--dir", directory, "--include", pattern, image],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ComponentFailed(f"jimage failed: {done.stdout}{done.stderr}")
    classes = directory / MODULE
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "java.security.Provider").write_text(f"{PACKAGE.replace('/', '.')}.JdkSASL\n")
    return classes
