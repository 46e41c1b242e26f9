"""The class archive: Spark's classes in a file that a driver's JVM maps into memory, so that it starts
faster.

A driver loads about 20,000 classes before its first batch. Java can store loaded classes in a file (class
data sharing, CDS) that later JVMs map into memory. ``tideline split prepare`` writes this file by running a
driver for a dummy table in a temporary directory; the image contains the file.

The archive only saves time. A JVM checks that the same Java wrote it for the same jars, and otherwise starts
without it, silently. It does not check the length of the archive, and crashes with half of one. So the
archive ends with a checksum, which Java ignores; if it is wrong, the driver starts without the archive.

The archive is part of the installation, like a compiled module: a user who may replace it may replace the
code as well. Only one process at a time writes it, under another name, and renames it, so no JVM ever reads
an incomplete archive.

Java accepts an archive only if the class path begins with the same jars as its writer's, in the same order.
The class path of Spark's launcher begins with a directory of settings, and lists the jars in the order of the
directory on disk. So Tideline puts the sorted jars in front of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.errors import ConfigError, StateLocked
from streaming.settings import DirectorySource, EventTime, FlatSettings, SparkSettings


VARIABLE: Final = "TIDELINE_CLASS_ARCHIVE"
"""Environment variable with another path of the archive; empty for none."""
NAME: Final = "driver-classes.jsa"
SETTINGS: Final = str(Path(__file__).with_name("conf"))
"""The directory with Spark's settings, unless the user has one."""
OPTIONS: Final = "spark.driver.defaultJavaOptions"
CLASS_PATH: Final = "spark.driver.extraClassPath"
_MARK: Final = b"tideline class archive"
_CHECKSUM: Final = struct.Struct(">I")
_BUFFER_BYTES: Final = 1 << 20
_UNFINISHED: Final = ".tideline-prepare-"
_SPLITS_OPTIONS: Final = frozenset(':"\\\n')
"""Characters that a path in Java's options must not have."""
_SILENT: Final = "-Xlog:disable -Xlog:all=warning:stderr -Xlog:cds*=off:stderr -Xlog:class+path=off:stderr"
"""Java prints warnings to standard output by default, even about an archive that it does not use."""
_HOUR_S: Final = 1_700_000_000 // 3_600 * 3_600


def find_path() -> Path | None:
    """Return the path of the archive, even before it exists; None if switched off."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return Path(sys.prefix) / "share" / "tideline" / NAME
    return Path(named).absolute() if named else None


def build_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings that use the archive; none without an archive, or if ``conf`` or the
    environment have such settings.
    """
    path = find_path()
    if path is None or _SPLITS_OPTIONS.intersection(str(path)) or {OPTIONS, CLASS_PATH} & conf.keys():
        return {}
    if os.environ.get("SPARK_CONF_DIR", SETTINGS) != SETTINGS or not is_whole(path):
        return {}  # the user's settings directory may set the class path, too
    return {OPTIONS: f'"-XX:SharedArchiveFile={path}" -Xshare:auto {_SILENT}', CLASS_PATH: build_class_path()}


def build_class_path() -> str:
    """Return Spark's jars, in the same order for every archive."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])
    return ":".join(sorted(map(str, (home / "jars").glob("*.jar"))))


@contextmanager
def replace_archive() -> Iterator[tuple[Path, Path]]:
    """Yield the path of the archive and an empty directory next to it. The file NAME that the block writes to
    the directory becomes the archive.

    Raises ConfigError if the configuration switches the archive off or its directory is not writable, and
    StateLocked if another process writes it.
    """
    path = find_path()
    if path is None or _SPLITS_OPTIONS.intersection(str(path)):
        raise ConfigError(
            "the class archive has no usable path",
            variable=VARIABLE,
            value=os.environ.get(VARIABLE),
            hint=f"Unset {VARIABLE}, or name a path without colons, quotes, backslashes or line breaks.",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            _lock(path.parent),
            tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=path.parent) as directory,
        ):
            yield path, Path(directory)
            written = Path(directory) / NAME
            if not written.exists():
                raise ConfigError(
                    "Java has not written a class archive",
                    directory=str(path.parent),
                    hint="The archive needs 200 MB there. Standard error contains Java's message.",
                )
            written.chmod(0o644)
            _seal(written)
            written.replace(path)
    except OSError as error:
        raise ConfigError(
            "the class archive cannot be written",
            path=str(path),
            reason=error.strerror,
            hint=f"Run the command as the owner of the installation, or name another path in {VARIABLE}.",
        ) from error


def is_whole(path: Path) -> bool:
    """Whether there is an archive with the right checksum. This takes a tenth of a second."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END) - len(_MARK) - _CHECKSUM.size
            if size < 0:
                return False
            file.seek(size)
            end = file.read()
            file.seek(0)
            return end == _MARK + _CHECKSUM.pack(_compute_checksum(file, size))
    except OSError:
        return False


def _seal(path: Path) -> None:
    """Append the checksum and make the file durable."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        checksum = _compute_checksum(file, size)
        file.seek(size)
        file.write(_MARK + _CHECKSUM.pack(checksum))
        file.flush()
        os.fsync(file.fileno())


def _compute_checksum(file: BinaryIO, size: int) -> int:
    checksum = 0
    while size > 0 and (some := file.read(min(size, _BUFFER_BYTES))):
        checksum = zlib.crc32(some, checksum)
        size -= len(some)
    return checksum


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateLocked(
                "another process writes the class archive", directory=str(directory), hint="Wait for it."
            ) from error
        for unfinished in directory.glob(f"{_UNFINISHED}*"):  # by a killed writer
            shutil.rmtree(unfinished)
        yield
    finally:
        os.close(descriptor)


def build_training(directory: Path, archive: Path) -> FlatSettings:
    """Write events to ``directory``, and return the settings of a driver that reads them and writes
    ``archive``.

    There are two batches of events: the first adds columns, the second has values that do not fit.
    """
    landing = directory / "landing"
    landing.mkdir()
    for batch, extra in enumerate(({}, {"n": 70_000, "f": "text", "late": True})):
        rows = [{**_event(number), **extra} for number in range(40)]
        text = "\n".join([*map(json.dumps, rows), "not JSON"])
        (landing / f"{batch}.json").write_text(f"{text}\n", encoding="utf-8")
    keys = ("n", "f", "b", "s", "o.in", "late")
    options = f'"-XX:ArchiveClassesAtExit={archive}" {_SILENT}'
    return FlatSettings(
        database="default",
        table="events",
        location=str(directory / "table"),
        checkpoint=str(directory / "checkpoint"),
        source=DirectorySource(str(landing), files_per_batch=1),
        event_time=EventTime(KeyPath.of_dotted("at")),
        rules=FlatRules(whitelist=frozenset(map(KeyPath.of_dotted, keys)), probation_values=1),
        spark=SparkSettings(conf={OPTIONS: options, CLASS_PATH: build_class_path()}),
        trigger_s=0,
    )


def _event(number: int) -> dict[str, object]:
    return {
        "at": _HOUR_S + number,
        "n": number,
        "f": number / 7,
        "b": number % 2 == 0,
        "s": f"text {number}",
        "o": {"in": number, "list": [number]},
    }
