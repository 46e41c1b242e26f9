"""Converts errors of Spark's JVM to errors of Tideline's tree.

An exception of the JVM arrives through py4j in one of several Python classes, some of which PySpark converts.
The chain of causes shows whether the environment failed (a server, a file system or memory, so the same call
may succeed later), or Spark refused a setting. This module reads the chain once, and then decides by the
names of its classes, without the JVM.

While a session starts, every failure is one of these two, because Tideline has not computed anything yet.
Later, an exception that neither the environment nor a damaged file has caused stays unchanged: it is a defect
of Tideline, and its stack trace is needed.
"""

from __future__ import annotations

import logging
import re
import signal
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from state.errors import ConfigError, FilesUnavailable, StateCorrupt, TidelineError, Transient


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession


PY4J_LOGGERS: Final = ("", "py4j.clientserver")
"""Loggers to which py4j writes errors that it also raises."""
EXIT_S: Final = 3.0
"""How long to wait for the exit status of a JVM that has closed its connection."""
CAUSES_MAX: Final = 20
"""Causes that are read of one exception; a chain may be circular."""
REASON_CHARS: Final = 500
REFUSALS: Final = frozenset(
    {
        "java.net.MalformedURLException",
        "org.apache.hadoop.fs.UnsupportedFileSystemException",
        "java.nio.charset.CharacterCodingException",
    }
)
"""Exceptions of input and output that repeat until a setting changes."""
PORT: Final = frozenset({"java.net.BindException"})
NETWORK: Final = frozenset(
    {
        "java.net.SocketException",
        "java.net.UnknownHostException",
        "java.net.SocketTimeoutException",
        "java.nio.channels.UnresolvedAddressException",
        "java.nio.channels.ClosedChannelException",
        "java.util.concurrent.TimeoutException",
        "javax.net.ssl.SSLException",
        "org.apache.kafka.common.errors.RetriableException",
        "org.apache.kafka.common.errors.TimeoutException",
    }
)
FILES: Final = frozenset({"java.io.IOException", "java.io.UncheckedIOException"})
MEMORY: Final = frozenset({"java.lang.OutOfMemoryError"})
DAMAGED: Final = frozenset({"org.apache.orc.FileFormatException"})
LOST_EXECUTORS: Final = re.compile(
    r"ExecutorLostFailure|ExecutorDeadException|SparkContext was shut down|stopped SparkContext"
    r"|SparkContext has been shutdown|[Mm]asters are unresponsive"
    r"|YARN application has (?:already ended|exited)"
)
"""Messages of Spark about a cluster that took executors, or all of them, away."""
UNREADABLE: Final = re.compile(
    r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (\S+)\.(?:\s|$)"
)
"""Message of Spark about a file, for any cause; a URI without spaces."""
DEFAULTS: Final = {"spark.eventLog.dir": "/tmp/spark-events"}  # noqa: S108 - Spark's own default
"""Values of settings that an error may concern although no one set them."""
ENDED: Final = (
    "Spark's own output above shows why: a package of spark.jars.packages cannot be fetched, Java refuses "
    "an option, a port of Spark is in use, or memory is insufficient."
)
_KILLED: Final = (
    "The status does not show who sent the signal. If the kernel sent it for lack of memory, "
    "'journalctl -k' has a line "
    "'Killed process', and a container has the reason OOMKilled: then give the machine or the container "
    "more memory, or lower spark.driver_memory."
)
_CRASHED: Final = (
    "Java itself failed: Spark's own output above names the file hs_err_pid*.log, which contains the reason."
)
SIGNALS: Final[dict[int, str]] = {
    signal.SIGKILL: _KILLED,
    **dict.fromkeys((signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE), _CRASHED),
}
"""Explanation of each signal that can end the JVM."""
SERVICES: Final = {
    "sparkDriver": "spark.driver.port",
    "SparkUI": "spark.ui.port",
    "org.apache.spark.network.netty.NettyBlockTransferService": "spark.blockManager.port",
}
"""Settings of the ports that Spark names by their service."""
_SERVICE: Final = re.compile(r"Service '([^']+)' failed.*?\((starting from|on a random free port)")
_SETTING: Final = re.compile(r"(?<![\w.])spark\.[A-Za-z0-9]+(?:\.[A-Za-z0-9_-]+)*")
_PATH_CHARS: Final = 4
"""Shorter values would match unrelated messages."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One exception of a chain: the names of its class and its superclasses, and its message."""

    classes: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        name = self.classes[0].rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


@contextmanager
def jvm_errors(spark: SparkSession) -> Iterator[None]:
    """Raise Tideline's errors for failures of Spark and its environment in the block; stop ``spark``
    afterwards.

    If the JVM dies, calls fail with various errors. All of these become one Transient.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its JVM
    process: subprocess.Popen[bytes] = gateway.proc
    for name in PY4J_LOGGERS:
        logging.getLogger(name).addFilter(report_filter(process))
    try:
        yield
    except Exception as error:
        if _has_ended(process, error):
            raise end_error(process.returncode) from None
        if isinstance(error, TidelineError) or (cause := run_error(read_causes(error))) is None:
            raise
        raise cause from error
    finally:
        # PySpark logs a stack trace for each call to a JVM that has ended or is ending.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        if process.poll() is None:
            spark.stop()


def end_error(status: int) -> Transient:
    """Return the error of a JVM that ended with this status, which is negative if a signal ended it."""
    if status >= 0:
        return Transient("Spark's JVM ended", status=status, hint="Spark's own output above may show why.")
    number = -status
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    hint = SIGNALS.get(
        number, "The status does not show who sent the signal: a user, a service manager or Java itself."
    )
    return Transient("Spark's JVM was ended by a signal", signal=name, status=status, hint=hint)


def report_filter(process: subprocess.Popen[bytes]) -> Callable[[logging.LogRecord], bool]:
    """Return a filter that drops log records of errors that are also raised.

    Typed errors of a batch and broken connections to the JVM are raised and reported once, but py4j also logs
    each with a stack trace. The same holds for every other error that the death of the JVM causes.
    """
    from py4j.protocol import Py4JNetworkError

    def is_unreported(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        return not isinstance(error, (TidelineError, Py4JNetworkError)) and not _has_ended(process, error)

    return is_unreported


def read_causes(error: BaseException) -> tuple[Cause, ...]:
    """Return the exceptions of the JVM behind ``error``, from the outermost to the root; empty for an error
    of another kind.
    """
    from py4j.protocol import Py4JError

    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    causes: list[Cause] = []
    with suppress(Py4JError, OSError):  # the JVM may end meanwhile
        while thrown is not None and len(causes) < CAUSES_MAX:
            causes.append(Cause(_read_classes(thrown), str(thrown.getMessage() or "")))
            thrown = thrown.getCause()
    return tuple(causes)


def _read_classes(thrown: Any) -> tuple[str, ...]:
    kind, names = thrown.getClass(), []
    while kind is not None:
        names.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return tuple(names)


def start_error(error: BaseException, conf: Mapping[str, str]) -> TidelineError:
    """Return the error of a session that did not start: of the environment if the causes show that, otherwise
    of a setting.
    """
    from py4j.protocol import Py4JNetworkError

    causes = read_causes(error)
    if not causes:
        kind = Transient if isinstance(error, (Py4JNetworkError, ConnectionError)) else ConfigError
        return kind("Spark's JVM ended while Spark started", reason=str(error)[:REASON_CHARS], hint=ENDED)
    text = " | ".join(map(str, causes))
    context = {"reason": text[:REASON_CHARS]}
    if named := find_setting(text, conf):
        context = {"setting": named, **context}
    reported = environment_error("Spark does not start", causes, context)
    if reported is not None:
        return reported
    hint = f"Correct {named or 'spark.conf, spark.master or spark.jars'}; Spark's own output may say more."
    return ConfigError("Spark does not start", hint=hint, **context)


def run_error(causes: Sequence[Cause]) -> TidelineError | None:
    """Return the error of a running session if the environment or a damaged file caused it, or None."""
    context = {"reason": " | ".join(map(str, causes))[:REASON_CHARS]}
    if find_cause(causes, DAMAGED):
        return StateCorrupt("a file of a flat table is not an ORC file", **context)
    unreadable = next(filter(None, (UNREADABLE.search(each.message) for each in causes)), None)
    if unreadable and not find_cause(causes, NETWORK | MEMORY):
        hint = (
            "Check that the file exists and is complete. A damaged file can be replaced under its name. "
            "Tideline tries again."
        )
        return FilesUnavailable("a file cannot be read", path=unreadable[1], hint=hint, **context)
    return environment_error("Spark failed", causes, context)


def environment_error(
    message: str, causes: Sequence[Cause], context: Mapping[str, str]
) -> TidelineError | None:
    """Return the error if the network, files, memory or the cluster failed, otherwise None."""
    setting = f" ({context['setting']})" if "setting" in context else ""
    if find_cause(causes, PORT):
        hint = f"Use a port that is free and an address of this machine{setting}. Tideline tries again."
        return Transient(message, hint=hint, **context)
    if find_cause(causes, NETWORK):
        hint = (
            f"Check that the server runs and can be reached, and that its address is correct{setting}. "
            "Tideline tries again."
        )
        return Transient(message, hint=hint, **context)
    if find_cause(causes, FILES):
        hint = (
            f"Create the file or directory and give the driver's user access{setting}. Tideline tries again."
        )
        return FilesUnavailable(message, hint=hint, **context)
    if find_cause(causes, MEMORY):
        return Transient(message, hint="Raise spark.driver_memory or the executors' memory.", **context)
    if any(LOST_EXECUTORS.search(each.message) for each in causes):
        hint = "Check that the cluster of spark.master runs and has capacity. Tideline tries again."
        return Transient(message, hint=hint, **context)
    return None


def find_cause(causes: Sequence[Cause], classes: frozenset[str]) -> Cause | None:
    """Return the innermost cause of one of these classes that does not follow from a setting; None if there
    is none.
    """
    for each in reversed(causes):
        if not REFUSALS.isdisjoint(each.classes):
            return None
        if not classes.isdisjoint(each.classes):
            return each
    return None


def find_setting(text: str, conf: Mapping[str, str]) -> str | None:
    """Return the setting that ``text`` concerns; the text may name the setting, its value, or the service
    that it configures.
    """
    if service := _SERVICE.search(text):
        return SERVICES.get(service[1]) if service[2] == "starting from" else "spark.driver.bindAddress"
    for name, value in {**DEFAULTS, **conf}.items():
        for part in value.split(","):
            path = part.strip().rpartition("://")[2].removeprefix("file:")
            if len(path) >= _PATH_CHARS and ("/" in path or ":" in path) and path in text:
                return name
    names = _SETTING.findall(text)
    return next((name for name in names if name in conf), names[0] if names else None)


def _has_ended(process: subprocess.Popen[bytes], error: BaseException | None) -> bool:
    """Whether the JVM has ended. Its connection breaks a moment before its status is known, so this waits for
    the status.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    is_broken = isinstance(error, ConnectionError)
    while error is not None:
        is_broken |= isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
        error = error.__cause__ or error.__context__
    with suppress(subprocess.TimeoutExpired):
        process.wait(EXIT_S if is_broken else 0)
    return process.returncode is not None
