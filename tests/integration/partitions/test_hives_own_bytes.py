"""Fields are, byte for byte, what Hive's own BinarySortableSerDe writes (the class in the pinned hive-exec,
no server)."""

from __future__ import annotations

import os
import random
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.process.java_runtime import FRUGAL, OPENS, find_java
from state.partitions.keys.binary_sortable import decode, encode
from state.partitions.keys.column_types import ColumnType, TypeKind
from state.partitions.keys.values import parse_typed
from tests.builders.components.availability import start_or_skip


PROGRAM = Path(__file__).parent / "SortableBytes.java"
TEXTS = {
    "boolean": ["true", "false"],
    "tinyint": ["0", "1", "-1", "127", "-128"],
    "smallint": ["0", "1", "-1", "255", "256", "32767", "-32768"],
    "int": ["0", "10", "255", "256", "511", "-1", "2147483647", "-2147483648"],
    "bigint": ["0", "1", "-1", "9223372036854775807", "-9223372036854775808"],
    "float": ["0", "1.5", "-1.5", "3.4e38", "-1e-40", "NaN", "Infinity", "-Infinity"],
    "double": ["0", "1.5", "-1.5", "1e308", "-5e-324", "NaN", "Infinity", "-Infinity"],
    "decimal(38,10)": [
        "0",
        "1",
        "10",
        "100",
        "-1",
        "-10.5",
        "0.05",
        "-0.0005",
        "123.456",
        "99999999.0000000001",
        "1000000",
        "-100",
    ],
    "string": ["", "a", "ab", "a\x00b", "a\x01b", "\x00\x01\x02", "日本", "ÿ", "\U0001f600"],
    "varchar(40)": ["", "a", "a\x00b", "日"],
    "char(40)": ["a", "ab", "a\x01b"],
    "binary": ["", "a", "a\x00\x01b"],
    "date": [
        "1970-01-01",
        "2020-02-29",
        "2020-06-18",
        "1969-12-31",
        "0001-01-01",
        "1500-03-01",
        "9999-12-31",
    ],
    "timestamp": [
        "1970-01-01 00:00:00",
        "2020-01-01 00:00:00.5",
        "1969-12-31 23:59:59.999999999",
        "0001-01-01 00:00:00",
    ],
}


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the compiled program."""
    classes = tmp_path_factory.mktemp("classes")
    with start_or_skip("Hive classes"):
        libraries = os.pathsep.join(map(str, locate_jars(read_lock("hive"))))
        compiler = os.pathsep.join(map(str, locate_jars(read_lock("compiler"))))
    main = "org.eclipse.jdt.internal.compiler.batch.Main"
    options = ["-21", "-nowarn", "-proc:none", "-cp", libraries, "-d", str(classes), str(PROGRAM)]
    subprocess.run(
        [str(find_java()), "-Xmx512m", "-cp", compiler, main, *options],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return [
        str(find_java()),
        *FRUGAL,
        *OPENS,
        "-Xmx256m",
        "-cp",
        f"{classes}{os.pathsep}{libraries}",
        "SortableBytes",
    ]


def questions() -> list[tuple[str, str | None]]:
    """Every listed value, NULL, and a few hundred random ones."""
    draw = random.Random(20150529)  # noqa: S311 - the same values in every run
    texts = {declared: [*listed] for declared, listed in TEXTS.items()}
    for declared, bits in [("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)]:
        texts[declared] += [str(draw.getrandbits(bits) - (1 << (bits - 1))) for _ in range(20)]
    texts["double"] += [
        repr(struct.unpack(">d", struct.pack(">d", draw.uniform(-1e9, 1e9)))[0]) for _ in range(40)
    ]
    texts["decimal(38,10)"] += [
        f"{draw.randint(-(10**12), 10**12)}e-{draw.randint(0, 10)}" for _ in range(60)
    ]
    texts["string"] += [
        "".join(draw.choices("\x00\x01\x02a\xff日", k=draw.randint(1, 12))) for _ in range(60)
    ]
    texts["date"] += [
        f"{draw.randint(1, 9999):04}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}" for _ in range(40)
    ]
    every: list[tuple[str, str | None]] = []
    for declared, values in texts.items():
        every += [(declared, text) for text in [*values, None]]
    return every


def answers(command: Sequence[str], asked: Sequence[tuple[str, str | None]]) -> list[str]:
    lines = [f"{declared} {'NULL' if text is None else text.encode().hex()}" for declared, text in asked]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_every_field_equals_that_of_hives_own_class(hive: list[str]) -> None:
    asked = questions()
    given = answers(hive, asked)
    assert len(given) == len(asked)
    wrong = [
        (declared, text, theirs, encoded(declared, text).hex())
        for (declared, text), theirs in zip(asked, given, strict=True)
        if encoded(declared, text).hex() != theirs
    ]
    assert not wrong, (len(wrong), wrong[:10])


def test_every_field_written_by_hive_is_decoded(hive: list[str]) -> None:
    asked = [question for question in questions() if question[1] is None or "NaN" not in question[1]]
    for (declared, text), theirs in zip(asked, answers(hive, asked), strict=True):
        type_ = ColumnType.parse(declared)
        value = None if text is None else parse_typed(type_, text)
        assert decode(type_, bytes.fromhex(theirs)) == value, (declared, text)


def encoded(declared: str, text: str | None) -> bytes:
    type_ = ColumnType.parse(declared)
    value = None if text is None else parse_typed(type_, text)
    assert (value is None) == (text is None), (declared, text)
    return encode(type_.kind, value)


def test_minus_zero_is_zero_unlike_in_hive(hive: list[str]) -> None:
    theirs = answers(hive, [("double", "-0.0"), ("double", "0.0")])
    assert theirs[0] < theirs[1]
    assert encode(TypeKind.DOUBLE, -0.0).hex() == theirs[1]
