"""Predicates of a Spark session on the partition columns of one table, which has values that metastores read
in their own way."""

from __future__ import annotations

from typing import Final


COLUMNS: Final = "s STRING, hr INT, d DATE, `date` STRING"
TEXTS: Final = (
    "a", "ab", "abc", "b", "A", "a ", "a  ", " a", "a b", "b ", " ", "x_y", "xzy", "x_y ", "50%", "500", "_",
    "%", ".*", "a.b", "axb", "a.*b",
    "a\\b", "a\\", "it's", 'say "hi"', "a+b", "aab", "(a)", "[ab]", "a|b", "^a$", "a/b", "a=b",
    "\u65e5\u672c", "\uff3a", "\U0001f600",
    "2024-01-01", "2024-01-02", None,
)  # fmt: skip
HOURS: Final = ("0", "7", "-1", "23", None)
DAYS: Final = ("2024-01-01", "2024-01-02", "1999-12-31", None)
_COMPARED: Final = ("a", "a ", "x_y", "%", "a.b", "a\\", "it's", "\uff3a", "\U0001f600", "")
_PARTS: Final = (
    "a",
    "a ",
    "_",
    "50%",
    "a.b",
    "a\\b",
    "a\\",
    "it's",
    '"',
    "a+b",
    "[ab]",
    "",
    ".*",
    "\u65e5",
    "nosuch",
)
_OTHERS: Final = (
    "s LIKE 'a%'", "s LIKE '%b'", "s LIKE '%a%'", "s LIKE 'a%b'", "s LIKE 'a_b'", "s LIKE '2024-01-0%'",
    r"s LIKE r'x\_y'", "s LIKE 'ab'",
    "s NOT LIKE 'a%'", "s LIKE ANY ('a%', '%y')", "s ILIKE 'A%'", "s RLIKE '^a'", "NOT startswith(s, 'a')",
    "NOT (s = 'a' OR s = 'x_y')",
    "s IN ('a', 'x_y', 'a ')", "s NOT IN ('a', 'x_y')", "s NOT IN ('a', NULL)", "s <=> 'a'", "s <=> NULL",
    "s IS NULL", "s IS NOT NULL",
    "s BETWEEN 'a' AND 'b'", "s NOT BETWEEN 'a' AND 'b'", "length(s) = 1", "trim(s) = 'a'", "upper(s) = 'A'",
    "substr(s, 1, 1) = 'a'",
    "s LIKE 'x%' AND s != 'x_y'", "s LIKE 'x%' OR hr = 7", "s != 'x_y' AND hr != 7",
    "startswith(s, 'a') AND d IS NULL",
    "hr = 7", "7 = hr", "hr != 7", "hr > 0", "hr IN (7, 8, -1)", "hr NOT IN (7, -1)", "hr BETWEEN -1 AND 8",
    "hr <=> NULL", "hr = 7L", "hr = 7.0",
    "CAST(hr AS BIGINT) = 7", "CAST(hr AS STRING) LIKE '7%'", "hr + 1 = 8", "hr = 8 AND s = 'padded'",
    "d = DATE'2024-01-01'", "d = '2024-01-01'", "d != '2024-01-01'", "d > '2024-01-01'",
    "d IN (DATE'2024-01-01', DATE'1999-12-31')",
    "d NOT IN (DATE'2024-01-01')", "year(d) = 2024", "d LIKE '2024%'",
    "d BETWEEN '2024-01-01' AND '2024-01-31'", "d < current_date()",
    "`date` = 'x'", "`date` LIKE 'x%'", "`date` != 'x' AND s LIKE '%a%'",
)  # fmt: skip


def quote(text: str | None) -> str:
    """Return a text as a literal of Spark."""
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def rows() -> list[str]:
    """Return the rows of the table, one for each partition, as tuples of Spark."""
    return [
        (
            f"({number}, {quote(text)}, {HOURS[number % 5] or 'NULL'}, CAST({quote(DAYS[number % 4])} AS "
            "DATE), 'x')"
        )
        for number, text in enumerate(TEXTS)
    ]


def predicates() -> list[str]:
    """Return more than 120 predicates."""
    compared = [
        f"s {operator} {quote(text)}" for text in _COMPARED for operator in ("=", "!=", "<", ">", "<=", ">=")
    ]
    parts = [
        f"{name}(s, {quote(text)})" for text in _PARTS for name in ("startswith", "endswith", "contains")
    ]
    return [*compared, *parts, *_OTHERS]
