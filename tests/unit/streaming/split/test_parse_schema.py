from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from state.columns.paths import KeyPath
from state.columns.types import ColumnType
from streaming.split.parse_schema import Parse, field_path, plan_parses, quote
from tests.builders.flat.columns import a_key


NAMES = st.sampled_from(["a", "b", "A", "a.b", "`", "_doubt", "é"])
KEYS = st.lists(NAMES, min_size=1, max_size=4).map(lambda members: KeyPath(tuple(members)))
TYPED = st.dictionaries(KEYS, st.sampled_from([each for each in ColumnType if each is not ColumnType.NULL]))


def leaves(struct: dict[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for field in struct["fields"]:
        members = (*above, field["name"])
        inner = field["type"]
        assert members not in found
        found |= leaves(inner, members) if isinstance(inner, dict) else {members: inner}
    return found


@given(TYPED)
def test_every_key_is_in_one_parse_without_nested_keys(
    types: dict[KeyPath, ColumnType],
) -> None:
    dealt = plan_parses(types)
    assert sorted(key for parse in dealt for key in parse.types) == sorted(types)
    for parse in dealt:
        keys = list(parse.types)
        assert not any(one is not other and one.is_within(other) for one in keys for other in keys)


@given(TYPED)
def test_there_are_at_most_as_many_parses_as_nesting_levels(
    types: dict[KeyPath, ColumnType],
) -> None:
    chains = [sum(key.is_within(other) for other in types) for key in types]
    assert len(plan_parses(types)) == max(chains, default=1)


@given(TYPED)
def test_a_schema_has_exactly_the_keys_and_a_field_for_doubtful_rows(
    types: dict[KeyPath, ColumnType],
) -> None:
    for parse in plan_parses(types):
        for schema in (parse.typed_schema(), parse.text_schema()):
            assert set(leaves(json.loads(schema))) == {key.members for key in parse.types} | {(parse.doubt,)}
        assert set(leaves(json.loads(parse.text_schema())).values()) == {"string"}


def test_bytes_are_read_as_shorts_because_the_reader_wraps_them() -> None:
    parse = Parse({a_key("a"): ColumnType.TINYINT, a_key("b"): ColumnType.INT})
    assert leaves(json.loads(parse.typed_schema())) == {
        ("a",): "short",
        ("b",): "integer",
        ("_doubt",): "string",
    }


def test_the_field_for_doubtful_rows_avoids_the_names_of_keys() -> None:
    assert Parse({a_key("_doubt"): ColumnType.INT, a_key("_doubt_.x"): ColumnType.INT}).doubt == "_doubt__"


def test_a_parse_of_texts_only_is_never_doubtful() -> None:
    assert not Parse({a_key("a"): ColumnType.STRING}).has_typed
    assert Parse({a_key("a"): ColumnType.STRING, a_key("b"): ColumnType.BOOLEAN}).has_typed


def test_only_backticks_are_escaped_in_quoted_names() -> None:
    assert quote("a`b.c") == "`a``b.c`"
    assert field_path("row.p0", ("a.b", "`")) == "row.p0.`a.b`.````"
