"""Evidence agrees with the texts it is derived from, and no text raises an error, however hostile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns import sniffing
from state.columns.counts.observations import KeyCounts
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.sniffing import find_end, sniff
from state.columns.types import NOTHING, ColumnType, Evidence, integers
from tests.builders.flat.columns import BOOLEANS, FLOATS, TEXT, a_key, members


RULES = FlatRules()
A = a_key("a")


def evidence_of(value: str, rules: FlatRules = RULES) -> Evidence:
    """Return the evidence of one row whose member ``a`` has the JSON text ``value``."""
    found = sniff([f'{{"a":{value}}}'], rules)
    assert not found.malformed
    return found.keys[A].evidence if A in found.keys else NOTHING


@pytest.mark.parametrize(
    ("value", "evidence"),
    [
        ("1", integers(1, 1)),
        ("-0", integers(0, 0)),
        ("9223372036854775807", integers(9223372036854775807, 9223372036854775807)),
        ("9223372036854775808", TEXT),
        ("123456789012345678901", TEXT),
        ("9" * 5_000, TEXT),
        ("1.10", FLOATS),
        ("1e5", FLOATS),
        ("-0.0", FLOATS),
        ("1e400", TEXT),
        ("-1E400", TEXT),
        ("true", BOOLEANS),
        ('"7"', TEXT),
        ('""', TEXT),
        ('"true"', TEXT),
        ('"a\tb"', TEXT),
        ('"\\ud800"', TEXT),
        ("[]", TEXT),
        ("{}", TEXT),
        ("null", NOTHING),
        ("1}trailing{", integers(1, 1)),
        ('1,"a":"x"', TEXT),
        ('null,"a":2', integers(2, 2)),
        ('2,"a":null', NOTHING),
    ],
)
def test_a_value_gives_the_evidence_of_its_kind(value: str, evidence: Evidence) -> None:
    assert evidence_of(value) == evidence


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nothing",
        "[1]",
        "7",
        '"a"',
        "null",
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":01}',
        '{"a":1,}',
        "{a:1}",
        '{"a":1',
        '{"a":' * 100_000,
        "[" * 1_000_000,
        "\ufeff{}",
    ],
)
def test_texts_that_are_not_json_objects_are_malformed(text: str) -> None:
    found = sniff([text, '{"a":1}'], RULES)
    assert (found.rows, found.malformed) == (2, 1)
    assert found.keys == {A: KeyCounts(2, 1, 0, integers(1, 1))}
    found.check()


def test_anything_but_a_comma_behind_the_document_is_counted() -> None:
    texts = ['{"a":1}', ' {"a":1} , \n', '{"a":1}{"a":"x"}', '{"a":1} x', "[]{}"]
    seen = sniff(texts, FlatRules())
    assert (seen.trailing, seen.malformed) == (2, 1)
    assert not seen.keys[KeyPath(("a",))].evidence.has_text


def test_a_value_of_a_megabyte_is_text() -> None:
    assert evidence_of('"' + "x" * (1 << 20) + '"') == TEXT


def test_keys_that_cannot_be_named_are_left_out() -> None:
    text = json.dumps({"": 1, "\ud800": 2, "x" * 2000: 3, "a": {"": {"b": 4}}})
    assert set(sniff([text], RULES).keys) == {A}


def test_too_many_keys_are_cut_off_and_known_keys_keep_counting() -> None:
    flood = json.dumps({f"k{n}": n for n in range(1_000)})
    found = sniff([flood, flood], RULES, keys_max=10)
    assert len(found.keys) == 10
    assert all(seen.nonnull == 2 for seen in found.keys.values())


def test_keys_deeper_than_the_rules_are_within_the_text_of_their_ancestor() -> None:
    found = sniff(['{"a":{"b":{"c":1}}}'], FlatRules(depth_max=2))
    assert set(found.keys) == {A, a_key("a.b")}


def test_quoted_integers_count_as_integers_only_if_configured_and_canonical() -> None:
    rules = FlatRules(numeric_strings=frozenset({A}))
    assert evidence_of('"7"', rules) == integers(7, 7)
    assert evidence_of('"-12"', rules) == integers(-12, -12)
    for text in (
        '"03097"',
        '"+7"',
        '"-0"',
        '"1e5"',
        '" 7"',
        '"7\\n"',
        '"\u0667"',
        '""',
        '"' + "9" * 50 + '"',
    ):
        assert evidence_of(text, rules) == TEXT
    assert sniff(['{"b":"7"}'], rules).keys[a_key("b")].evidence == TEXT


VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(members(), inner, max_size=3)),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(members(), VALUES, max_size=4)


@given(st.lists(DOCUMENTS, max_size=5))
def test_every_key_has_the_evidence_that_a_naive_walk_finds(documents: list[dict[str, Any]]) -> None:
    found = sniff(map(json.dumps, documents), RULES)
    assert {key: (seen.values, seen.evidence) for key, seen in found.keys.items()} == naive(documents)
    found.check()


@given(st.lists(DOCUMENTS, max_size=5), st.data())
def test_chosen_keys_have_the_evidence_that_all_keys_have(
    documents: list[dict[str, Any]], data: st.DataObject
) -> None:
    every = sniff(map(json.dumps, documents), RULES)
    chosen = data.draw(st.sets(st.sampled_from([*every.keys, a_key("no.such.key")])))
    assert sniff(map(json.dumps, documents), RULES, chosen).keys == {
        key: seen for key, seen in every.keys.items() if key in chosen
    }


def naive(documents: list[dict[str, Any]]) -> dict[KeyPath, tuple[int, Evidence]]:
    found: dict[KeyPath, tuple[int, Evidence]] = {}

    def walk(above: tuple[str, ...], value: Any) -> None:
        if above and value is not None:
            count, evidence = found.get(KeyPath(above), (0, NOTHING))
            found[KeyPath(above)] = (count + 1, evidence.join(naive_evidence(value)))
        for name, inner in value.items() if isinstance(value, dict) else ():
            if name and is_unicode(name):
                walk((*above, name), inner)

    for document in documents:
        walk((), document)
    return found


def is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def naive_evidence(value: Any) -> Evidence:
    kinds = {
        bool: BOOLEANS,
        int: integers(value, value) if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else TEXT,
        float: FLOATS,
    }
    return kinds.get(type(value), TEXT)


@given(st.text())
def test_no_text_raises(text: str) -> None:
    sniff([text, f'{{"a":{text}}}'], RULES).check()


def test_types_follow_from_many_rows() -> None:
    rows = ['{"a":1}', '{"a":300}', '{"a":null}', "{}", '{"a":2.5}']
    assert sniff(rows[:4], RULES).keys[A].evidence.type is ColumnType.SMALLINT
    assert sniff(rows, RULES).keys[A].evidence.type is ColumnType.DOUBLE


def test_a_document_that_is_too_long_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniffing, "DOCUMENT_CHARS_MAX", 12)
    found = sniff(['{"a":12345}', '{"a":123456}', '{"a":1234567}'], RULES)
    assert (found.rows, found.malformed, found.keys[A].values) == (3, 1, 2)


@pytest.mark.parametrize(("text", "end"), [('{"a":1}', 7), (' {"a":1} {"a":2}', 8), ("[1]", 0), ("", 0)])
def test_the_first_document_of_a_text_ends_before_what_follows(text: str, end: int) -> None:
    assert find_end(text) == end
