"""Any set of keys gets safe and distinct names, which resemble the keys as users write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.names import NAME_CHARS_MAX, RESERVED_NAMES, check_name, choose_column_name, fold_case
from state.columns.paths import KeyPath
from state.errors import BadInput
from tests.builders.flat.columns import a_key, keys


@given(st.lists(keys(), unique=True, max_size=12))
def test_names_of_unusual_keys_are_safe_and_distinct(many: list[KeyPath]) -> None:
    names: list[str] = []
    for key in many:
        names.append(choose_column_name(key, [*names, "yyyy_mm_dd", "hh"]))
        check_name(names[-1], ["yyyy_mm_dd", "hh"])
    for form in (str.lower, str.casefold, str.upper, fold_case):
        assert len(set(map(form, names))) == len(names)
    assert not RESERVED_NAMES.intersection(names)


@given(keys())
def test_the_name_of_a_lower_case_key_reads_back_as_the_key(key: KeyPath) -> None:
    name = choose_column_name(key, [])
    if "~" not in name and all(member == member.lower() for member in key.members):
        assert tuple(map(unescaped, name.split("/"))) == key.members


@given(keys(), keys())
def test_two_keys_share_a_plain_name_only_if_they_differ_by_case_alone(one: KeyPath, two: KeyPath) -> None:
    if choose_column_name(one, []) == choose_column_name(two, []):
        assert one.text.lower() == two.text.lower()


def unescaped(name: str) -> str:
    return re.sub(
        r"(?:%[0-9a-f]{2})+",
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogatepass"),
        name,
    )


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (a_key("action.name"), "action/name"),
        (KeyPath(("a.b", "c/d")), "a%2eb/c%2fd"),
        (KeyPath(("g:h,`\\",)), "g%3ah%2c%60%5c"),
        (KeyPath((" a ", "~")), "%20a%20/%7e"),
        (a_key("fooBar"), "foobar"),
        (a_key("_rescued"), "_rescued~1"),
        (a_key("ROW__ID"), "row__id~1"),
        (KeyPath(("\u0130",)), "i\u0307"),
        (KeyPath(("\ud800",)), "%ed%a0%80"),
        (KeyPath(("\U0001f600",)), "%f0%9f%98%80"),
        (KeyPath(("\u0438\u043c\u044f",)), "\u0438\u043c\u044f"),
        (KeyPath(("e f", "k-l", "x[0]", "it's")), "e f/k-l/x[0]/it's"),
    ],
)
def test_a_name_is_the_key_in_lower_case_with_slashes(key: KeyPath, name: str) -> None:
    assert choose_column_name(key, []) == name


def test_keys_that_differ_by_case_are_numbered() -> None:
    assert choose_column_name(a_key("FOOBAR"), ["foobar"]) == "foobar~1"
    assert choose_column_name(a_key("fooBar"), ["foobar", "foobar~1"]) == "foobar~2"
    assert choose_column_name(a_key("hh"), ["HH"]) == "hh~1"


@pytest.mark.parametrize("taken", ["\u017f", "\u212a"])
def test_letters_that_java_treats_as_equal_collide_too(taken: str) -> None:
    other = {"\u017f": "s", "\u212a": "k"}[taken]
    assert choose_column_name(a_key(other), [taken]) == f"{other}~1"


def test_a_long_name_is_cut_and_stays_distinct() -> None:
    one, two = (choose_column_name(KeyPath(("x" * 500, end)), []) for end in "ab")
    assert one != two
    assert max(len(one), len(two)) <= NAME_CHARS_MAX
    assert len(choose_column_name(KeyPath(("x" * 500, "a")), [one])) <= NAME_CHARS_MAX


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.b",
        "a:b",
        "a,b",
        "a`b",
        "a\\b",
        "a\tb",
        "a\nb",
        "/a",
        "a/",
        " a",
        "a ",
        "fooBar",
        "x" * 129,
        "a\u200bb",
        "\ud800",
    ],
)
def test_a_name_that_breaks_a_reader_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        check_name(name)


def test_the_name_of_a_partition_key_is_refused() -> None:
    with pytest.raises(BadInput, match="partition"):
        check_name("hh", ["HH"])
