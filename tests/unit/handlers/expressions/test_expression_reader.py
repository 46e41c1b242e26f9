"""Reading expressions through the Java process, without it: a scripted one."""

from __future__ import annotations

from typing import Any

from handlers.expressions import expression_reader
from handlers.expressions.expression_reader import ExpressionReader
from state.partitions.filters.hive_expressions import ColumnReference


class ScriptedProcess:
    """Answers every expression with the column that its bytes name."""

    def __init__(self) -> None:
        self.read_bytes: list[bytes] = []

    def read(self, expression: bytes, *, is_hive4: bool) -> str:  # noqa: ARG002 - as JavaProcess
        self.read_bytes.append(expression)
        return f'{{"column": "{expression.decode()}", "type": "int"}}' if expression != b"bad" else "?"

    def close(self) -> None:
        """Nothing to close."""


def reader_of(process: Any) -> ExpressionReader:
    return ExpressionReader(lambda: process)


def test_an_expression_that_was_read_before_is_not_read_again() -> None:
    process = ScriptedProcess()
    reader = reader_of(process)
    for name in ("a", "b", "a", "b"):
        assert reader.read(name.encode()) == ColumnReference(name, "int")
    assert process.read_bytes == [b"a", b"b"]


def test_an_expression_that_cannot_be_read_is_read_again() -> None:
    process = ScriptedProcess()
    reader = reader_of(process)
    assert [reader.read(b"bad"), reader.read(b"bad")] == [None, None]
    assert reader.failures == len(process.read_bytes) == 2


def test_the_oldest_trees_and_long_expressions_are_not_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(expression_reader, "KEPT_MAX", 2)
    monkeypatch.setattr(expression_reader, "KEPT_BYTES_MAX", 3)
    process = ScriptedProcess()
    reader = reader_of(process)
    for name in (b"a", b"b", b"c", b"a", b"c", b"long", b"long"):
        reader.read(name)
    assert process.read_bytes == [b"a", b"b", b"c", b"a", b"long", b"long"]
