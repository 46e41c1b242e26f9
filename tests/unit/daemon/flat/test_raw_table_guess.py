"""The raw table of users' queries is guessed from the queries themselves, within limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.flat.trial.queries import guess_raw_table, guess_table, read_queries


GOOD = "select get_json_object(json, '$.a') from web.raw"
DOUBLING = (
    "with a0 as (select json from web.raw)"
    + "".join(
        f", a{n} as (select json from a{n - 1} union all select json from a{n - 1})" for n in range(1, 60)
    )
    + " select get_json_object(json, '$.b') from a59"
)
"""Its parser would need gigabytes."""


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


def test_a_query_that_exceeds_the_limits_takes_away_nothing_from_the_others(tmp_path: Path) -> None:
    files = [tmp_path / "good.sql", tmp_path / "hostile.sql"]
    for file, text in zip(files, [GOOD, DOUBLING], strict=True):
        file.write_text(text)
    raw = guess_raw_table(files)
    assert raw is not None
    good, hostile = read_queries(files, raw)
    assert ([key.text for key in good.keys], good.problem) == (["$.a"], "")
    assert (hostile.keys, "too-large" in hostile.problem) == ((), True)
