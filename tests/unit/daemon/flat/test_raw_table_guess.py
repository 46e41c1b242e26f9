"""The raw table of users' queries is guessed from the queries themselves."""

from __future__ import annotations

import pytest

from daemon.flat.trial.queries import guess_table


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["select get_json_object(json, '$.a') from raw_events"], ("default.raw_events", "json")),
        (["SELECT get_json_object(e.`Body`, '$.a') FROM web.`Raw` e"], ("web.raw", "body")),
        (
            [
                "select get_json_object(r.v, '$.a'), u.name from web.raw r join web.users u on u.id = r.id",
                "select json_tuple(v, 'b') from raw",
            ],
            ("web.raw", "v"),
        ),
        (
            [
                "select get_json_object(j, '$.a'), get_json_object(j, '$.b') from web.big",
                "select get_json_object(j, '$.a') from web.small",
            ],
            ("web.big", "j"),
        ),
    ],
)
def test_the_table_with_the_most_keys_is_chosen(texts: list[str], expected: tuple[str, str]) -> None:
    found = guess_table(texts)
    assert found is not None
    assert (found.name, found.json_column) == expected


@pytest.mark.parametrize(
    "text", ["", "select 1", "select a from b", "get_json_object(", "from `x.y`.z.w join 5"]
)
def test_queries_without_keys_give_no_table(text: str) -> None:
    assert guess_table([text]) is None
