"""Reads an expression from the objects of Hive's classes that it consists of.

Kryo writes the fields of an object in the order of their names. So code that knows the fields of a class
reads it by its name, and creates no object of it: a client can send the name of any class, but it is only a
text here. Classes that are not listed, such as those of most functions, make the expression unreadable, and
the answer is then "all partitions".

Hive 2 and 3 (Kryo 3 and 4) and Hive 4 (Kryo 5) write the same fields. They differ in lists,
enumerations, dates, some ids of classes, and the class of the root.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from handlers.expressions.kryo_input import REGISTERED, Known, KryoInput, Unreadable
from state.partitions.filters.hive_expressions import Call, ColumnReference, Constant, Expression


T = TypeVar("T")
BYTES_MAX: Final = 1 << 20
DEPTH_MAX: Final = 100
NODES_MAX: Final = 100_000
"""Nodes of a tree; parts to which several references lead are counted each time."""
_PLAN: Final = "org.apache.hadoop.hive.ql.plan.ExprNode"
_COLUMN: Final = f"{_PLAN}ColumnDesc"
_CONSTANT: Final = f"{_PLAN}ConstantDesc"
_CALL: Final = f"{_PLAN}GenericFuncDesc"
_GENERIC: Final = "org.apache.hadoop.hive.ql.udf.generic.GenericUDF"
_BRIDGE: Final = f"{_GENERIC}Bridge"
_BETWEEN: Final = f"{_GENERIC}Between"
_IN: Final = f"{_GENERIC}In"
_TO_DATE: Final = f"{_GENERIC}ToDate"
_COMPARISONS: Final = frozenset(
    f"{_GENERIC}OP{name}"
    for name in (
        "Equal",
        "EqualNS",
        "EqualOrGreaterThan",
        "EqualOrLessThan",
        "GreaterThan",
        "LessThan",
        "NotEqual",
    )
)
_WITH_RESULT: Final = frozenset(f"{_GENERIC}OP{name}" for name in ("And", "Or", "Not", "Null", "NotNull"))
_TYPES: Final = "org.apache.hadoop.hive.serde2.typeinfo."
_COMMON: Final = "org.apache.hadoop.hive.common.type."
_SQL_IDS: Final = {10: "java.sql.Date", 11: "java.sql.Timestamp"}
_SQL_IDS_OF_HIVE_4: Final = {9: "java.sql.Date", 10: "java.sql.Timestamp"}
_JULIAN: Final = dt.date(1582, 10, 15)
"""Java prints earlier instants by the Julian calendar."""


@dataclass(frozen=True, slots=True)
class _Node:
    tree: Expression
    depth: int
    nodes: int


def read_expression(data: bytes, *, is_hive4: bool) -> Expression:
    """Return the tree of an expression. Raises Unreadable, and nothing else, for any bytes."""
    if len(data) > BYTES_MAX:
        raise Unreadable("an expression that is too long")
    try:
        return _Objects(data, is_hive4=is_hive4).read_root()
    except (UnicodeDecodeError, OverflowError, ValueError, RecursionError, OSError) as error:
        raise Unreadable(str(error)) from error


class _Objects:
    def __init__(self, data: bytes, *, is_hive4: bool) -> None:
        own = _SQL_IDS_OF_HIVE_4 if is_hive4 else _SQL_IDS
        self._input = KryoInput(data, REGISTERED | own)
        self._is_hive4 = is_hive4
        self._depth = 0

    def read_root(self) -> Expression:
        if self._is_hive4 and self._input.read_class() != _CALL:
            raise Unreadable("an expression that is not a call")
        root = self._read_object(self._read_call)
        if root is None or self._input.position != len(self._input.data):
            raise Unreadable("bytes after the expression")
        return root.tree

    def _read_object(self, read: Callable[[], T]) -> T | None:
        """Return the object that ``read`` reads; None for NULL; for a reference, the object read before."""
        try:
            number = self._input.begin_object()
        except Known as known:
            return known.value  # type: ignore[return-value] # checked by who uses it
        if number is None:
            return None
        value = read()
        self._input.end_object(number, value)
        return value

    def _read_text(self) -> str:
        text = self._read_object(self._input.read_text)
        if not isinstance(text, str):
            raise Unreadable("a string is missing")
        return text

    # Nodes

    def _read_node(self, name: str | None) -> _Node:
        readers = {_COLUMN: self._read_column, _CONSTANT: self._read_constant, _CALL: self._read_call}
        if name not in readers:
            raise Unreadable("an unknown kind of node")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise Unreadable("an expression that is nested too deeply")
        node = self._read_object(readers[name])
        self._depth -= 1
        if not isinstance(node, _Node):
            raise Unreadable("a node is missing")
        return node

    def _read_column(self) -> _Node:
        column = self._read_text()
        self._input.read_boolean()  # isPartitionColOrVirtualCol
        self._input.read_boolean()  # isSkewedCol
        self._read_object(self._input.read_text)  # tabAlias
        return _Node(ColumnReference(column, self._read_type()), 1, 1)

    def _read_constant(self) -> _Node:
        type_ = self._read_type()
        return _Node(Constant(self._read_value(), type_), 1, 1)

    def _read_call(self) -> _Node:
        if self._input.read_class() != "java.util.ArrayList":
            raise Unreadable("arguments that are not a list")
        arguments = self._read_object(self._read_nodes)
        if not isinstance(arguments, list):
            raise Unreadable("a call without arguments")
        function = self._read_function()
        self._input.read_boolean()  # isSortedExpr
        self._read_type()
        depth = 1 + max((node.depth for node in arguments), default=0)
        nodes = 1 + sum(node.nodes for node in arguments)
        if depth > DEPTH_MAX or nodes > NODES_MAX:
            raise Unreadable("an expression that is too large")
        return _Node(Call(function, tuple(node.tree for node in arguments)), depth, nodes)

    def _read_nodes(self) -> list[_Node]:
        if not self._is_hive4:
            return [self._read_node(self._input.read_class()) for _ in range(self._input.read_number())]
        head = self._input.read_byte()
        length = head & 0x3F
        if head & 0x40:
            length |= self._input.read_number() << 6
        if length <= 1:
            return []
        if not head & 0x80:
            return [self._read_node(self._input.read_class()) for _ in range(length - 1)]
        name = self._input.read_class()
        self._input.read_boolean()  # whether elements may be NULL: with references, that changes nothing
        return [self._read_node(name) for _ in range(length - 1)]

    # Functions

    def _read_function(self) -> str:
        name = self._input.read_class()
        if name is None:
            raise Unreadable("a call without a function")
        function = self._read_object(lambda: self._read_fields_of_function(name))
        if not isinstance(function, str):
            raise Unreadable("a call without a function")
        return function

    def _read_fields_of_function(self, name: str) -> str:
        if name == _BRIDGE:
            self._input.read_boolean()  # isOperator
            class_name = self._read_text()
            self._read_text()  # udfName
            return class_name
        if name in _COMPARISONS:
            self._require_null()  # compareOI
            self._read_comparison_type()
            self._read_object(self._input.read_text)  # opDisplayName
            self._read_object(self._input.read_text)  # opName
            self._read_result()
        elif name in _WITH_RESULT:
            self._read_result()
        elif name == _IN:
            self._read_result()
            self._input.read_boolean()  # isInSetConstant
        elif name == _BETWEEN:
            self._require_null()  # argumentOIs
            for _ in range(2):  # egt, elt
                if self._input.read_class() not in _COMPARISONS:
                    raise Unreadable("an unsupported comparison in BETWEEN")
                self._read_object(lambda: self._read_fields_of_function(f"{_GENERIC}OPEqual"))
            self._read_result()
        elif name != _TO_DATE:
            raise Unreadable("an unsupported function")
        return name

    def _require_null(self) -> None:
        if self._input.read_class() is not None:
            raise Unreadable("an unsupported object")

    def _read_comparison_type(self) -> None:
        """Read a value of an enumeration, which Kryo 5 does not count among the objects."""
        if not self._is_hive4:
            self._read_object(self._input.read_number)
        elif self._input.read_boolean():
            self._input.read_number()

    def _read_result(self) -> None:
        name = self._input.read_class()
        if name == "org.apache.hadoop.io.BooleanWritable":
            self._read_object(self._input.read_boolean)
        elif name is not None:
            raise Unreadable("a result that is not a boolean")

    # Types and values

    def _read_type(self) -> str:
        name = self._input.read_class()
        readers = {
            f"{_TYPES}PrimitiveTypeInfo": self._read_text,
            f"{_TYPES}DecimalTypeInfo": self._read_decimal,
        }
        if name not in readers:
            raise Unreadable("an unsupported type")
        found = self._read_object(readers[name])
        if not isinstance(found, str):
            raise Unreadable("a type is missing")
        return found

    def _read_decimal(self) -> str:
        precision, scale = self._input.read_signed(), self._input.read_signed()
        self._read_object(self._input.read_text)  # typeName
        return f"decimal({precision},{scale})"

    def _read_value(self) -> str | None:
        name = self._input.read_class()
        if name is None:
            return None
        numbers: dict[str, Callable[[], object]] = {
            "int": self._input.read_signed,
            "long": lambda: self._input.read_signed(64),
            "short": lambda: self._input.read_fixed(2),
            "byte": lambda: self._input.read_fixed(1),
            "float": lambda: struct.unpack(">f", self._input.read_bytes(4))[0],
            "double": lambda: struct.unpack(">d", self._input.read_bytes(8))[0],
            "boolean": self._input.read_boolean,
        }
        if name in numbers:
            value = numbers[name]()
            return str(value).lower() if isinstance(value, bool) else str(value)
        objects: dict[str, Callable[[], str | None]] = {
            "java.lang.String": self._input.read_text,
            "java.sql.Date": self._read_sql_date,
            "java.sql.Timestamp": self._read_sql_timestamp,
            f"{_COMMON}Date": lambda: _write_date(self._read_inner(self._read_local_date)),
            f"{_COMMON}Timestamp": lambda: self._read_inner(self._read_local_timestamp),
            f"{_COMMON}HiveDecimal": self._read_hive_decimal,
        }
        if name not in objects:
            raise Unreadable("an unsupported constant")
        found = self._read_object(objects[name])
        if found is not None and not isinstance(found, str):
            raise Unreadable("an invalid constant")
        return found

    def _read_inner(self, read: Callable[[], T]) -> T:
        value = self._read_object(read)
        if value is None:
            raise Unreadable("a part of a constant is missing")
        return value

    def _read_sql_date(self) -> str:
        """Read a date. Java's date is an instant: the beginning of the day in the time zone of the client,
        which the machines of a cluster share.
        """
        return _write_date(_to_local(self._input.read_fixed(8)).date())

    def _read_sql_timestamp(self) -> str:
        moment = _to_local(self._input.read_fixed(8))
        return _write_timestamp(moment, self._input.read_fixed(4))

    def _read_local_date(self) -> dt.date:
        if self._is_hive4:
            return dt.date(self._input.read_number(), self._input.read_byte(), self._input.read_byte())
        day, month = self._input.read_fixed(2), self._input.read_fixed(2)
        return dt.date(self._input.read_signed(), month, day)

    def _read_local_timestamp(self) -> str:
        if self._is_hive4:
            return self._read_short_timestamp()
        date = self._read_inner(self._read_local_date)
        return self._read_inner(lambda: self._read_fields_of_time(date))

    def _read_fields_of_time(self, date: dt.date) -> str:
        hour, minute, nanoseconds = (
            self._input.read_byte(),
            self._input.read_byte(),
            self._input.read_signed(),
        )
        time = dt.time(hour, minute, self._input.read_byte())
        return _write_timestamp(dt.datetime.combine(date, time), nanoseconds)

    def _read_short_timestamp(self) -> str:
        """Read date and time of day as Kryo 5 writes them: without the zeros at the end of the time; the
        last part that is written is inverted.
        """
        date, parts = self._read_local_date(), [0, 0, 0]
        nanoseconds = None
        for index in range(3):
            part = self._input.read_fixed(1)
            parts[index] = ~part if part < 0 else part
            if part < 0:
                nanoseconds = 0
                break
        if nanoseconds is None:
            nanoseconds = self._input.read_number()
        hour, minute, second = parts
        return _write_timestamp(dt.datetime.combine(date, dt.time(hour, minute, second)), nanoseconds)

    def _read_hive_decimal(self) -> str:
        low, middle, high = (self._input.read_signed(64) for _ in range(3))
        self._input.read_signed()  # fastIntegerDigitCount
        scale = self._input.read_signed()
        self._input.read_signed()  # fastSerializationScale
        sign = self._input.read_signed()
        digits = high * 10**32 + middle * 10**16 + low
        if not 0 <= scale <= 38 or digits < 0 or sign not in {-1, 0, 1}:
            raise Unreadable("an invalid decimal number")
        text = str(digits).rjust(scale + 1, "0")
        text = f"{text[:-scale]}.{text[-scale:]}" if scale else text
        return f"-{text}" if sign < 0 else text


def _to_local(milliseconds: int) -> dt.datetime:
    moment = dt.datetime.fromtimestamp(milliseconds // 1_000)  # noqa: DTZ006 - as Java prints it, see the caller
    if moment.date() < _JULIAN:
        raise Unreadable("a date in the Julian calendar")
    return moment


def _write_date(date: dt.date) -> str:
    return date.isoformat()


def _write_timestamp(moment: dt.datetime, nanoseconds: int) -> str:
    if not 0 <= nanoseconds < 10**9:
        raise Unreadable("an invalid fraction of a second")
    fraction = f"{nanoseconds:09d}".rstrip("0") or "0"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{fraction}"
