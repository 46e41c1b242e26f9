"""The filter language: what is parsed, what is refused and where, limits, LIKE, and filters that clients
really send."""

from __future__ import annotations

import datetime as dt
import re
import sys
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.errors import BadFilter, LimitExceeded
from state.partitions.filters.dialect import (
    CONDITIONS_MAX,
    DEPTH_MAX,
    FILTER_CHARS_MAX,
    HIVE_2,
    HIVE_4,
    Dialect,
    HiveVersion,
    LikeDialect,
)
from state.partitions.filters.like_pattern import parse_pattern
from state.partitions.filters.parser import parse_filter
from state.partitions.filters.syntax_tree import (
    And,
    Column,
    Comparison,
    Literal,
    Membership,
    Operator,
    Or,
    write_filter,
)
from state.partitions.keys.binary_sortable import Instant
from tests.builders.partitions.indexed_tables import TABLE, an_index, like_sql


COLUMNS = [("ds", "string"), ("hr", "int"), ("d", "date"), ("t", "timestamp"), ("n", "decimal(10,2)")]
ROW = ("2020-01-01", "5", "2020-01-01", "2020-01-01 00:00:00.5", "-1.50")
OTHER = ("it's", "6", "2020-06-18", "2020-01-01 00:00:00", "10")
INDEX = an_index(COLUMNS, [ROW, OTHER])
LENIENT = Dialect.of(HiveVersion.HIVE_4, ignore_trailing_input=True)


def found(text: str, dialect: Dialect = HIVE_4) -> int:
    return INDEX.count(INDEX.prepare(TABLE, text, dialect))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("DS='2020-01-01'", 1),
        ("ds = 2020-01-01", 1),
        ("`ds` = 'x' or `hr` = 5", 1),
        ('ds = "it\'s"', 1),
        ("d = 2020-01-01", 1),
        ("d = '2020-1-1'", 1),
        ("d >= DATE '2020-06-18'", 1),
        ('d <= date"2020-06-18"', 2),
        ("t = TIMESTAMP '2020-01-01 00:00:00.5'", 1),
        ("t = 2020-01-01 00:00:00", 1),
        ("t > '2020-01-01 00:00:00'", 1),
        ("t >= '2020-01-01'", 2),
        ("hr = - 5", 0),
        ("hr = 005", 1),
        ("(((hr = 5)))", 1),
        ("(hr) in (5, 6) and (ds) not in ('x')", 2),
        ("hr <> 5", 1),
        ("not_there = 1 or hr = 1", None),
        ("ds = 'a' 'b' or hr = 5", 1),
        ("ds = '__HIVE_DEFAULT_PARTITION__'", 0),
        ("ds like 'it%'", 1),
    ],
)
def test_hive_4_filters_are_parsed(text: str, count: int | None) -> None:
    if count is None:
        with pytest.raises(BadFilter, match="not a partitioning key for the table"):
            found(text)
    else:
        assert found(text) == count


SPARK = {
    'ds = "2020-01-01"': 1,
    '"2020-01-01" = ds': 1,
    "(hr = 5 or hr = 6)": 2,
    "(hr != 5 and hr != 6)": 0,
    "(hr >= 5 and hr <= 6)": 2,
    "d = 2020-01-01 and hr = 5": 1,
    'd = "2020-01-01"': 1,
    'ds like ".*01.*"': 1,
    'ds like "2020.*" and ((hr = 5) or (hr = 7))': 1,
    'ds = "it\'s" and 6 = hr': 1,
}


@pytest.mark.parametrize(("text", "count"), SPARK.items())
def test_filters_that_spark_sends_to_hive_2_are_parsed(text: str, count: int) -> None:
    assert found(text, HIVE_2) == count


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("hr = ", 5),
        ("hr 5", 3),
        ("= 5", 0),
        ("hr = 5 junk", 7),
        ("hr = 5 )", 7),
        ("(hr = 5", 7),
        ("hr = 5 && ds = 'a'", 7),
        ("hr > 1;", 6),
        ("hr = 10.5", 7),
        ("hr in (1, 2)", 3),
        ("(hr) in ()", 9),
        ("hr = ds", 5),
        ("not hr = 5", 0),
        ("hr is null", 3),
        ("ds = 'open", 5),
        ("ds not like 'a'", 7),
        ("hr <=> 5", 3),
        ("d = 2020-02-30", 4),
        ("hr = 99999999999999999999", 5),
        ("hr = 'a'", 5),
        ("t = 5", 4),
        ("n = '1'", 4),
        ("'a' like ds", 0),
        ("(struct (ds, hr)) in (struct ('a', 5, 6))", 22),
        ("(ds like 'a%') is false", 1),
    ],
)
def test_a_syntax_error_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(BadFilter) as refused:
        found(text)
    assert refused.value.context["position"] == position


def test_syntax_errors_begin_like_those_of_hive() -> None:
    with pytest.raises(BadFilter) as refused:
        parse_filter("hr = ", HIVE_4)
    assert refused.value.message.startswith("Error parsing partition filter")


@pytest.mark.parametrize(
    "text",
    [
        "ds = 5",
        "t = '2020-01-01 00:00:00'",
        "hr == 5",
        "(hr) in (5, 'a')",
        "`hr` = 5",
        "d = DATE '2020-01-01'",
    ],
)
def test_hive_2_refuses_syntax_of_hive_4(text: str) -> None:
    with pytest.raises(BadFilter):
        found(text, HIVE_2)


def test_keywords_of_hive_4_are_column_names_in_hive_2() -> None:
    index = an_index([("date", "string")], [("a",)])
    assert index.count(index.prepare(TABLE, "date = 'a'", HIVE_2)) == 1
    assert index.count(index.prepare(TABLE, "`date` = 'a'", HIVE_4)) == 1
    with pytest.raises(BadFilter):
        index.prepare(TABLE, "date = 'a'", HIVE_4)


@pytest.mark.parametrize("text", ["hr = 5 junk", "hr = 5 )", "hr = 5 ds = 'x'", "hr = 5 is null"])
def test_trailing_input_is_ignored_where_configured(text: str) -> None:
    assert found(text, LENIENT) == 1


def test_texts_keep_escapes_and_doubled_quotes_as_in_hive() -> None:
    def text(written: str, dialect: Dialect) -> object:
        tree = parse_filter(f"ds = {written}", dialect)
        assert isinstance(tree, Comparison)
        return tree.literal.value

    assert text(r"'it\'s'", HIVE_2) == r"it\'s"
    assert text("'a''b'", HIVE_4) == "a''b"
    with pytest.raises(BadFilter):
        text("'a''b'", HIVE_2)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("' '", " "),
        ("' a  b '", " a  b "),
        ("'\t\n'", "\t\n"),
        ("\"a' 'b\"", "a' 'b"),
        ("'\"x\" '", '"x" '),
        ("' \" \" '", ' " " '),
        (r"'a\' \' b'", r"a\' \' b"),
    ],
)
@pytest.mark.parametrize("dialect", [HIVE_2, HIVE_4])
def test_blanks_and_quotes_within_a_text_remain_as_written(
    written: str, value: str, dialect: Dialect
) -> None:
    texts = ["", " ", "a", "a b", "''", "a' 'b", "a''b", '"x" ', '"x"', "a b ", value]
    index = an_index([("s", "string")], [(text,) for text in dict.fromkeys(texts)])

    def answer(text: str) -> list[str]:
        return [one.values[0] for one in index.partitions(index.prepare(TABLE, text, dialect))]

    assert answer(f"s = {written}") == answer(f"{written} = s") == answer(f"(s) in ({written})") == [value]
    assert answer(f"s between {written} and {written}") == [value]
    others = set(texts) - {value}
    assert set(answer(f"s != {written}")) == set(answer(f"(s) not in ({written})")) == others
    assert set(answer(f"s < {written} or s > {written}")) == others


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'a' 'b'", "a''b"),
        ("'a ' \n\t ' b'", "a '' b"),
        ("'' ''", "''"),
        ("'a' \"b\"", "'a'\"b\""),
        ("'a' \"b\" 'c'", "a'\"b\"'c"),
    ],
)
def test_hive_4_joins_texts_in_a_row_and_drops_only_the_blanks_between_them(written: str, value: str) -> None:
    tree = parse_filter(f"ds = {written}", HIVE_4)
    assert isinstance(tree, Comparison)
    assert tree.literal.value == value


TEXTS = st.text(st.sampled_from(" \t\n'ab"), max_size=6)


@given(TEXTS)
def test_every_text_without_the_quote_around_it_is_read_as_it_is(text: str) -> None:
    for dialect in (HIVE_2, HIVE_4):
        tree = parse_filter(f'ds = "{text}"', dialect)
        assert isinstance(tree, Comparison)
        assert tree.literal.value == text


@pytest.mark.parametrize("digits", ["9" * 4_301, "0" * 4_301 + "9" * 20, "-" + "1" * 100_000])
def test_a_number_of_any_length_is_refused_with_its_position(digits: str) -> None:
    with pytest.raises(BadFilter, match="does not fit in 64 bits") as refused:
        found(f"hr={digits}")
    assert refused.value.context["position"] == 3


def test_leading_zeros_of_any_number_do_not_change_a_value() -> None:
    assert found("hr=" + "0" * 4_301 + "5") == found("hr > -" + "0" * 100_000 + "1 and hr < 6") == 1
    assert found("hr >= -09223372036854775808 and hr <= 09223372036854775807") == 2


@pytest.mark.parametrize("text", [" ", "\n\t ", "\u00a0", "\u2003 "])
@pytest.mark.parametrize("dialect", [HIVE_2, HIVE_4])
def test_a_blank_filter_is_refused_and_not_answered_with_all_partitions(text: str, dialect: Dialect) -> None:
    with pytest.raises(BadFilter):
        found(text, dialect)
    assert found("", dialect) == 2


@pytest.mark.parametrize(
    ("text", "position"), [("ds = 'open", 5), ('ds = "open', 5), ("`ds = 1", 0), ("ds = 'a\\'", 5)]
)
def test_a_quote_that_is_not_closed_is_named(text: str, position: int) -> None:
    with pytest.raises(BadFilter, match=f"the quote {text[position]} at position {position} is not closed"):
        found(text)


@pytest.mark.parametrize("start", ["ds = 'a", 'ds = "a', "ds = 'a' '", "`a", "`" * 2])
def test_a_long_text_that_is_not_closed_costs_little_memory(start: str) -> None:
    text = start + "``" * ((FILTER_CHARS_MAX - len(start)) // 2)
    tracemalloc.start()
    try:
        with pytest.raises(BadFilter):
            found(text)
        assert tracemalloc.get_traced_memory()[1] < 16 * FILTER_CHARS_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text", ["x" * 100_000 + " = 1", "`a\x1b[31mb\n` = 1", "hr \x07 5", "hr = 'a\x1b[31m'", "'a' like `d\n`"]
)
def test_messages_show_names_shortened_and_control_characters_escaped(text: str) -> None:
    with pytest.raises(BadFilter) as refused:
        found(text)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def test_and_binds_tighter_than_or() -> None:
    tree = parse_filter("a = 1 and b = 2 or c = 3", HIVE_4)
    assert isinstance(tree, Or)
    assert isinstance(tree.children[0], And)


def test_a_thousand_alternatives_are_one_node() -> None:
    tree = parse_filter(" or ".join(f"hr = {number}" for number in range(1000)), HIVE_4)
    assert isinstance(tree, Or)
    assert len(tree.children) == 1000
    listed = parse_filter("(hr) in (1, 2)", HIVE_4)
    assert isinstance(listed, Membership)
    assert listed.literals == (Literal(1, 9), Literal(2, 12))


def test_inverting_swaps_operators() -> None:
    tree = parse_filter("(hr < 5 and ds = 'a') is not true", HIVE_4)
    assert isinstance(tree, Or)
    assert [child.operator for child in tree.children if isinstance(child, Comparison)] == [
        Operator.GREATER_OR_EQUAL,
        Operator.NOT_EQUAL,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "x" * (FILTER_CHARS_MAX + 1),
        "(" * (DEPTH_MAX + 1) + "hr = 5" + ")" * (DEPTH_MAX + 1),
        f"(hr) in ({','.join(['1'] * (CONDITIONS_MAX + 1))})",
    ],
)
def test_filters_beyond_a_limit_are_refused(text: str) -> None:
    with pytest.raises(LimitExceeded) as refused:
        parse_filter(text, HIVE_4)
    assert "configuration" not in refused.value.hint, "no setting changes these limits"


def test_the_deepest_filter_is_parsed_bound_and_planned() -> None:
    text = "hr = 5"
    for depth in range(DEPTH_MAX - 1):
        text = f"({text} {'and' if depth % 2 else 'or'} ds > 'a{depth}')"
    assert found(text) in {0, 1, 2}


def test_the_deepest_filter_is_answered_where_most_of_the_stack_is_used() -> None:
    text, inverted = "hr = 5", "hr = 5"
    for depth in range(DEPTH_MAX - 1):
        text = (
            f"({text} {'and' if depth % 2 else 'or'} ds > 'a{depth}' {'and' if depth % 2 else 'or'} hr > 6)"
        )
        inverted = f"({inverted} {'and' if depth % 2 else 'or'} ds > 'a{depth}') is not true"

    def descend(frames: int) -> int:
        return (
            descend(frames - 1)
            if frames
            else found(text) + found(inverted) + found("(" * 100 + "hr = 5" + ")" * 100)
        )

    used, frame = 0, sys._getframe()  # noqa: SLF001 - there is no other way to count frames
    while frame.f_back is not None:
        used, frame = used + 1, frame.f_back
    assert descend(sys.getrecursionlimit() - used - 400) in range(7)


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "ds",
            "hr",
            "d",
            "t",
            "(",
            ")",
            ",",
            "and",
            "OR",
            "not",
            "in",
            "between",
            "like",
            "is",
            "true",
            "false",
            "const",
            "struct",
            "date",
            "timestamp",
            "=",
            "!=",
            "<",
            ">=",
            "<=>",
            "==",
            "'a'",
            '"b"',
            "5",
            "-3",
            "2020-01-01",
            "`x`",
            "'",
            ";",
            ".",
            "&&",
            "10.5",
            "_",
        ]
    ),
    max_size=14,
)


@given(st.one_of(FRAGMENTS.map(" ".join), st.text(max_size=30)), st.sampled_from([HIVE_2, HIVE_4, LENIENT]))
@settings(max_examples=600, deadline=None)
@example("t = TIMESTAMP ''", HIVE_4)
@example("d = date\n'2020-01-01'", HIVE_4)
def test_any_text_is_answered_or_refused_with_a_typed_error(text: str, dialect: Dialect) -> None:
    try:
        assert found(text, dialect) in {0, 1, 2}
    except (BadFilter, LimitExceeded):
        return


@given(st.text("ab%_x", max_size=8), st.text("abx%_", max_size=8))
@settings(max_examples=400, deadline=None)
def test_sql_patterns_match_like_regular_expressions(pattern: str, text: str) -> None:
    assert parse_pattern(pattern, LikeDialect.SQL).matches(text) == like_sql(pattern, text)


@given(st.lists(st.sampled_from([".*", ".", "a", "b"]), max_size=8).map("".join), st.text("ab\n", max_size=8))
@settings(max_examples=400, deadline=None)
def test_hive_2_patterns_match_like_regular_expressions(pattern: str, text: str) -> None:
    assert parse_pattern(pattern, LikeDialect.REGEX).matches(text) == (
        re.fullmatch(pattern, text, re.DOTALL) is not None
    )


@pytest.mark.parametrize(
    ("pattern", "prefix", "equality", "is_prefix"),
    [
        ("abc", "abc", True, False),
        ("abc%", "abc", False, True),
        ("a_c%", "a", False, False),
        (r"50\%", "50%", True, False),
        ("%", "", False, True),
    ],
)
def test_a_pattern_knows_its_prefix_and_whether_a_range_is_exact(
    pattern: str, prefix: str, equality: bool, is_prefix: bool
) -> None:
    read = parse_pattern(pattern, LikeDialect.SQL)
    assert (read.prefix, read.is_equality, read.is_prefix) == (prefix, equality, is_prefix)


def test_no_pattern_makes_matching_take_exponential_time() -> None:
    assert not parse_pattern("%a" * 2000, LikeDialect.SQL).matches("a" * 1999)


LONG_PIECE = "a_b_c_d_e_f_g_h_i_j"
"""Ten parts: a piece of so many is searched as a regular expression."""


@pytest.mark.parametrize(
    ("pattern", "texts", "others"),
    [
        (LONG_PIECE, ["a1b2c3d4e5f6g7h8i9j"], ["a1b2c3d4e5f6g7h8i9", "a1b2c3d4e5f6g7h8i9k", "ab"]),
        (f"%{LONG_PIECE}%", ["xxa1b2c3d4e5f6g7h8i9jyy", "a-b-c-d-e-f-g-h-i-j"], ["a1b2c3d4e5f6g7h8i9", ""]),
        (f"%{LONG_PIECE}", ["aaa1b2c3d4e5f6g7h8i9j"], ["a1b2c3d4e5f6g7h8i9jj"]),
        ("a.b%__%c", ["a.bxyc", "a.b\nyzc"], ["a.bxc", "axbxyc", "a.bxy"]),
        ("%__%", ["xy", "xyz"], ["", "x"]),
        ("%__%__%", ["wxyz"], ["xyz"]),
    ],
)
def test_pieces_of_many_parts_and_of_wildcards_alone_match_like_any_other(
    pattern: str, texts: list[str], others: list[str]
) -> None:
    matches = parse_pattern(pattern, LikeDialect.SQL).matches
    assert [text for text in (*texts, *others) if matches(text)] == texts


TYPED = an_index([("x", "double"), ("d", "decimal(10,2)")], [("5", "5"), ("5.5", "7.25")])


@pytest.mark.parametrize(
    ("text", "count"),
    [("x = 5", 1), ("x > 5", 1), ("x = '5.5'", 1), ("d = 5", 1), ("d >= '7.25'", 1), ("d = 7", 0)],
)
def test_where_all_types_are_compared_an_integer_is_a_number_of_the_columns_type(
    text: str, count: int
) -> None:
    assert TYPED.count(TYPED.prepare(TABLE, text, Dialect(all_types=True))) == count


@pytest.mark.parametrize("column", ["x", "d"])
def test_a_date_is_not_compared_with_a_number(column: str) -> None:
    with pytest.raises(BadFilter):
        TYPED.prepare(TABLE, f"{column} = DATE '2020-01-01'", Dialect(all_types=True))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (dt.date(2020, 1, 1), '"2020-01-01"'),
        ("it's", '"it\'s"'),
        ('say "hi"', "'say \"hi\"'"),
    ],
)
def test_a_constant_is_written_as_the_grammar_reads_it(value: str | int | dt.date, text: str) -> None:
    written = write_filter(Comparison(Column("ds", 0), Operator.EQUAL, Literal(value, 0)))
    assert written == f"ds = {text}"


@pytest.mark.parametrize("value", ["both ' and \"", Instant(0, 0)])
def test_a_constant_that_the_grammar_cannot_express_is_refused(value: str | Instant) -> None:
    with pytest.raises(BadFilter, match="cannot be written"):
        write_filter(Comparison(Column("ds", 0), Operator.EQUAL, Literal(value, 3)))
