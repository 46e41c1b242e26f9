"""A driver that runs by hand first reads the SQL files of the configuration, within limits."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from daemon.flat.driver import mine_query_files
from daemon.service.configuration import load_config
from streaming.keylog.log import KeyLog
from streaming.keylog.log_reader import read_requested_keys


DOUBLING = (
    "with a0 as (select json from web.raw)"
    + "".join(
        f", a{n} as (select json from a{n - 1} union all select json from a{n - 1})" for n in range(1, 60)
    )
    + " select get_json_object(json, '$.b') from a59"
)
"""Its parser would need gigabytes."""


def test_a_query_that_exceeds_the_limits_is_skipped_and_not_read_again(tmp_path: Path) -> None:
    sql = tmp_path / "sql"
    sql.mkdir()
    (sql / "good.sql").write_text("select get_json_object(json, '$.a') from web.raw")
    (sql / "hostile.sql").write_text(DOUBLING)
    path = tmp_path / "tideline.yaml"
    path.write_text(
        f"state: {{dir: {tmp_path}/state}}\n"
        "mining:\n"
        "  raw_tables: {web.raw: {json_column: json}}\n"
        f"  sources: {{reports: {{kind: sql-files, path: {sql}, user: ann}}}}\n"
    )
    config = load_config(path)
    assert mine_query_files(config) == 2
    assert mine_query_files(config) == 0
    with closing(KeyLog.open(f"sqlite:///{tmp_path}/state/keylog.db")) as log:
        assert [each.key.text for each in read_requested_keys(log, "web.raw", 30)] == ["$.a"]
