"""From users' queries to columns: mined keys go through the key log into a flat table, with a reason for each
decision."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.flat.settings import FlatConfig
from daemon.keylog.answers import read_keys, save_decision
from daemon.keys.text import keys_text
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from streaming.keylog.log import KeyLog
from streaming.mining.miner import Miner, mine
from streaming.mining.model import MiningRules, RawTable
from streaming.mining.sources.directory import Directory
from streaming.mining.sources.sql_files import SqlFilesSource
from tests.builders.flat.streams import Stream, key, rules


HOUR_S = 3_600
FIRST = int(time.time()) // HOUR_S * HOUR_S - 10 * HOUR_S
QUERY = """\
select get_json_object(json, '$.action.name'), get_json_object(json, '$.action.nmae'),
       get_json_object(json, '$.http.status')
from web.raw_events where get_json_object(json, '$.n') > 10;
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KeyLog]:
    with KeyLog.open(f"sqlite:///{tmp_path}/keylog.db") as opened:
        yield opened


@pytest.fixture
def stream(tmp_path: Path, database: str, spark: Any) -> Stream:
    spark.sql(f"CREATE DATABASE {database}")
    return Stream.of_directory(
        tmp_path,
        database,
        rules("epoch", probation_values=1),
        keylog_url=f"sqlite:///{tmp_path}/keylog.db",
        raw_table="web.raw_events",
    )


def test_requested_keys_become_columns_and_a_misspelling_is_reported(
    stream: Stream, log: KeyLog, spark: Any, tmp_path: Path
) -> None:
    from handlers.files.systems.schemes import open_file_systems

    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "names.sql").write_text(QUERY)
    tree = Directory.open(f"file:{tmp_path}/reports", open_file_systems())
    miner = Miner(MiningRules((RawTable("web.raw_events", "json"),)))
    assert mine(SqlFilesSource("reports", tree, "ann"), miner, log).key_requests == 4

    flat = FlatConfig(
        table=stream.settings.name,
        raw_table="web.raw_events",
        rules=FlatRules(whitelist=frozenset({KeyPath(("epoch",))}), probation_values=1),
    )
    for name, hour in (("a", 0), ("b", 1)):
        stream.land(name, [event(hour, n) for n in range(40)])
        stream.run(spark)
    told = {row["key"]: row for row in read_keys(log, flat.keyed())["keys"]}
    assert {row["column"] for row in told.values()} == {"epoch", "action/name", "http/status", "n", None}
    assert (told["$.n"]["type"], told["$.http.status"]["type"]) == ("tinyint", "smallint")
    assert (told["$.action.nmae"]["verdict"], told["$.action.nmae"]["column"]) == ("unseen", None)
    assert told["$.action.name"]["fill"] == 1.0

    save_decision(log, flat.keyed(), "always", key("user"), None, "ann", remove=False)
    save_decision(log, flat.keyed(), "skip", "$.n", None, "ann", remove=False)
    stream.land("c", [event(2, n) for n in range(40)])
    stream.run(spark)
    answer = read_keys(log, flat.keyed())
    told = {row["key"]: row for row in answer["keys"]}
    assert answer["reasons_from"] == "driver"
    assert told["$.user"]["column"] == "user"
    assert (told["$.n"]["verdict"], told["$.n"]["column"]) == ("skipped", None)
    assert "no row contains it" in keys_text(answer, why=True, limit=100)


def event(hour: int, n: int) -> dict[str, Any]:
    return {
        "epoch": FIRST + hour * HOUR_S + n,
        "action": {"name": f"a{n % 3}"},
        "http": {"status": 200 + n},
        "n": n,
        "user": f"u{n}",
    }
