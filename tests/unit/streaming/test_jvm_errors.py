from __future__ import annotations

import logging
import subprocess
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from daemon.replica.verification.session import open_row_comparison
from state.errors import ConfigError, FilesUnavailable, StateCorrupt, StateLocked, Transient
from streaming.jvm_errors import (
    Cause,
    end_error,
    find_setting,
    jvm_errors,
    read_causes,
    report_filter,
    run_error,
    start_error,
)
from streaming.settings import SparkSettings


class FakeSpark:
    """A session whose JVM is a process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.sparkContext = self
        self._gateway = self
        self.proc = process
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


def test_a_dead_jvm_is_one_transient_error_whatever_failed_because_of_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        spark: Any = FakeSpark(process)
        process.kill()
        with pytest.raises(Transient, match="JVM was ended by a signal") as caught, jvm_errors(spark):
            raise Py4JNetworkError("Answer from Java side is empty")
        assert (caught.value.context["status"], caught.value.__cause__, spark.stopped) == (-9, None, 0)


@pytest.mark.parametrize(
    ("command", "message", "context", "hint"),
    [
        ("kill -KILL $$", "was ended by a signal", {"signal": "SIGKILL", "status": -9}, "Killed process"),
        ("kill -TERM $$", "was ended by a signal", {"signal": "SIGTERM", "status": -15}, "does not show who"),
        ("kill -ABRT $$", "was ended by a signal", {"signal": "SIGABRT", "status": -6}, "hs_err_pid"),
        ("kill -40 $$", "was ended by a signal", {"signal": "signal 40", "status": -40}, "does not show who"),
        ("exit 52", "ended", {"status": 52}, "output above"),
    ],
)
def test_the_error_of_a_dead_jvm_says_what_its_status_shows_and_no_more(
    command: str, message: str, context: dict[str, Any], hint: str
) -> None:
    error = end_error(subprocess.run(["sh", "-c", command], check=False).returncode)
    assert (error.message, error.context) == (f"Spark's JVM {message}", context)
    assert hint in error.hint
    assert ("memory" in error.hint) == (context["status"] == -9)


def test_a_jvm_that_dies_while_rows_are_compared_is_no_difference_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr("streaming.driver.session.start", lambda *_, **__: FakeSpark(process))
        process.kill()
        with (
            pytest.raises(Transient, match="JVM was ended by a signal"),
            open_row_comparison(SparkSettings()),
        ):
            raise Py4JNetworkError("Answer from Java side is empty")


def test_errors_of_a_living_jvm_are_raised_unchanged_and_it_is_stopped() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        spark: Any = FakeSpark(process)
        with pytest.raises(StateLocked), jvm_errors(spark):
            raise StateLocked("another writer")
        assert spark.stopped == 1
        process.kill()


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (FilesUnavailable("gone"), False),
        (Py4JNetworkError("reset"), False),
        (KeyError("a defect"), True),
        (None, True),
    ],
)
def test_py4j_does_not_log_errors_that_are_reported_anyway(
    error: Exception | None, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert is_kept(error, process, caplog) is is_logged
        process.kill()


@pytest.mark.parametrize(
    "error",
    [
        Py4JError("An error occurred while calling o509.conf"),
        ConnectionRefusedError(111, "Connection refused"),
        AttributeError("'NoneType' object has no attribute 'conf'"),
    ],
)
def test_py4j_logs_no_error_that_the_death_of_its_jvm_causes(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        process.kill()
        process.wait()
        assert not is_kept(error, process, caplog)


def test_a_broken_connection_to_a_jvm_that_is_dying_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        process.kill()  # its status is known a moment later
        assert not is_kept(Py4JError("An error occurred while calling o509.conf"), process, caplog)


def is_kept(
    error: Exception | None, process: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> bool:
    """Log an error as py4j does; return whether the log has it."""
    logger, chosen = logging.getLogger("tests.py4j"), report_filter(process)
    logger.addFilter(chosen)
    logger.error("Exception while sending command.", exc_info=error)
    logger.removeFilter(chosen)
    return bool(caplog.records)


OBJECT = ("java.lang.Throwable", "java.lang.Object")
IO = ("java.io.IOException", "java.lang.Exception", *OBJECT)
RUNTIME = ("java.lang.RuntimeException", "java.lang.Exception", *OBJECT)
SOCKET = ("java.net.SocketException", *IO)
REFUSED = Cause(("java.net.ConnectException", *SOCKET), "Connection refused")


class JavaClass:
    """A class of the JVM, as py4j shows it."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def getName(self) -> str:  # noqa: N802 - Java's name
        return self._names[0]

    def getSuperclass(self) -> JavaClass | None:  # noqa: N802 - Java's name
        return JavaClass(self._names[1:]) if self._names[1:] else None


class Thrown:
    """An exception of the JVM, as py4j shows it."""

    def __init__(self, *causes: Cause, endless: bool = False) -> None:
        self._cause, *self._rest = causes
        self._endless = endless
        self._target_id = "o1"

    def getClass(self) -> JavaClass:  # noqa: N802 - Java's name
        return JavaClass(self._cause.classes)

    def getMessage(self) -> str | None:  # noqa: N802 - Java's name
        return self._cause.message or None

    def getCause(self) -> Thrown | None:  # noqa: N802 - Java's name
        if self._endless:
            return self
        return Thrown(*self._rest) if self._rest else None


def java_error(*causes: Cause, endless: bool = False) -> Py4JJavaError:
    return Py4JJavaError("An error occurred while calling o1.x.\n", Thrown(*causes, endless=endless))


def test_the_chain_of_an_exception_is_read_from_the_outermost_to_the_root() -> None:
    chain = (Cause(RUNTIME, ""), Cause(IO, "broken"), REFUSED)
    assert read_causes(java_error(*chain)) == chain


def test_a_circular_chain_ends() -> None:
    assert set(read_causes(java_error(REFUSED, endless=True))) == {REFUSED}


def test_an_error_that_is_not_of_the_jvm_has_no_causes() -> None:
    assert read_causes(ValueError("no")) == ()


MISSING = Cause(("java.io.FileNotFoundException", *IO), "File file:/nonexistent/x does not exist")
CONF = {
    "spark.master": "spark://10.0.0.1:7077",
    "spark.eventLog.dir": "/nonexistent/x",
    "spark.driver.host": "127.0.0.1",
    "spark.hadoop.fs.defaultFS": "hdfs://nn:8020",
}


@pytest.mark.parametrize(
    ("chain", "kind", "setting"),
    [
        ([MISSING], FilesUnavailable, "spark.eventLog.dir"),
        (
            [
                Cause(
                    ("java.lang.IllegalArgumentException", *RUNTIME),
                    "Log directory file:/nonexistent/x is not a directory.",
                )
            ],
            ConfigError,
            "spark.eventLog.dir",
        ),
        (
            [
                Cause(
                    ("org.apache.hadoop.fs.UnsupportedFileSystemException", *IO),
                    'No FileSystem for scheme "nope"',
                )
            ],
            ConfigError,
            None,
        ),
        (
            [
                Cause(
                    RUNTIME,
                    "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not "
                    "found",
                ),
                Cause(
                    ("java.lang.ClassNotFoundException", "java.lang.ReflectiveOperationException", *OBJECT),
                    "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
                ),
            ],
            ConfigError,
            None,
        ),
        (
            [
                Cause(("java.net.ConnectException", *SOCKET), "Call From vm/127.0.0.1 to nn:8020 failed"),
                REFUSED,
            ],
            Transient,
            "spark.hadoop.fs.defaultFS",
        ),
        (
            [
                Cause(
                    ("java.net.BindException", *SOCKET),
                    "Address already in use: Service 'sparkDriver' failed after 0 retries (starting from "
                    "45999)! Consider "
                    "explicitly setting the appropriate port (for example spark.ui.port for SparkUI) to an "
                    "available port.",
                )
            ],
            Transient,
            "spark.driver.port",
        ),
        (
            [
                Cause(
                    ("java.net.BindException", *SOCKET),
                    "Cannot assign requested address: Service 'sparkDriver' failed after 16 retries (on a "
                    "random free port)! "
                    "Consider explicitly setting the appropriate binding address (for example "
                    "spark.driver.bindAddress).",
                )
            ],
            Transient,
            "spark.driver.bindAddress",
        ),
        (
            [
                Cause(
                    ("org.apache.spark.SparkException", "java.lang.Exception", *OBJECT),
                    "The YARN application has already ended! It might have been killed or the Application "
                    "Master may have failed to start. Check the YARN application logs for more details.",
                )
            ],
            Transient,
            None,
        ),
        (
            [
                Cause(
                    ("org.apache.spark.SparkException", "java.lang.Exception", *OBJECT),
                    "Could not parse Master URL: 'nonsense://x'",
                )
            ],
            ConfigError,
            None,
        ),
    ],
)
def test_a_session_that_does_not_start_failed_by_its_environment_or_by_a_setting(
    chain: list[Cause], kind: type[Exception], setting: str | None
) -> None:
    found = start_error(java_error(*chain), CONF)
    assert type(found) is kind
    assert found.context.get("setting") == setting
    assert chain[-1].message[:40] in str(found)
    assert setting is None or setting in found.hint or kind is Transient
    assert found.hint


def test_sparks_default_directory_of_event_logs_is_named_by_its_setting() -> None:
    missing = Cause(MISSING.classes, "File file:/tmp/spark-events does not exist")
    found = start_error(java_error(missing), {"spark.eventLog.enabled": "true"})
    assert found.context["setting"] == "spark.eventLog.dir"


def test_a_jvm_that_ends_before_it_answers_refused_its_options_and_one_that_ends_later_may_start_again() -> (
    None
):
    refused = start_error(PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), CONF)
    assert type(refused) is ConfigError
    assert "JAVA_GATEWAY_EXITED" in str(refused)
    ended = start_error(Py4JNetworkError("Error while sending or receiving"), CONF)
    assert type(ended) is Transient
    assert "spark.jars.packages" in ended.hint


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (REFUSED, Transient),
        (Cause(IO, "No space left on device"), FilesUnavailable),
        (
            Cause(
                ("java.lang.OutOfMemoryError", "java.lang.VirtualMachineError", *OBJECT), "Java heap space"
            ),
            Transient,
        ),
        (
            Cause(RUNTIME, "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)"),
            Transient,
        ),
        (
            Cause(
                ("java.lang.IllegalStateException", *RUNTIME),
                "Cannot call methods on a stopped SparkContext.",
            ),
            Transient,
        ),
        (Cause(("org.apache.orc.FileFormatException", *IO), "Malformed ORC file"), StateCorrupt),
    ],
)
def test_a_failure_of_the_environment_is_no_defect(cause: Cause, kind: type[Exception]) -> None:
    found = run_error([Cause(RUNTIME, "Job aborted"), cause])
    assert type(found) is kind
    assert cause.message[:60] in str(found)


def reading(path: str) -> Cause:
    message = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {path}.  SQLSTATE: KD001"
    return Cause(("org.apache.spark.SparkException", "java.lang.Exception", *OBJECT), message)


@pytest.mark.parametrize(
    "root", [Cause(("java.io.EOFException", *IO), "Unexpected end"), Cause(RUNTIME, "no codec")]
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(root: Cause) -> None:
    found = run_error([Cause(RUNTIME, "Job aborted"), reading("file:/landing/a%20b.json.gz"), root])
    assert type(found) is FilesUnavailable
    assert found.context["path"] == "file:/landing/a%20b.json.gz"
    assert root.message in str(found)
    assert "replaced" in found.hint


def test_a_file_is_not_to_blame_if_its_server_cannot_be_reached() -> None:
    found = run_error([reading("hdfs://nn:8020/a.json"), REFUSED])
    assert type(found) is Transient
    assert "path" not in found.context


@pytest.mark.parametrize(
    "chain",
    [
        [Cause(("java.lang.NullPointerException", *RUNTIME), "")],
        [Cause(("org.apache.spark.sql.AnalysisException", "java.lang.Exception", *OBJECT), "no such column")],
        [],
    ],
)
def test_a_defect_stays_as_it_is(chain: list[Cause]) -> None:
    assert run_error(chain) is None


def test_within_a_session_failures_of_the_environment_become_errors_of_tideline() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        spark: Any = FakeSpark(process)
        with pytest.raises(FilesUnavailable, match="nonexistent") as caught, jvm_errors(spark):
            raise java_error(Cause(RUNTIME, "Job aborted"), MISSING)
        assert isinstance(caught.value.__cause__, Py4JJavaError)
        assert spark.stopped == 1
        defect = java_error(Cause(("java.lang.NullPointerException", *RUNTIME), "null"))
        with pytest.raises(Py4JJavaError) as left, jvm_errors(spark):
            raise defect
        assert left.value is defect
        process.kill()


def test_a_setting_is_found_by_its_value_in_a_list_or_by_its_name() -> None:
    conf = {"spark.files": "/a.txt,/some/b.txt", "spark.serializer": "x.Y"}
    assert find_setting("File file:/some/b.txt does not exist", conf) == "spark.files"
    assert find_setting("spark.ui.port or spark.serializer must be a class", conf) == "spark.serializer"
    assert find_setting("spark.ui.port is wrong.", conf) == "spark.ui.port"
    assert find_setting("at org.apache.spark.api.java.JavaSparkContext", conf) is None
    assert (
        find_setting("Connection refused: /10.0.0.1:6443", {"spark.master": "k8s://https://10.0.0.1:6443"})
        == "spark.master"
    )
