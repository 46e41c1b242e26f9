"""A Java process with few rights that compiles and runs the class ``Walker``, which reads Kryo bytes.

Kryo builds any object that its bytes name, and some classes run code while they are built. So bytes from an
untrusted client are code from an untrusted client (Hive's own answer: HIVE-26539), and are not read in this
process or with its rights. The Java process has 64 MiB and an empty environment, writes no files and no core
dumps, and runs as an unprivileged user where Tideline is root. Its class path contains only the jars that
reading needs, and Kryo may load only the classes of ``allowed.txt``. It is driven over py4j, which PySpark
includes like the jars, with a secret for the connection and a time limit for every answer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from state.errors import ConfigError, ServerFault


if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway


_JARS: Final = (
    "commons-compiler",
    "commons-lang-2",
    "commons-lang3",
    "commons-logging",
    "guava",
    "hadoop-client-api",
    "hadoop-client-runtime",
    "hive-common",
    "hive-exec",
    "hive-serde",
    "hive-shims",
    "hive-storage-api",
    "janino",
    "jcl-over-slf4j",
    "kryo-shaded",
    "minlog",
    "objenesis",
    "py4j",
    "slf4j-api",
)
_OPTIONS: Final = (
    "-Xmx64m",
    "-Xss1m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)
_LIMITED: Final = ("/bin/sh", "-c", 'ulimit -f 0 && ulimit -c 0 && ulimit -n 256 && exec "$@"', "sh")
"""Runs the command that follows without the right to write files or core dumps, and with few open files."""
_NOBODY: Final = 65_534


class JavaProcess:
    """A Java process and the connection to it."""

    def __init__(self, *, java: str | None = None, timeout_s: float = 30.0) -> None:
        """Start the process;
        raise ConfigError where Java or PySpark is missing, ServerFault where it does not start.
        """
        from py4j.java_gateway import GatewayParameters, JavaGateway
        from py4j.protocol import Py4JError

        self.process = _start(_find_java(java), _class_path())
        port, secret = self._read_greeting()
        self._gateway: JavaGateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=port,
                auth_token=secret,
                read_timeout=timeout_s,
                enable_memory_management=False,  # calls pass and return only text and bytes
            )
        )
        try:
            self._walkers = self._compile_walkers()
        except (Py4JError, OSError) as error:
            reason = str(error)[:400]  # needs the running process, so before close
            self.close()
            raise ServerFault("the Java process for expressions did not start", reason=reason) from None

    def read(self, expression: bytes, *, is_hive4: bool) -> str:
        """Return the tree of an expression as JSON;
        after py4j's errors or OSError, only ``close`` may be called.
        """
        text: str = self._walkers[is_hive4].read(bytearray(expression))
        return text

    def close(self) -> None:
        """Stop the process."""
        self._gateway.close()
        self._end_process()

    def _end_process(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _read_greeting(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        port, secret = (self.process.stdout.readline().strip().decode() for _ in range(2))
        if not port.isdigit():
            self._end_process()
            raise ServerFault("the Java process for expressions did not start", output=port[:200])
        return int(port), secret

    def _compile_walkers(self) -> dict[bool, Any]:
        loader = None
        for name in ("Date", "Timestamp", "Walker"):
            compiler = self._gateway.jvm.org.codehaus.janino.SimpleCompiler()
            if loader is not None:
                compiler.setParentClassLoader(loader)
            compiler.cook(_read_text(f"java/{name}.java"))
            loader = compiler.getClassLoader()
        assert loader is not None
        constructor = loader.loadClass("tideline.expressions.Walker").getConstructors()[0]
        walkers = {}
        for is_hive4 in (False, True):
            arguments = self._gateway.new_array(self._gateway.jvm.java.lang.Object, 3)
            arguments[0], arguments[1], arguments[2] = is_hive4, loader, _read_text("allowed.txt")
            walkers[is_hive4] = constructor.newInstance(arguments)
        return walkers


def _read_text(name: str) -> str:
    return files("handlers.expressions").joinpath(name).read_text(encoding="utf-8")


def _find_java(named: str | None) -> str:
    home = os.environ.get("JAVA_HOME")
    java = named or (f"{home}/bin/java" if home else shutil.which("java"))
    if java is None:
        raise ConfigError("reading expressions needs Java", hint="Install a Java run time, or set JAVA_HOME.")
    return java


def _class_path() -> str:
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise ConfigError("reading expressions needs PySpark's jars", hint='Install the extra "flat".')
    jars = (Path(pyspark.origin).parent / "jars").glob("*.jar")
    return os.pathsep.join(str(jar) for jar in sorted(jars) if jar.name.startswith(_JARS))


def _start(java: str, class_path: str) -> subprocess.Popen[bytes]:
    is_root = os.geteuid() == 0
    program = ["py4j.GatewayServer", "--enable-auth", "--die-on-broken-pipe", "0"]
    return subprocess.Popen(  # noqa: S603 - fixed program, our own class path
        [*_LIMITED, java, *_OPTIONS, "-cp", class_path, *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        user=_NOBODY if is_root else None,
        group=_NOBODY if is_root else None,
        extra_groups=[] if is_root else None,
    )
