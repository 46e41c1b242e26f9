"""Messages contain no Python values, whatever the context of an error is."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import pytest

from daemon.terminal.layout import failure_lines
from state import errors
from state.errors import TidelineError
from state.value_text import count_text, value_text


class Colour(Enum):
    RED = "red"


REFUSED = ConnectionRefusedError(111, "Connection refused")
CASES: list[tuple[object, str]] = [
    (None, "none"),
    (True, "yes"),
    ("", "(empty)"),
    ("a b", "a b"),
    (b"a\xff", r"a\xff"),
    (Colour.RED, "red"),
    (timedelta(hours=36), "36 h"),
    (timedelta(0), "0 s"),
    (timedelta(seconds=90), "90 s"),
    (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02 03:04:05+00:00"),
    (
        {"thrift://a:9083": REFUSED, "b": str(REFUSED)},
        "thrift://a:9083: Connection refused; b: Connection refused",
    ),
    ({}, "none"),
    ([], "none"),
    (["x", 2, None], "x, 2, none"),
    ({"b", "a"}, "a, b"),
    (["a, b", "c"], "a, b; c"),
    (KeyError(), "KeyError"),
    (errors.NotFound("no table", table="x"), "no table"),
]
REPR = re.compile(
    r"\[Errno|\bNone\b|\bTrue\b|\bFalse\b|\{'|\['|\('|timedelta|Error\(|datetime\.|<[a-z_.]+ |b'"
)


@pytest.mark.parametrize(("value", "text"), CASES)
def test_a_value_is_written_in_plain_words(value: object, text: str) -> None:
    assert value_text(value) == text


def tree(kind: type[TidelineError]) -> list[type[TidelineError]]:
    return [kind, *(below for each in kind.__subclasses__() for below in tree(each))]


@pytest.mark.parametrize("kind", [kind for kind in tree(TidelineError) if kind.__module__ == "state.errors"])
def test_no_error_of_the_reference_prints_a_python_value(kind: type[TidelineError]) -> None:
    context: dict[str, Any] = {f"value_{at}": value for at, (value, _) in enumerate(CASES)}
    error = kind(f"it failed: {REFUSED}", **context)
    for text in (str(error), "\n".join(failure_lines(error))):
        assert not REPR.search(text.replace(r"a\xff", "")), text
        assert "it failed: Connection refused" in text


def test_a_count_has_the_right_noun() -> None:
    assert [count_text(n, "table") for n in (0, 1, 2000)] == ["0 tables", "1 table", "2,000 tables"]
    assert count_text(2, "directory", "directories") == "2 directories"
