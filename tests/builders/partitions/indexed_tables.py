"""Indexed tables over stores, and filters in two forms: as text, and as a Python function that gives the
expected answer."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from hypothesis import strategies as st

from state.partitions.index.partition_index import PartitionIndex
from state.store import Store
from state.store.memory import MemoryStore


TABLE = "sales.events"
DEFAULT = "__HIVE_DEFAULT_PARTITION__"


def an_index(
    columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]], store: Store | None = None
) -> PartitionIndex:
    """An index of one table; the payload of a partition is its values joined by bars."""
    store = store or MemoryStore()
    index = PartitionIndex(store)
    with store.transaction() as txn:
        change = index.change(txn)
        change.follow(TABLE, columns)
        for values in rows:
            change.add(TABLE, values, "|".join(values).encode(errors="surrogatepass"))
    change.publish()
    return index


@dataclass(frozen=True)
class Condition:
    """A filter as text, and its result for the values of one partition."""

    text: str
    holds: Callable[[Sequence[str]], bool]


@dataclass(frozen=True)
class NaiveColumn:
    """A column in plain Python: its texts, the constants to compare with, and the conversion of both to
    values."""

    name: str
    declared: str
    texts: tuple[str, ...]
    constants: tuple[Any, ...]
    value: Callable[[str], Any]
    written: Callable[[Any], str]


def _quoted(text: Any) -> str:
    return f'"{text}"' if "'" in str(text) else f"'{text}'"


def _int(text: str) -> int | None:
    number = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
    return number if number is not None and -(2**31) <= number < 2**31 else None


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number == number.quantize(Decimal("0.01")) and abs(number) < 10**8 else None


INT = NaiveColumn(
    "i",
    "int",
    (
        "0",
        "7",
        "007",
        "-1",
        "1",
        "255",
        "256",
        "511",
        "512",
        "2147483647",
        "-2147483648",
        "2147483648",
        "abc",
        " 5",
        DEFAULT,
    ),
    (-(2**40), -(2**31), -1, 0, 7, 10, 254, 255, 256, 257, 511, 512, 2**31 - 1, 2**31, 2**62),
    _int,
    str,
)
STRING = NaiveColumn(
    "s",
    "string",
    (
        "a",
        "b",
        "ab",
        "abc",
        "A",
        "a\x00b",
        "a\x01b",
        "a\x00",
        "\x01",
        "\x7f",
        "ÿ",
        "日",
        "x_y",
        "it's",
        "50%",
        DEFAULT,
    ),
    ("", "a", "b", "ab", "a\x00", "a\x00b", "a\x01b", "\x01", "ÿ", "日本", "it's", "Z", "_", DEFAULT),
    lambda text: text.encode(),
    _quoted,
)
DATE = NaiveColumn(
    "d",
    "date",
    (
        "2020-06-17",
        "2020-06-18",
        "2020-06-19",
        "1969-12-31",
        "1970-01-01",
        "0001-01-01",
        "9999-12-31",
        "2020-02-30",
        "x",
        DEFAULT,
    ),
    tuple(
        dt.date(*day)
        for day in [(2020, 6, 17), (2020, 6, 18), (2020, 6, 19), (1969, 12, 31), (1970, 1, 1), (1, 1, 1)]
    ),
    _date,
    str,
)
DECIMAL = NaiveColumn(
    "x",
    "decimal(10,2)",
    (
        "-1",
        "-1.00",
        "-10.5",
        "-0.01",
        "0",
        "0.00",
        "0.05",
        "1",
        "10",
        "10.50",
        "100",
        "12345678.9",
        "0.001",
        "abc",
        DEFAULT,
    ),
    tuple(
        map(
            Decimal,
            (
                "-100",
                "-10.5",
                "-10",
                "-1",
                "-0.01",
                "0",
                "0.001",
                "0.05",
                "1",
                "1.0",
                "10.5",
                "99",
                "100",
                "1e20",
            ),
        )
    ),
    _decimal,
    lambda number: f"'{number}'",
)
NAIVE_COLUMNS = (INT, STRING, DATE, DECIMAL)
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _plain(column: NaiveColumn, constant: Any) -> Any:
    return constant.encode() if isinstance(constant, str) and column is STRING else constant


def compared(columns: Sequence[NaiveColumn], at: int, operator: str, constant: Any, flip: bool) -> Condition:
    """Return a strategy for one comparison, possibly with its operands swapped."""
    column, wanted = columns[at], _plain(columns[at], constant)
    sides = [column.name.upper() if flip else column.name, operator, column.written(constant)]
    if flip:
        sides = [sides[2], _FLIPPED.get(operator, operator), sides[0]]

    def holds(values: Sequence[str]) -> bool:
        value = column.value(values[at])
        return value is not None and _COMPARED[operator](value, wanted)

    return Condition(" ".join(sides), holds)


def listed(columns: Sequence[NaiveColumn], at: int, constants: Sequence[Any], negated: bool) -> Condition:
    """``(c) [NOT] IN (..)``."""
    column, wanted = columns[at], [_plain(columns[at], constant) for constant in constants]
    text = f"({column.name}) {'not ' * negated}in ({', '.join(map(column.written, constants))})"

    def holds(values: Sequence[str]) -> bool:
        value = column.value(values[at])
        return value is not None and (value in wanted) != negated

    return Condition(text, holds)


def spanned(columns: Sequence[NaiveColumn], at: int, low: Any, high: Any, negated: bool) -> Condition:
    """``c [NOT] BETWEEN .. AND ..``."""
    column, lowest, highest = columns[at], _plain(columns[at], low), _plain(columns[at], high)
    text = f"{column.name} {'not ' * negated}between {column.written(low)} and {column.written(high)}"

    def holds(values: Sequence[str]) -> bool:
        value = column.value(values[at])
        if value is None:
            return False
        return bool(value < lowest or value > highest) if negated else bool(lowest <= value <= highest)

    return Condition(text, holds)


def like_sql(pattern: str, text: str) -> bool:
    """SQL's LIKE without an escape, through a regular expression."""
    form = "".join({"%": ".*", "_": "."}.get(one) or re.escape(one) for one in pattern)
    return re.fullmatch(form, text, re.DOTALL) is not None


def resembling(columns: Sequence[NaiveColumn], at: int, pattern: str) -> Condition:
    """``c LIKE ..``."""
    return Condition(
        f"{columns[at].name} like {_quoted(pattern)}", lambda values: like_sql(pattern, values[at])
    )


def joined(word: str, parts: Sequence[Condition]) -> Condition:
    """AND or OR of conditions, in parentheses."""
    every = all if word == "and" else any
    text = "(" + f" {word} ".join(part.text for part in parts) + ")"
    return Condition(text, lambda values: every(part.holds(values) for part in parts))


def conditions(columns: Sequence[NaiveColumn]) -> st.SearchStrategy[Condition]:
    """Return a strategy for filters over these columns, a few levels deep."""
    numbers = st.integers(0, len(columns) - 1)

    def leaf(at: int) -> st.SearchStrategy[Condition]:
        constants = st.sampled_from(columns[at].constants)
        kinds = [
            st.builds(
                lambda o, c, f: compared(columns, at, o, c, f),
                st.sampled_from(list(_COMPARED)),
                constants,
                st.booleans(),
            ),
            st.builds(
                lambda c, n: listed(columns, at, c, n),
                st.lists(constants, min_size=1, max_size=5),
                st.booleans(),
            ),
            st.builds(
                lambda low, high, n: spanned(columns, at, low, high, n), constants, constants, st.booleans()
            ),
        ]
        if columns[at] is STRING:
            kinds.append(st.text("ab%_x", max_size=4).map(lambda pattern: resembling(columns, at, pattern)))
        return st.one_of(kinds)

    return st.recursive(
        numbers.flatmap(leaf),
        lambda part: st.builds(
            joined, st.sampled_from(["and", "or"]), st.lists(part, min_size=2, max_size=4)
        ),
        max_leaves=8,
    )


def rows_of(columns: Sequence[NaiveColumn], max_size: int = 40) -> st.SearchStrategy[list[tuple[str, ...]]]:
    """Return a strategy for partitions of a table with these columns."""
    return st.lists(
        st.tuples(*(st.sampled_from(column.texts) for column in columns)), unique=True, max_size=max_size
    )
