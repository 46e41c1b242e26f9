"""A Java process of few rights that compiles and runs our ``Walker``.

Kryo builds whatever objects its bytes ask for, and some classes act while being built: bytes from a stranger are code from a
stranger (Hive's own answer to it: HIVE-26539). So they are read neither in this process nor with its rights. The Java process
has 64 MiB, an empty environment, no core dumps, may write no file and, where we are root, runs as nobody; its class path holds
the dozen jars that reading needs; and Kryo may only load the classes of ``allowed.txt``. It is driven over py4j, which comes
with PySpark as the jars do, with a secret for the connection and a time limit on every answer.
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
"""No file written, no core dump, few files open; then what follows."""
_NOBODY: Final = 65_534


class JavaProcess:
    """One Java process and the connection to it."""

    def __init__(self, *, java: str | None = None, timeout_s: float = 30.0) -> None:
        """Start it; raises ConfigError where Java or PySpark is missing, ServerFault where it does not come up."""
        from py4j.java_gateway import GatewayParameters, JavaGateway
        from py4j.protocol import Py4JError

        self.process = _start(_java(java), _class_path())
        port, secret = self._greeting()
        self._gateway: JavaGateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=port,
                auth_token=secret,
                read_timeout=timeout_s,
                enable_memory_management=False,  # calls pass and return texts and bytes only
            )
        )
        try:
            self._walkers = self._compiled()
        except (Py4JError, OSError) as error:
            reason = str(error)[:400]  # asked of the process, so before its end
            self.close()
            raise ServerFault("the Java process for expressions did not come up", reason=reason) from None

    def read(self, expression: bytes, *, is_hive4: bool) -> str:
        """Return the tree of an expression as JSON; raises py4j's errors and OSError, after which only ``close`` is left."""
        text: str = self._walkers[is_hive4].read(bytearray(expression))
        return text

    def close(self) -> None:
        """End the process."""
        self._gateway.close()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _greeting(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        port, secret = (self.process.stdout.readline().strip().decode() for _ in range(2))
        if not port.isdigit():
            self.process.kill()
            self.process.wait()
            raise ServerFault("the Java process for expressions did not start", said=port[:200])
        return int(port), secret

    def _compiled(self) -> dict[bool, Any]:
        loader = None
        for name in ("Date", "Timestamp", "Walker"):
            compiler = self._gateway.jvm.org.codehaus.janino.SimpleCompiler()
            if loader is not None:
                compiler.setParentClassLoader(loader)
            compiler.cook(_text(f"java/{name}.java"))
            loader = compiler.getClassLoader()
        assert loader is not None
        constructor = loader.loadClass("tideline.expressions.Walker").getConstructors()[0]
        walkers = {}
        for is_hive4 in (False, True):
            arguments = self._gateway.new_array(self._gateway.jvm.java.lang.Object, 3)
            arguments[0], arguments[1], arguments[2] = is_hive4, loader, _text("allowed.txt")
            walkers[is_hive4] = constructor.newInstance(arguments)
        return walkers


def _text(name: str) -> str:
    return files("handlers.expressions").joinpath(name).read_text(encoding="utf-8")


def _java(named: str | None) -> str:
    home = os.environ.get("JAVA_HOME")
    java = named or (f"{home}/bin/java" if home else shutil.which("java"))
    if java is None:
        raise ConfigError("reading expressions needs Java", hint="Install a Java run time, or set JAVA_HOME.")
    return java


def _class_path() -> str:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("reading expressions needs PySpark's jars", hint='Install the extra "flat".')
    jars = (Path(found.origin).parent / "jars").glob("*.jar")
    return os.pathsep.join(str(jar) for jar in sorted(jars) if jar.name.startswith(_JARS))


def _start(java: str, class_path: str) -> subprocess.Popen[bytes]:
    is_root = os.geteuid() == 0
    program = ["py4j.GatewayServer", "--enable-auth", "--die-on-broken-pipe", "0"]
    return subprocess.Popen(  # noqa: S603 - our own class path and Java's own program
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
