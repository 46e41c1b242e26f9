from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.decoding.messages import write
from handlers.decoding.records.record_writer import split_message


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
FILES = st.lists(TEXTS, max_size=12)


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(
        st.sampled_from(
            ["WRITE", "INSERT", "CREATE_TABLE", "ADD_PARTITION", "ALTER_PARTITIONS", "DROP_PARTITION"]
        )
    )
    message: dict[str, Any] = {"db": "d", "tableObjJson": draw(TEXTS), "timestamp": 1}
    if kind in {"WRITE", "INSERT", "CREATE_TABLE"}:
        return kind, message | {"files": draw(FILES)}
    count = draw(st.integers(0, 12))
    message["partitions"] = [{"day": draw(TEXTS)} for _ in range(count)]
    if kind != "DROP_PARTITION":
        message["partitionListJson"] = [draw(TEXTS) for _ in range(count)]
    if kind == "ADD_PARTITION" and draw(st.booleans()):
        message["partitionFiles"] = [
            {"partitionName": f"day={n}", "files": draw(FILES)} for n in range(count)
        ]
    return kind, message


def whole(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The naive reading of parts: what they share, their lists one after the other, a partition's files
    together."""
    joined = dict(parts[0])
    for name, value in joined.items():
        if isinstance(value, list):
            joined[name] = [item for part in parts for item in part[name]]
    for name in ("partitions", "partitionListJson", "partitionFiles"):
        if "partitionFiles" in joined and name in joined:
            joined[name] = without_repeats(
                joined[name], [owned["partitionName"] for owned in whole_files(parts)]
            )
    return joined


def whole_files(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [owned for part in parts for owned in part.get("partitionFiles") or ()]


def without_repeats(values: list[Any], owners: list[str]) -> list[Any]:
    found: dict[str, Any] = {}
    for owner, value in zip(owners, values, strict=True):
        if owner in found and isinstance(value, dict) and "files" in value:
            found[owner] = value | {"files": found[owner]["files"] + value["files"]}
        else:
            found[owner] = value
    return list(found.values())


@given(messages(), st.integers(50, 3_000))
def test_the_parts_are_together_the_whole(given_message: tuple[str, dict[str, Any]], room: int) -> None:
    kind, message = given_message
    assert whole(split_message(kind, message, room, room)) == message


@given(messages(), st.integers(50, 3_000))
def test_a_part_above_the_limit_has_a_single_item(
    given_message: tuple[str, dict[str, Any]], room: int
) -> None:
    kind, message = given_message
    for part in split_message(kind, message, room, room):
        if len(write(part)) > room:
            lists = [value for value in part.values() if isinstance(value, list)]
            assert all(len(value) <= 1 for value in lists)
            assert all(
                len(owned["files"]) <= 1 or len(lists) == 1 for owned in part.get("partitionFiles") or ()
            )


@pytest.mark.parametrize("kind", ["ALTER_TABLE", "COMMIT_TXN", "UPDATE_PART_COL_STAT_EVENT", "BRAND_NEW"])
def test_a_message_without_lists_is_not_split(kind: str) -> None:
    message = {"files": ["x" * 100] * 10}
    assert split_message(kind, message, 50, 50) == [message]


def test_a_large_table_object_uses_the_hard_limit_instead_of_a_record_for_every_item() -> None:
    message = {"tableObjJson": "x" * 900, "partitions": [{"day": str(n)} for n in range(100)]}
    assert len(split_message("DROP_PARTITION", message, 1_000, 100_000)) == 1
    assert len(split_message("DROP_PARTITION", message, 1_000, 1_000)) > 10
