"""Filters of old clients, translated for Hive 4: they find what they find in Hive 2, and what Spark means by
them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.partitions.filters.dialect import DEPTH_MAX, HIVE_4, LikeDialect
from state.partitions.filters.like_pattern import parse_pattern
from state.partitions.filters.parser import parse_filter
from state.partitions.filters.rewriting import ClientVersion, translate_filter, translate_pattern
from tests.builders.partitions.text_databases import BY_BYTES


VALUES = st.text("ab.*%_\\\"' ", max_size=6)
TESTS = {"startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}


def as_spark_writes(call: str, column: str, text: str) -> str:
    """Return the filter of ``HiveShim.convertFilters``; it quotes a text, and then puts double quotes around
    the pattern."""
    quoted = f"'{text}'" if '"' in text else f'"{text}"'
    match call:
        case "startswith":
            return f'{column} like {quoted[:-1]}.*"'
        case "endswith":
            return f'{column} like ".*{quoted[1:]}'
        case _:
            return f'{column} like ".*{quoted[1:-1]}.*"'


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ('ds like "2024-01-0.*"', 'ds like "2024-01-0%"'),
        ('ds like ".*x_y"', r'ds like "%x\_y"'),
        ('ds like ".*50%.*"', r'ds like "%50\%%"'),
        ('ds like "a.b.*" and hr = 7', '(ds like "a_b%" and hr = 7)'),
        ('ds like ".*"', 'ds like "%"'),
        (r'ds like "a\.*"', r'(ds like "a.*" or ds like "a\\%")'),
        ('date = "2024-01-01"', '`date` = "2024-01-01"'),
        ('(is = "a" or a-b != "x")', '(`is` = "a" or `a-b` != "x")'),
        ('s = "a\\"', r's like "a\\"'),
        ('s > "a\\" and t = "b"', r'((s >= "a]" or s like "a\\_%") and t = "b")'),
        ('s like \'say "hi".*"', ""),
        ('s like ".*say "hi"\'', ""),
    ],
)
def test_a_filter_of_an_old_client_is_written_as_hive_4_reads_it(text: str, translation: str) -> None:
    assert translate_filter(text) == translation
    assert translate_filter(text, ClientVersion.NEW) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ds like 'a%'",
        "ds like 'a_c'",
        "ds like 'x'",
        "ds = 'a.*b'",
        "(s) in ('a', 'b') and d = DATE '2024-01-01'",
        "s = 'a' junk",
        "ds like ",
        "'a.*' like ds",
        "`date` = 'x'",
        "(s) not in ('a') is not true",
    ],
)
def test_what_hive_4_reads_as_it_is_meant_is_not_changed(text: str) -> None:
    assert translate_filter(text) == text


def test_a_filter_beyond_a_limit_is_left_to_the_metastore() -> None:
    text = "(" * (DEPTH_MAX + 1) + 'ds like "a.*"' + ")" * (DEPTH_MAX + 1)
    assert translate_filter(text) == text


def test_a_pattern_that_either_version_may_have_written_matches_both_readings() -> None:
    assert translate_pattern("%x.*") == (r"\%x%", "%x.*")
    assert translate_pattern("a.c") == ("a.c",)
    assert translate_pattern("a.c", ClientVersion.OLD) == ("a_c", "a.c")
    assert translate_pattern("a%", ClientVersion.OLD) == ("a%",)


@given(
    st.lists(st.sampled_from([".*", ".", "a", "b", "%", "_"]), max_size=6).map("".join),
    st.text("ab%_\n", max_size=6),
)
@settings(max_examples=300, deadline=None)
def test_a_pattern_matches_what_the_regular_expression_matches(pattern: str, text: str) -> None:
    matches = any(
        parse_pattern(one, LikeDialect.SQL).matches(text)
        for one in translate_pattern(pattern, ClientVersion.OLD)
    )
    is_match = re.fullmatch(pattern, text, re.DOTALL) is not None
    if ".*" in pattern and not pattern.startswith("%") and not pattern.endswith("%"):
        assert matches == is_match
    else:
        assert matches or not is_match


@given(st.sampled_from(sorted(TESTS)), VALUES, VALUES)
@settings(max_examples=400, deadline=None)
@example("contains", 'x" or y', 'x" or y')
@example("endswith", "a\\", "ba\\")
def test_every_pattern_of_spark_finds_what_spark_finds(call: str, text: str, value: str) -> None:
    if "'" in text and '"' in text:
        return  # Spark refuses it
    if text in value:
        value = {
            "startswith": value[value.index(text) :],
            "endswith": value[: value.index(text) + len(text)],
        }.get(call, value)
    found = BY_BYTES.finds(translate_filter(as_spark_writes(call, "s", text)), value)
    assert found or not TESTS[call](value, text)


@given(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), VALUES, VALUES, st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_comparison_of_spark_finds_what_spark_finds(
    operator: str, text: str, value: str, is_reversed: bool
) -> None:
    if "'" in text and '"' in text:
        return
    quoted = f"'{text}'" if '"' in text else f'"{text}"'
    expected = {
        "=": value == text, "!=": value != text, "<": value < text,
        "<=": value <= text, ">": value > text, ">=": value >= text,
    }[operator]  # fmt: skip
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
    written = f"{quoted} {flipped} s" if is_reversed else f"s {operator} {quoted}"
    assert BY_BYTES.finds(translate_filter(written), value) or not expected


@given(st.text("ab.*%_\\\"' =<()", max_size=30))
def test_a_translation_can_be_read_and_is_not_translated_again(text: str) -> None:
    once = translate_filter(f's like {text} or s like "b.*"')
    if once.startswith("("):
        parse_filter(once, HIVE_4)
        assert "%" in once
