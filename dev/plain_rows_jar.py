"""Compiles the parser of plain rows (``streaming/split/java``) into its jar: ``python -m
dev.plain_rows_jar``.

Janino is the compiler with which Spark compiles its own generated code. It is among PySpark's jars, so
neither a JDK nor a download is needed, and the same sources give the same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any, Final

from streaming.split.plain_rows import JAR, SOURCES


LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)


def compile_sources(gateway: Any) -> dict[str, bytes]:
    """Return the class files by their paths in the jar. ``gateway`` is a connection to a JVM with Spark's
    jars.
    """
    jvm = gateway.jvm
    resources = jvm.org.codehaus.commons.compiler.util.resource
    compiled = jvm.java.util.HashMap()
    compiler = jvm.org.codehaus.janino.Compiler()
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()  # Spark's jars, without the one to be compiled
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setClassFileCreator(resources.MapResourceCreator(compiled))
    files = sorted(SOURCES.glob("*.java"))
    sources = gateway.new_array(resources.Resource, len(files))
    for number, file in enumerate(files):
        sources[number] = resources.StringResource(file.name, file.read_text(encoding="utf-8"))
    compiler.compile(sources)
    return {str(path): bytes(content) for path, content in compiled.items()}


def read_jar() -> dict[str, bytes]:
    """Return the class files of the jar by their paths."""
    with zipfile.ZipFile(JAR) as jar:
        return {name: jar.read(name) for name in jar.namelist()}


def write_jar(classes: Mapping[str, bytes]) -> None:
    """Write the jar. Equal classes give equal bytes."""
    with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in sorted(classes.items()):
            jar.writestr(zipfile.ZipInfo(name, LONG_AGO), content, zipfile.ZIP_DEFLATED)


def main() -> None:
    """Compile and write the jar."""
    from pyspark.java_gateway import launch_gateway

    from streaming.driver.installation import use_java

    use_java()
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        write_jar(compile_sources(gateway))
    finally:
        gateway.shutdown()


if __name__ == "__main__":
    main()
