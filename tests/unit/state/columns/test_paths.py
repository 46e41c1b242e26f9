"""Different texts of a key give the same key, and its canonical text reads back as the key."""

from __future__ import annotations

import pytest
from hypothesis import given

from state.columns.paths import KeyPath, parse_column_key
from state.errors import BadInput
from tests.builders.flat.columns import a_key, keys, spark_json_path


@given(keys())
def test_the_text_of_a_key_reads_back_as_the_key(key: KeyPath) -> None:
    assert KeyPath.of_json_path(key.text) == key


@pytest.mark.parametrize(
    ("text", "dotted"),
    [
        ("$.action.name", "action.name"),
        ("$['action']['name']", "action.name"),
        ('$["action"].name', "action.name"),
        ("$.items[0].id", "items"),
        ("$.items[*]", "items"),
        ("$.items.*", "items"),
        ("$.items[0:2].id", "items"),
    ],
)
def test_all_spellings_of_a_path_give_one_key(text: str, dotted: str) -> None:
    assert KeyPath.of_json_path(text) == a_key(dotted)


@pytest.mark.parametrize(
    "text", ["", "a.b", "$", "$.", "$..a", "$[0]", "$.*", "$['']", "$" + ".a" * 40, "$." + "a" * 2000]
)
def test_a_text_that_names_no_member_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        KeyPath.of_json_path(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [("$.w.*", "$.w"), ("$.w.x[0]", "$.w.x"), ("w[*].x", "$.w"), ("$.w[1:2]", "$.w"), ("$[0]", None)],
)
def test_a_path_with_a_subscript_or_wildcard_is_no_column_and_the_hint_names_one(
    text: str, key: str | None
) -> None:
    with pytest.raises(BadInput, match="array subscript or a wildcard") as refused:
        parse_column_key(text)
    assert refused.value.hint.startswith(f"Use {key}: " if key else "")


@given(keys())
def test_every_key_can_be_the_key_of_a_column(key: KeyPath) -> None:
    assert parse_column_key(key.text) == key
    assert parse_column_key("a.b") == a_key("a.b")


@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("a", "$.a"),
        ("a ", "$.a "),
        ("it's", "$.it's"),
        ("b]", "$.b]"),
        ("a*", "$.a*"),
        ("a\\b", "$.a\\b"),
        ("?", "$.?"),
        ("\u00a0n", "$.\u00a0n"),
        ("a.b", "$['a.b']"),
        ("c[0]", "$['c[0]']"),
        ("*a", "$['*a']"),
        (" a", None),
        ("*", None),
        ("it's.b", None),
    ],
)
def test_the_builders_path_for_get_json_object_is_the_one_that_spark_reads(
    member: str, path: str | None
) -> None:
    """Each path was tested on PySpark 4.0.0."""
    assert spark_json_path(KeyPath((member,))) == path


def test_a_key_is_within_itself_and_its_ancestors() -> None:
    assert a_key("a.b").is_within(a_key("a"))
    assert a_key("a.b").is_within(a_key("a.b"))
    assert not a_key("ab").is_within(a_key("a"))
    assert a_key("a").parent is None
    assert a_key("a.b").parent == a_key("a")
