"""The partition index of a daemon, used like an operator: over HTTP, on the command line, and from its state
file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.service.command_line import call
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.catalog.followed_catalog import catalog_settings
from tests.builders.daemon.http_client import Api
from tests.builders.daemon.tideline_process import daemon, ended, write_config


Tideline = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(stack: Endpoints, topic: str, database: str, tmp_path: Path) -> Path:
    partitions = {"tables": [f"{database}.*"]}
    return write_config(tmp_path, catalog_settings(stack, topic, {"partitions": partitions}))


@pytest.fixture
def tideline(config: Path, capsys: pytest.CaptureFixture[str]) -> Tideline:
    """The command line in this process: a process of its own for each command takes seconds."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = call([*arguments, "-c", str(config)])
        written = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, written.out, written.err)

    return run


@pytest.fixture
def process(config: Path) -> Iterator[subprocess.Popen[str]]:
    with daemon(config) as process:
        yield process


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state", "partitions")


@pytest.fixture
def table(source_sql: Session, database: str) -> str:
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"CREATE TABLE {database}.t (id int) PARTITIONED BY (ds date, hr int)")
    days = " ".join(f"PARTITION (ds='2024-05-0{day}', hr={hour})" for day in (1, 2) for hour in (5, 6))
    source_sql.run(f"ALTER TABLE {database}.t ADD {days}")
    return f"{database}.t"


def test_a_partition_added_at_the_source_is_in_the_answer_to_a_filter(
    source_sql: Session, stack: Endpoints, table: str, process: subprocess.Popen[str], api: Api
) -> None:
    api.until(table, lambda a: len(a["names"]) == 4, names="true")
    source_sql.run(f"ALTER TABLE {table} ADD PARTITION (ds='2024-05-03', hr=5)")
    answer = api.until(table, lambda a: len(a["names"]) == 3, names="true", filter="hr = 5")
    assert answer["names"] == [f"ds=2024-05-0{day}/hr=5" for day in (1, 2, 3)]
    assert (answer["state"], answer["truncated"]) == ("following", False)
    assert answer["event_id"] <= answer["current_event_id"]
    whole = api.get(table, filter="ds = date '2024-05-03'")["partitions"]
    db, _, name = table.partition(".")
    with Metastore([stack.source.metastore]) as client:
        there = client.get_partition(db, name, ["2024-05-03", "5"])
    assert whole[0]["sd"]["location"] == there.sd.location
    assert whole[0]["parameters"] == there.parameters
    assert api.get(table, filter="hr = 5", max="1", names="true")["truncated"] is True
    assert api.get(f"{table}/count", filter="hr < 6")["count"] == 3
    explained = api.get(f"{table}/explain", filter="hr = 5")
    assert (explained["way"], explained["ranges"]) == ("postings of hr", ["hr = 5"])
    assert api.get(f"{table}/names_ps", values="2024-05-01/")["names"] == [
        f"ds=2024-05-01/hr={h}" for h in (5, 6)
    ]
    everything = api.get(f"{table}/by_expr", expr="AQEA")
    assert (len(everything["partitions"]), everything["has_unknown"]) == (5, True)
    mistake = api.get(table, filter="ds = 1 and")
    assert (mistake["code"], mistake["context"]["position"]) == ("bad-filter", 10)
    ended(process)


def test_the_command_line_works_on_a_live_daemon_and_on_its_state_file(
    source_sql: Session,
    table: str,
    config: Path,
    process: subprocess.Popen[str],
    api: Api,
    tideline: Tideline,
) -> None:
    api.until(table, lambda a: len(a["names"]) == 4, names="true")

    def assert_answers() -> None:
        assert tideline("partitions", "filter", table, "hr = 5", "--names").stdout.split() == [
            "ds=2024-05-01/hr=5",
            "ds=2024-05-02/hr=5",
        ]
        assert "file:" in tideline("partitions", "filter", table).stdout
        assert tideline("partitions", "count", table, "ds > '2024-05-01'").stdout == "2\n"
        explained = tideline("partitions", "explain", table, "hr = 5").stdout
        assert "postings of hr" in explained
        assert "\n  hr = 5\n" in explained
        assert tideline("partitions", "names", table, "", "6").stdout.count("hr=6") == 2
        assert "4 partitions match the source" in tideline("partitions", "check").stdout
        assert "ds date, hr int" in tideline("partitions", "list").stdout
        wrong = tideline("partitions", "filter", table, "hour = 5")
        assert wrong.returncode == 1
        assert "position=0" in wrong.stderr
        assert tideline("partitions", "load", table).returncode == 0

    assert_answers()
    ended(process)
    assert_answers()
    source_sql.run(f"ALTER TABLE {table} DROP PARTITION (ds='2024-05-01')")
    differs = tideline("partitions", "check", table)
    assert differs.returncode == 1
    assert "surplus ds=2024-05-01/hr=5" in differs.stdout
    repaired = tideline("partitions", "check", table, "--repair")
    assert repaired.returncode == 0, repaired.stderr
    assert "is following, 2 partitions" in repaired.stdout
    assert tideline("partitions", "check", table).returncode == 0
    assert config.exists()


@pytest.mark.long
def test_a_large_table_is_loaded_in_pieces_while_queries_are_answered(
    source_sql: Session,
    stack: Endpoints,
    database: str,
    table: str,
    process: subprocess.Popen[str],
    api: Api,
    tideline: Tideline,
) -> None:
    with Metastore([stack.source.metastore]) as client:
        client.create_table(a_table(database, "big", partition_keys=("a", "b"), external=True))
        made = client.get_table(database, "big")
        client.add_partitions(database, "big", [a_partition(made, str(n % 40), str(n)) for n in range(3_000)])
    api.until(f"{database}.big/count", lambda a: a["count"] == 3_000)
    loaded = tideline("partitions", "load", f"{database}.big")
    assert loaded.returncode == 0, loaded.stderr
    assert "is following, 3000 partitions" in loaded.stdout
    assert "of 3000 loaded" in loaded.stderr
    assert api.get(f"{database}.big/count", filter="a = '7'")["count"] == 75
