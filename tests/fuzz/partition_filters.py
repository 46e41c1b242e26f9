"""A target for coverage-guided fuzzing: filters and keys of the partition index.
Run by ``make fuzz`` and test_partitions.

The first byte of an input selects the meaning of the rest: the text of a filter, or a field of a key. A
filter may only be refused with BadFilter or LimitExceeded; a planned filter must have the same answer as a
check of every partition. A field may only be refused with StateCorrupt; its value must be encoded and decoded
again as the same value.

Usage: ``python -m tests.fuzz.partition_filters CORPUS [libFuzzer options]``; an empty corpus begins with a
few filters.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import product
from pathlib import Path

import atheris


with atheris.instrument_imports(include=["state.partitions"]):
    from state.partitions.filters.binder import bind
    from state.partitions.filters.conditions import compile_check
    from state.partitions.filters.dialect import Dialect, HiveVersion
    from state.partitions.filters.parser import parse_filter
    from state.partitions.keys.binary_sortable import decode, encode
    from state.partitions.keys.column_types import INTEGER_BYTES, ColumnType, TypeKind
    from state.partitions.keys.partition_key import name_reader, verify

from state.errors import BadFilter, LimitExceeded, StateCorrupt
from state.partitions.filters.conditions import Condition
from tests.builders.partitions.indexed_tables import TABLE, an_index


COLUMNS = [("ds", "string"), ("hr", "int"), ("d", "date"), ("n", "decimal(10,2)"), ("t", "timestamp")]
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
ROWS = list(
    product(
        ("a", "it's", "50%", DEFAULT),
        ("5", "05", "255", "abc", DEFAULT),
        ("2020-01-01", "1969-12-31", DEFAULT),
        ("-1.50", "10"),
        ("2020-01-01 00:00:00.5",),
    )
)
INDEX = an_index(COLUMNS, ROWS)
READ_NAME = name_reader(len(COLUMNS))
ALL_KEYS = list(INDEX.keys(INDEX.prepare(TABLE, "")))
DIALECTS = [
    Dialect.of(hive_version, ignore_trailing_input=ignore, all_types=every)
    for hive_version, ignore, every in product(HiveVersion, (False, True), (False, True))
]
TYPES = [ColumnType.parse("decimal(38,10)" if kind is TypeKind.DECIMAL else kind.value) for kind in TypeKind]


SEEDS = (
    "hr = 5",
    "(hr) in (5, 6) and (ds) not in ('x')",
    "d between '2020-01-01' and DATE '2020-02-01' or `ds` like 'a%'",
    "(struct(ds, hr)) in (struct('a', 5), const struct('b', 6))",
    "not_there <> 7 and (t > TIMESTAMP '2020-01-01 00:00:00.5') is not true",
    "10.5 >= n",
)


def one_input(data: bytes) -> None:
    """Look at one input; an exception is a finding."""
    if not data:
        return
    if data[0] % 2:
        _filter(data[1:].decode(errors="surrogateescape"), data[0] // 2)
    else:
        _field(data[1:], data[0] // 2)


def _filter(text: str, choice: int) -> None:
    dialect = DIALECTS[choice % len(DIALECTS)]
    try:
        tree = parse_filter(text, dialect)
        form = INDEX.table(TABLE).key_schema
        bound = None if tree is None else bind(tree, form.columns, dialect, form.default_partition)
        prepared = INDEX.plan(INDEX.table(TABLE), bound)
    except (BadFilter, LimitExceeded):
        return
    assert INDEX.names(prepared) == sorted(_every_name(bound)), text


def _every_name(condition: Condition | None) -> list[str]:
    check = None if condition is None else compile_check(condition, len(COLUMNS))
    return [READ_NAME(key).decode() for key in ALL_KEYS if check is None or check(key)]


def _field(data: bytes, choice: int) -> None:
    type_ = TYPES[choice % len(TYPES)]
    try:
        value = decode(type_, data)
        again = encode(type_.kind, value)
        assert encode(type_.kind, decode(type_, again)) == again, (type_, data)
        assert type_.kind not in INTEGER_BYTES or again == data, (type_, data)
    except StateCorrupt:
        pass
    with suppress(StateCorrupt):
        verify(data, 1 + choice % 8)


def main() -> None:
    """Fuzz until stopped."""
    corpus = Path(sys.argv[1])
    for number, text in enumerate(SEEDS):
        (corpus / f"seed{number}").write_bytes(b"\x01" + text.encode())
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
