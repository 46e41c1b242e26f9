"""Reading expressions, as Hive's own classes wrote them (``tests/data/kryo``), and with changed bytes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.expressions import expression_reader
from handlers.expressions.expression_reader import ExpressionReader
from handlers.expressions.hive_objects import BYTES_MAX, DEPTH_MAX, NODES_MAX, read_expression
from handlers.expressions.kryo_input import Unreadable
from state.partitions.filters.hive_expressions import Call, ColumnReference, Constant, Expression


WRITTEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "data" / "kryo" / "expressions.json").read_text()
)
ROOT = b"\x01\x00org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDes\xe3"


def data(written: dict[str, Any]) -> bytes:
    return base64.b64decode(written["bytes"])


def tree(node: Any) -> Expression | None:
    """Return the expression that a row of the file describes."""
    if node is None:
        return None
    if isinstance(node, list):
        parts = [tree(part) for part in node[1:]]
        return Call(node[0], tuple(part for part in parts if part is not None))
    if "column" in node:
        return ColumnReference(node["column"], node["type"])
    return Constant(node["constant"], node["type"])


def named(hive: str, name: str) -> bytes:
    return next(data(each) for each in WRITTEN if (each["hive"], each["name"]) == (hive, name))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The dates of Hive 2.3 were written in this time zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("written", WRITTEN, ids=lambda each: f"{each['hive']} {each['name']}")
def test_what_hive_wrote_is_read(written: dict[str, Any]) -> None:
    assert ExpressionReader().read(data(written)) == tree(written["tree"])


def test_each_version_of_hive_writes_functions_as_they_are_created_and_initialized() -> None:
    for hive in ("2.3", "3.1", "4"):
        names = {each["name"] for each in WRITTEN if each["hive"] == hive and each["tree"]}
        assert {"equal", "and, initialised", "in", "timestamp", "to date", "between", "like"} <= names


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_changed_bytes_are_read_or_not_and_never_do_anything_else(source: st.DataObject) -> None:
    """Nothing but Unreadable is raised, and functions are those that were listed."""
    written = source.draw(st.sampled_from(WRITTEN))
    changed = bytearray(data(written))
    for _ in range(source.draw(st.integers(1, 4))):
        at = source.draw(st.integers(0, len(changed) - 1))
        match source.draw(st.sampled_from(["replace", "remove", "insert", "cut", "repeat"])):
            case "replace":
                changed[at] = source.draw(st.integers(0, 255))
            case "remove" if len(changed) > 1:
                del changed[at]
            case "insert":
                changed.insert(at, source.draw(st.integers(0, 255)))
            case "cut":
                changed = changed[: at + 1]
            case "repeat":
                changed[at:at] = changed[at : at + 60]
    for is_hive4 in (False, True):
        try:
            read = read_expression(bytes(changed), is_hive4=is_hive4)
        except Unreadable:
            continue
        assert isinstance(read, Call)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_not(junk: bytes) -> None:
    for prefix in (b"", ROOT, b"\x01\x01\x00java.util.ArrayLis\xf4\x01"):
        for is_hive4 in (False, True):
            try:
                read_expression(prefix + junk, is_hive4=is_hive4)
            except Unreadable:
                continue


def test_every_prefix_of_an_expression_is_refused() -> None:
    whole = named("4", "and")
    for end in range(len(whole)):
        with pytest.raises(Unreadable):
            read_expression(whole[:end], is_hive4=True)
    with pytest.raises(Unreadable, match="after the expression"):
        read_expression(whole + b"\x00", is_hive4=True)


@pytest.mark.parametrize(
    "name",
    [
        "java.lang.ProcessBuilder",
        "javax.script.ScriptEngineManager",
        "org.apache.hadoop.hive.ql.exec.Operator",
        "org.apache.hadoop.hive.ql.plan.MapWork",
        "builtins.exec",
    ],
)
def test_a_class_in_the_bytes_is_only_a_text(name: str) -> None:
    with pytest.raises(Unreadable, match="not a list"):
        read_expression(b"\x01\x01\x00" + name[:-1].encode() + bytes([ord(name[-1]) | 0x80]), is_hive4=False)


@pytest.mark.parametrize("number", range(9, 120))
def test_no_class_is_registered_under_a_number_but_those_of_constants(number: int) -> None:
    """Hive registers classes of plans and operators, which a list of names would not see."""
    whole = named("2.3", "equal")
    at = whole.index(b"\x03\x012020-01-0")  # the class of the constant: a text
    try:
        read = read_expression(whole[:at] + bytes([number + 2]) + whole[at + 1 :], is_hive4=False)
    except Unreadable:
        return
    pytest.fail(f"{number} was read: {read}")


class NestedCalls:
    """Writes, as Kryo 4, calls of AND whose two arguments are one and the same call of the next level."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._objects = 0

    def write(self, levels: int) -> bytes:
        """Return an expression of this many levels."""
        self._objects += 1
        return b"\x01" + self._fields(levels)

    def _fields(self, levels: int) -> bytes:
        found = self._begin("java.util.ArrayList") + b"\x02"
        argument = self._objects
        if levels == 1:
            name = "org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc"
            found += self._begin(name) + self._text("c") + b"\x00\x00\x00" + self._type()
        else:
            name = "org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc"
            found += self._begin(name) + self._fields(levels - 1)
        found += self._class(name) + bytes([argument + 2])
        function = self._begin("org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPAnd") + b"\x00"
        return found + function + b"\x00" + self._type()

    def _class(self, name: str) -> bytes:
        if name in self._names:
            return bytes([1, self._names.index(name)])
        self._names.append(name)
        return bytes([1, len(self._names) - 1]) + name[:-1].encode() + bytes([ord(name[-1]) | 0x80])

    def _begin(self, name: str) -> bytes:
        self._objects += 1
        return self._class(name) + b"\x01"

    def _text(self, character: str) -> bytes:
        self._objects += 1
        return b"\x01\x82" + character.encode()

    def _type(self) -> bytes:
        return self._begin("org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo") + self._text("t")


def test_few_bytes_do_not_describe_a_huge_tree() -> None:
    """References to one part from two places, again and again, double the tree each time."""
    assert isinstance(read_expression(NestedCalls().write(8), is_hive4=False), Call)
    assert NODES_MAX < 2**20
    with pytest.raises(Unreadable, match="too large"):
        read_expression(NestedCalls().write(20), is_hive4=False)


def test_a_deep_expression_is_refused() -> None:
    call = b"\x01\x01org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDes\xe3"
    nested = b"\x01\x00java.util.ArrayLis\xf4\x01\x01" + call + b"\x01"
    later = b"\x01\x00\x01\x01\x01\x01\x01"
    with pytest.raises(Unreadable, match="too deep"):
        read_expression(b"\x01" + nested + later * (2 * DEPTH_MAX), is_hive4=False)


def test_expressions_that_are_too_long_are_not_read_and_failures_are_counted() -> None:
    reader = ExpressionReader()
    assert reader.read(b"\x01" * (BYTES_MAX + 1)) is None
    assert reader.read(b"") is None
    assert reader.failures == 2


def test_the_last_trees_are_kept_but_not_those_of_long_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    short, other, long_text = named("4", "equal"), named("4", "null"), named("4", "long text")
    monkeypatch.setattr(expression_reader, "KEPT_MAX", 1)
    monkeypatch.setattr(expression_reader, "KEPT_BYTES_MAX", len(short) + 10)
    reader = ExpressionReader()
    first = reader.read(short)
    assert reader.read(short) is first
    assert reader.read(long_text) is not reader.read(long_text)
    reader.read(other)
    assert reader.read(short) is not first


@pytest.mark.parametrize(("zone", "day"), [("UTC", "2020-01-01"), ("America/Los_Angeles", "2019-12-31")])
def test_javas_dates_are_those_of_the_machines_time_zone(
    zone: str, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    read = read_expression(named("2.3", "between"), is_hive4=False)
    assert isinstance(read, Call)
    assert read.arguments[2] == Constant(day, "date")
